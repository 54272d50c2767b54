"""Which session a chat is about, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Struct

from holdfast.model.ids import new_session_id
from holdfast.runtime.config.run_options import Limits
from holdfast.runtime.runner.launch_options import Launch

Next = Literal["quit", "switch", "pick"]


class Target(Struct, frozen=True, kw_only=True):
    """A session to chat in. ``notes`` are told at the top; ``prompt`` is sent at once.

    ``is_first`` tells that nobody has used this home before, ``ephemeral`` that nothing of it is
    kept; ``title`` renames it, ``limits`` hold for each prompt.
    """

    launch: Launch
    prompt: str = ""
    notes: tuple[str, ...] = ()
    read_only: bool = False
    foreground: bool = False
    is_first: bool = False
    ephemeral: bool = False
    title: str | None = None
    limits: Limits = Limits()


class ExitAction(Struct, frozen=True, kw_only=True):
    """How a chat ended, and what comes next: nothing, another session (or the same), the picker.

    ``interlude`` is done in the plain terminal before that.
    """

    next: Next = "quit"
    code: int = 0
    target: Target | None = None
    query: str = ""
    interlude: Callable[[], object] | None = None


def new_session(of: Target) -> Target:
    """Return a new session in the same folder, with the same wishes."""
    return _with(of, session=new_session_id(), is_new=True)


def copy_of(of: Target, session_id: str) -> Target:
    """Return a copy of the session, with the same wishes."""
    return _with(of, session=session_id, is_new=False)


def _with(of: Target, *, session: str, is_new: bool) -> Target:
    launch = msgspec.structs.replace(of.launch, session=session, is_new=is_new, meta={})
    return Target(launch=launch, foreground=of.foreground, ephemeral=of.ephemeral, limits=of.limits)


def another(of: Target, session_id: str, workspace: str, *, read_only: bool = False) -> Target:
    """Return a session that is there already; it goes on with its own model and rules."""
    launch = Launch(home=of.launch.home, session=session_id, workspace=workspace)
    return Target(
        launch=launch, read_only=read_only, foreground=of.foreground, ephemeral=of.ephemeral
    )
