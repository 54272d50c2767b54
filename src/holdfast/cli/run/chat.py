"""``holdfast`` without a prompt: the chat in the terminal."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from importlib.util import find_spec

import msgspec

from holdfast import open_store
from holdfast.cli.run.options import Options
from holdfast.cli.run.select_session import accept_first, launch_of, session_for
from holdfast.errors import UsageError
from holdfast.keeper.workspaces import ephemeral_store
from holdfast.runtime.config.run_options import Limits
from holdfast.runtime.runner.launch_options import Launch
from holdfast.store.store import Store
from holdfast.tui.tty import has_screen, is_terminal

_LAST_SHOWN = 10
_NEEDS_SCREEN = "A chat on this terminal does not support -n or limits. Use holdfast -p."
_ONLY_WITH_PROMPT = (
    "--detach, --output-format, --input-format and --json need a prompt: holdfast -p PROMPT"
)


def chat(options: Options) -> int:
    """Start the chat; return the exit code.

    Raises:
        UsageError: there is no terminal, or options contradict each other.
    """
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise UsageError("A chat needs a terminal. Without one, use holdfast -p PROMPT.")
    if options.detach or options.output_format != "text" or options.streams_in:
        raise UsageError(_ONLY_WITH_PROMPT)
    picks = options.resume == ""
    if picks and not has_screen():
        raise UsageError("This terminal cannot show the picker. Use holdfast ls, then -r ID.")
    forks = picks and options.fork
    if picks:
        options = msgspec.structs.replace(options, resume=None, fork=False)
    options.check()
    with ephemeral_store() if options.ephemeral else nullcontext(open_store()) as store:
        if (told := accept_first(store, options)) is not None:
            from holdfast.cli.run.output import note  # noqa: PLC0415  slow to import

            note(told)
        return _chat(store, options, picks=picks, forks=forks)


def _chat(store: Store, options: Options, *, picks: bool, forks: bool) -> int:
    found = session_for(store, options, mode="read")
    with found.session as session:
        launch = launch_of(store, found, options)
        if options.fork:
            with session.fork() as copy:
                launch = msgspec.structs.replace(launch, session=copy.id)
    foreground = options.foreground or options.ephemeral or _is_first_process()
    if not has_screen():
        if options.limits != Limits() or (options.name is not None and not launch.is_new):
            raise UsageError(_NEEDS_SCREEN)
        from holdfast.cli.run.output import note  # noqa: PLC0415  slow to import

        for told in found.told:
            note(told)
        from holdfast.cli.commands.attach import attach  # noqa: PLC0415  it knows us, too

        return attach(store, launch, _LAST_SHOWN, takes_input=True, foreground=foreground)
    if picks:
        return _pick(store, launch, options, foreground=foreground, forks=forks)
    return chat_in(store, launch, foreground=foreground, options=options, notes=found.notes)


def chat_in(
    store: Store,
    launch: Launch,
    *,
    foreground: bool = False,
    options: Options | None = None,
    notes: tuple[str, ...] = (),
) -> int:
    """Chat in a session; return the exit code.

    Raises:
        UsageError: the packages for the chat are not installed.
    """
    _check_installed()
    from holdfast.tui.app import run  # noqa: PLC0415  slow to import
    from holdfast.tui.chat.welcome import greeting, is_first  # noqa: PLC0415  as above
    from holdfast.tui.target import Target  # noqa: PLC0415  as above

    options = options or Options()
    target = Target(
        launch=launch,
        notes=(*greeting(store, launch), *notes),
        is_first=is_first(store),
        foreground=foreground,
        ephemeral=options.ephemeral,
        title=options.title,
        limits=options.limits,
    )
    return run(store, target)


def _pick(store: Store, launch: Launch, options: Options, *, foreground: bool, forks: bool) -> int:
    """Let the user pick a session, then chat in it."""
    _check_installed()
    from holdfast.tui.app import picked  # noqa: PLC0415  slow to import
    from holdfast.tui.target import Target  # noqa: PLC0415  as above

    chosen = picked(store, Target(launch=launch, foreground=foreground))
    if chosen is None:
        return 0
    if chosen.read_only:
        from holdfast.tui.app import run  # noqa: PLC0415  as above

        return run(store, chosen)
    taken = msgspec.structs.replace(chosen.launch, wishes=launch.wishes)
    if forks:
        with store.open(taken.session, mode="read") as session, session.fork() as copy:
            taken = msgspec.structs.replace(taken, session=copy.id)
    return chat_in(store, taken, foreground=foreground, options=options)


def _check_installed() -> None:
    if find_spec("prompt_toolkit") is None or find_spec("rich") is None:
        raise UsageError("The chat is not installed. Run: pip install 'holdfast[agent]'")


def _is_first_process() -> bool:
    """Return whether this is the first process of a container; if so, print what that means."""
    if os.getpid() != 1:
        return False
    from holdfast.cli.run.runner_connection import is_first_process  # noqa: PLC0415  slow to import

    return is_first_process()
