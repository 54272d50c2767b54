"""The ``holdfast`` command: finds the verb, loads only that one, turns errors into sentences."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from holdfast.errors import HoldfastError
from holdfast.version import __version__

_VERBS = {
    "ls": "List sessions, last updated first.",
    "verify": "Read a whole session and report every problem.",
}


_READER_GONE = 141  # as the shell tells it: 128 + SIGPIPE


class _Verbs(click.Group):
    """A group whose commands are imported when they are called, so that none pays for another."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # here, because click makes it exit code 1
            sys.stdout = None  # nothing is left to be flushed at exit
            ctx.exit(_READER_GONE)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's signature
        if cmd_name not in _VERBS:
            return None
        command: click.Command = import_module(f"holdfast.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's signature
        with formatter.section("Commands"):
            formatter.write_dl(list(_VERBS.items()))


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="holdfast", message="%(prog)s %(version)s")
def cli() -> None:
    """Keep agent sessions alive through anything."""


def main() -> None:
    """Run the command line; a mistake gets one sentence and an exit code, never a traceback."""
    try:
        sys.exit(cli.main(prog_name="holdfast", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except click.Abort:
        sys.exit(130)
    except HoldfastError as error:
        click.echo(f"holdfast: {error}", err=True)
        sys.exit(error.exit_code)
