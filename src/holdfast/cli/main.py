"""The ``holdfast`` command: finds the verb, loads only that one, turns errors into sentences."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

import click

from holdfast.errors import HoldfastError
from holdfast.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_VERBS = {
    "config": "Show the settings that count here, and who would answer.",
    "login": "Keep a provider's key.",
    "approve": "Answer what a running session asks.",
    "attach": "Come back to a session that runs, or have it run again.",
    "cancel": "Cancel the turn that a session runs.",
    "completion": "Print what a shell needs to complete commands and sessions.",
    "export": "Write a session in another format.",
    "drill": "Strike the agent on purpose, in a scratch home, and see what is left.",
    "fork": "Copy a session, to go on in the copy.",
    "gc": "Make room: old sessions to the trash, leftovers removed.",
    "import": "Take over sessions of other agents, and archives.",
    "ls": "List sessions, last updated first.",
    "path": "Print where a session is on disk.",
    "rename": "Give a session a title.",
    "restore": "Bring sessions back from the trash, or list it.",
    "rm": "Move sessions to the trash.",
    "doctor": "Look at everything, and say what is wrong and what can be done.",
    "migrate": "Take a legacy store over for good.",
    "show": "Read a conversation.",
    "tag": "Give a session tags, or list them.",
    "tail": "Show the end of a session, and follow it.",
    "search": "Find messages, in all sessions.",
    "send": "Send a prompt to a session in the background.",
    "stats": "Show what was done, and what it cost.",
    "status": "Show what is running.",
    "stop": "Have a runner leave.",
    "rewind": "Take prompts back, with the files that were changed since.",
    "tree": "Show the branches of a session.",
    "trust": "Accept what a project's configuration asks for.",
    "verify": "Read a whole session and report every problem.",
}


_MODULES = {"import": "importing"}  # verbs that cannot be the name of a module
_ASK = "ask"
_READER_GONE = 141  # as the shell tells it: 128 + SIGPIPE


class _Verbs(click.Group):
    """A group whose commands are imported when they are called, so that none pays for another."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # here, because click makes it exit code 1
            sys.stdout = None  # nothing is left to be flushed at exit
            ctx.exit(_READER_GONE)
        except OSError as error:
            if error.errno != errno.ENOSPC or error.filename is not None:
                raise
            sys.stdout = None
            _say("holdfast: Standard output cannot be written: there is no room.")
            ctx.exit(1)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take anything that is no verb for a prompt and its options."""
        if ctx.resilient_parsing and not args:
            return super().parse_args(ctx, args)  # the shell asks what the first word may be
        if not args or args[0] not in {*_VERBS, "-h", "--help", "--version"}:
            if args and not ctx.resilient_parsing:
                _check_meant(args)
            args = [_ASK, *_with_prompt(args)]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer the verbs, without loading any; and the options of a prompt."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415  only for the shell

        if not incomplete.startswith("-"):
            fitting = (each for each in _VERBS.items() if each[0].startswith(incomplete))
            return [CompletionItem(name, help=told) for name, told in fitting]
        ask = self.get_command(ctx, _ASK)
        assert ask is not None
        asked = click.Context(ask, parent=ctx, info_name=_ASK, resilient_parsing=True)
        offered = [
            *ask.shell_complete(asked, incomplete),
            *super().shell_complete(ctx, incomplete),
        ]
        return list({each.value: each for each in offered}.values())

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the options of a prompt as well: they stand behind ``holdfast`` alone."""
        ask = self.get_command(ctx, _ASK)
        assert ask is not None
        own = [*ask.params, *self.get_params(ctx)]
        own = [parameter for parameter in own if isinstance(parameter, click.Option)]
        records = filter(None, (parameter.get_help_record(ctx) for parameter in own))
        with formatter.section("Options"):
            formatter.write_dl(list(records))
        self.format_commands(ctx, formatter)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's signature
        if cmd_name not in (*_VERBS, _ASK):
            return None
        command: click.Command = import_module(
            f"holdfast.cli.{_MODULES.get(cmd_name, cmd_name)}"
        ).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's signature
        with formatter.section("Commands"):
            formatter.write_dl(list(_VERBS.items()))


def _check_meant(args: list[str]) -> None:
    """Raise if the first word looks like a verb that was mistyped."""
    if args[0].isalpha() and not {"-p", "--print"} & set(args):
        import difflib  # noqa: PLC0415  only for a mistake

        near = difflib.get_close_matches(args[0], _VERBS, 1)
        if near:
            raise click.UsageError(f"There is no command {args[0]!r}. Did you mean {near[0]}?")


def _with_prompt(args: list[str]) -> list[str]:
    """Return the arguments with a prompt that begins with a dash put where it is no option."""
    for place, word in enumerate(args[:-1]):
        following = args[place + 1]
        if word == "--":
            break
        if word in ("-p", "--print") and following[:1] == "-" and len(following.split()) > 1:
            return [*args[:place], *args[place + 2 :], word, "--", following]
    return args


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="holdfast", message="%(prog)s %(version)s")
def cli() -> None:
    """Keep agent sessions alive through anything."""


def main() -> None:
    """Run the command line; a mistake gets one sentence and an exit code, never a traceback."""
    _fill_closed_places()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what the locale cannot spell is no reason to fail
            stream.reconfigure(errors="replace")
    try:
        sys.exit(cli.main(prog_name="holdfast", standalone_mode=False))
    except click.exceptions.NoArgsIsHelpError as error:
        _say(error.format_message())
        sys.exit(2)
    except click.ClickException as error:
        _say(f"holdfast: {error.format_message()}")
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except HoldfastError as error:
        _say(f"holdfast: {error}")
        sys.exit(error.exit_code)


def _say(text: str) -> None:
    with suppress(OSError):  # the exit code says it too
        click.echo(text, err=True)


def _fill_closed_places() -> None:
    """Take the places of standard streams that are closed, so that no file of ours gets them.

    Whatever the interpreter or a library prints there would go into that file.
    """
    if None in (sys.stdin, sys.stdout, sys.stderr):
        from holdfast.journal.files import Files  # noqa: PLC0415  hardly ever needed

        files = Files()
        while (descriptor := files.open_read(os.devnull)) <= 2:
            pass
        files.close(descriptor)
