"""``holdfast`` without a prompt: the chat in the terminal."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from importlib.util import find_spec

import msgspec

from holdfast import open_store
from holdfast.cli.options import Options
from holdfast.cli.sessions import ephemeral_home, launch_of, session_for
from holdfast.errors import UsageError
from holdfast.runtime.limits import Limits
from holdfast.runtime.wishes import Launch
from holdfast.store.local import LocalStore

_LAST_SHOWN = 10
_NEEDS_SCREEN = "On this terminal a chat takes no -n and no limits; holdfast -p does."
_ONLY_WITH_PROMPT = (
    "--detach, --output-format, --input-format and --json are for a prompt without a screen: "
    "holdfast -p PROMPT."
)


def has_screen() -> bool:
    """Tell whether there is a terminal that can do more than write lines."""
    if not (sys.stdin and sys.stdout and sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


def chat(options: Options) -> int:
    """Chat; return the exit code.

    Raises:
        UsageError: there is no terminal, or what was asked for contradicts itself.
    """
    if not (sys.stdin and sys.stdout and sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("A chat needs a terminal; without one: holdfast -p PROMPT.")
    if options.detach or options.output_format != "text" or options.streams_in:
        raise UsageError(_ONLY_WITH_PROMPT)
    picks = options.resume == ""
    if picks and not has_screen():
        raise UsageError("This terminal cannot show the picker: holdfast ls, then -r ID.")
    forks = picks and options.fork
    if picks:
        options = msgspec.structs.replace(options, resume=None, fork=False)
    options.check()
    with ephemeral_home() if options.ephemeral else nullcontext(None) as home:
        store = open_store() if home is None else open_store(home)
        return _chat(store, options, picks=picks, forks=forks)


def _chat(store: LocalStore, options: Options, *, picks: bool, forks: bool) -> int:
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
        from holdfast.cli.attach import attach  # noqa: PLC0415  it knows us, too

        return attach(store, launch, _LAST_SHOWN, takes_input=True, foreground=foreground)
    if picks:
        return _pick(store, launch, options, foreground=foreground, forks=forks)
    return chat_in(store, launch, foreground=foreground, options=options)


def chat_in(
    store: LocalStore,
    launch: Launch,
    *,
    foreground: bool = False,
    options: Options | None = None,
) -> int:
    """Chat in a session; return the exit code.

    Raises:
        UsageError: what a chat needs is not installed.
    """
    _check_installed()
    from holdfast.tui.app import run  # noqa: PLC0415  slow to import
    from holdfast.tui.target import Target  # noqa: PLC0415  as above
    from holdfast.tui.welcome import greeting, is_first  # noqa: PLC0415  as above

    options = options or Options()
    target = Target(
        launch=launch,
        notes=tuple(greeting(store, launch)),
        is_first=is_first(store),
        foreground=foreground,
        ephemeral=options.ephemeral,
        title=options.name,
        limits=options.limits,
    )
    return run(store, target)


def _pick(
    store: LocalStore, launch: Launch, options: Options, *, foreground: bool, forks: bool
) -> int:
    """Have a session picked, and chat in it as the options say."""
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
        raise UsageError("A chat needs more to be installed: pip install 'holdfast[agent]'.")


def _is_first_process() -> bool:
    """Tell whether this is the first process of a container, and say what that means if it is."""
    if os.getpid() != 1:
        return False
    from holdfast.cli.runners import is_first_process  # noqa: PLC0415  slow to import

    return is_first_process()
