"""The ``holdfast`` command: find the verb, import only that, turn errors into sentences."""

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
from holdfast.runtime.config.secret_variables import conceal
from holdfast.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Commands by purpose, as `holdfast --help` lists them.
_GROUPS = {
    "Talk": {
        "fork": "Copy a session, to continue in the copy.",
        "rewind": "Undo prompts and the file changes made since.",
        "tree": "Show the branches of a session.",
    },
    "Background": {
        "status": "List running sessions.",
        "attach": "Follow a session, and send it prompts.",
        "send": "Send a prompt to a session in the background.",
        "approve": "Approve or deny a tool call that is waiting.",
        "cancel": "Cancel the running turn of a session.",
        "stop": "Stop a background runner.",
    },
    "Library": {
        "ls": "List sessions, most recently updated first.",
        "search": "Search the messages of all sessions.",
        "show": "Show a conversation.",
        "tail": "Show the end of a session, and follow it.",
        "stats": "Show tokens, cost and activity.",
        "import": "Import sessions of other agents, and archives.",
        "export": "Write a session in another format.",
        "rename": "Set a session's title.",
        "tag": "Add, remove or list tags.",
        "path": "Print where a session is on disk.",
        "rm": "Move sessions to the trash.",
        "restore": "Restore sessions from the trash, or list the trash.",
        "gc": "Free disk space.",
        "migrate": "Import a legacy store and retire its files.",
    },
    "Repair": {
        "doctor": "Check everything in the home folder, and repair it.",
        "verify": "Read a whole session and report every problem.",
        "drill": "Crash the agent on purpose and check that nothing is lost.",
    },
    "Set-up": {
        "config": "Show the effective settings and which model will be used.",
        "login": "Store a provider's API key.",
        "trust": "Accept a session from elsewhere, or trust a project's configuration.",
        "completion": "Print the completion script for a shell.",
    },
}
_VERBS = {name: text for group in _GROUPS.values() for name, text in group.items()}
_WITHOUT_VERB = {
    "(no command)": "Start a chat in this folder.",
    "-p PROMPT": "Answer one prompt and exit.",
}


_MODULES = {"import": "import_"}  # verbs that cannot be the name of a module
_ASK = "ask"
_READER_GONE = 141  # as the shell tells it: 128 + SIGPIPE


class _Verbs(click.Group):
    """A group that imports a command when it is called, so that start-up is fast."""

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
            _say("holdfast: Cannot write to standard output: the disk is full.")
            ctx.exit(1)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Treat anything that is not a verb as a prompt with options."""
        if ctx.resilient_parsing and not args:
            return super().parse_args(ctx, args)  # the shell asks what the first word may be
        if not args or args[0] not in {*_VERBS, "-h", "--help", "--version"}:
            if args and not ctx.resilient_parsing:
                _check_meant(args)
            args = [_ASK, *_with_prompt(args)]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the verbs, without importing any, and the options of ``-p``."""
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
        """Write the commands, then the options of the chat and of ``-p``, which need no command."""
        self.format_commands(ctx, formatter)
        ask = self.get_command(ctx, _ASK)
        assert ask is not None
        own = [*ask.params, *self.get_params(ctx)]
        own = [parameter for parameter in own if isinstance(parameter, click.Option)]
        records = filter(None, (parameter.get_help_record(ctx) for parameter in own))
        with formatter.section("Options of the chat and of -p"):
            formatter.write_dl(list(records))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's signature
        if cmd_name not in (*_VERBS, _ASK):
            return None
        module = (
            "run.command" if cmd_name == _ASK else f"commands.{_MODULES.get(cmd_name, cmd_name)}"
        )
        command: click.Command = import_module(f"holdfast.cli.{module}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's signature
        width = max(map(len, [*_WITHOUT_VERB, *_VERBS]))  # one column for all groups
        for heading, group in _GROUPS.items():
            rows = {**_WITHOUT_VERB, **group} if heading == "Talk" else group
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, text in rows.items()])


def _check_meant(args: list[str]) -> None:
    """Raise if the first word looks like a misspelled verb."""
    if args[0].isalpha() and not {"-p", "--print"} & set(args):
        import difflib  # noqa: PLC0415  only for a mistake

        near = difflib.get_close_matches(args[0], _VERBS, 1)
        if near:
            raise click.UsageError(f"There is no command {args[0]!r}. Did you mean {near[0]}?")


def _with_prompt(args: list[str]) -> list[str]:
    """Return the arguments; a prompt that starts with a dash is moved after ``--``."""
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
    """Run AI agents whose sessions survive crashes.

    Every step is saved as it happens. Without a command, holdfast starts a chat in this folder.
    """


def main() -> None:
    """Run the command line. Errors become one sentence and an exit code, not a traceback."""
    conceal()  # before anything runs that could look at this process
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
    """Open closed standard streams on /dev/null, so that no file of ours gets their numbers.

    Otherwise what Python or a library prints would go into that file.
    """
    if None in (sys.stdin, sys.stdout, sys.stderr):
        from holdfast.files import Files  # noqa: PLC0415  hardly ever needed

        files = Files()
        while (descriptor := files.open_read(os.devnull)) <= 2:
            pass
        files.close(descriptor)
