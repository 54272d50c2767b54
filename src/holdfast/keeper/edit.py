"""Rename, tag and delete sessions, whether or not a runner has them.

An edit takes the session's lock for one append. If a runner holds the lock, the runner is asked to
make the edit. If another process holds it, nothing is changed and ``SessionLocked`` says which.
Every function blocks, and must not be called inside an event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.errors import SessionLocked, UsageError
from holdfast.store.validation import edited_tags, tags_in, valid_tag, valid_title

if TYPE_CHECKING:
    from holdfast.runtime.protocol.messages import R, RequestFor
    from holdfast.store.store import Store


class SessionTitle(Struct, frozen=True):
    """A session and its title."""

    session: str
    title: str


class SessionTags(Struct, frozen=True):
    """A session and its tags."""

    session: str
    tags: list[str]


def rename_session(
    store: Store,
    place: str | Path,
    title: str,
    *,
    optional: bool = False,
    timeout_seconds: float | None = None,
) -> SessionTitle:
    """Set the title of a session.

    Args:
        store: the store to open it with.
        place: its id, or its folder.
        title: the title; see ``valid_title``.
        optional: an empty title is allowed: the first prompt is the title again.
        timeout_seconds: how long to wait for a runner's answer.

    Raises:
        UsageError: the title is not valid.
        SessionLocked: another process than a runner that answers is writing to it.
    """
    title = valid_title(title, optional=optional)
    try:
        with store.open(place) as session:
            session.update(title=title)
            return SessionTitle(session.id, title)
    except SessionLocked as locked:
        from holdfast.runtime.protocol.messages import Rename  # noqa: PLC0415  few sessions run

        request = Rename(id=_request_id(), title=title)
        _ask_runner(store, locked, request, timeout_seconds)
        return SessionTitle(locked.session, title)


def tag_session(
    store: Store,
    place: str | Path,
    *,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    replace: bool = False,
    timeout_seconds: float | None = None,
) -> SessionTags:
    """Add tags to a session and remove others; return the tags it then has.

    Args:
        store: the store to open it with.
        place: its id, or its folder.
        add: tags to add; see ``valid_tag``.
        remove: tags to remove.
        replace: also remove all tags that are not in ``add``.
        timeout_seconds: how long to wait for a runner's answer.

    Raises:
        UsageError: a tag is not valid, or one to remove is not there.
        SessionLocked: another process than a runner that answers is writing to it.
    """
    added = [valid_tag(tag) for tag in add]
    removed = [tag.strip() for tag in remove]
    try:
        with store.open(place) as session:
            before = tags_in(session.meta)
            after = edited_tags(before, added, removed, replace=replace)
            if after != before:
                session.update(tags=after)
            return SessionTags(session.id, after)
    except SessionLocked as locked:
        from holdfast.runtime.protocol.messages import EditTags  # noqa: PLC0415  few sessions run

        request = EditTags(id=_request_id(), add=added, remove=removed, replace=replace)
        answer = _ask_runner(store, locked, request, timeout_seconds)
        return SessionTags(locked.session, answer.tags)


def session_tags(store: Store, place: str | Path) -> SessionTags:
    """Return the tags of a session."""
    with store.open(place, mode="read") as session:
        return SessionTags(session.id, tags_in(session.meta))


def delete_session(store: Store, session_id: str) -> None:
    """Move a session to the trash.

    Raises:
        SessionLocked: a runner or another process is writing to it.
        SessionNotFound: it is gone already.
    """
    try:
        store.delete(session_id)
    except SessionLocked as locked:
        raise in_use(store, locked) from None


def in_use(store: Store, locked: SessionLocked) -> SessionLocked:
    """Return the error with a message that says who has the session, and what to do."""
    from holdfast.runtime.protocol.socket_path import listens, socket_path  # noqa: PLC0415  as above

    what = f"Session {locked.session} is being written by {locked.holder}. Nothing was changed"
    if listens(socket_path(store.local_folder, locked.session)):
        locked.args = (f"{what}. Stop its runner first: holdfast stop {locked.session}",)
    else:
        locked.args = (f"{what}; try again when that process has ended.",)
    return locked


def _request_id() -> str:
    from holdfast.runtime.protocol.client import new_request_id  # noqa: PLC0415  few sessions run

    return new_request_id()


def _ask_runner(
    store: Store, locked: SessionLocked, request: RequestFor[R], timeout_seconds: float | None
) -> R:
    """Return the answer of the runner that holds a session.

    Raises:
        SessionLocked: it is held by another process, or the runner does not answer in time.
        UsageError: the runner rejected the request.
    """
    from holdfast.keeper.runners import connect_runner  # noqa: PLC0415  few sessions run
    from holdfast.runtime.protocol.client import Refused, RunnerGone  # noqa: PLC0415  as above

    async def ask() -> R:
        async with asyncio.timeout(timeout_seconds):
            connection = await connect_runner(store, locked.session)
            try:
                return await connection.request(request)
            finally:
                await connection.close()

    try:
        return asyncio.run(ask())
    except RunnerGone:
        raise in_use(store, locked) from None
    except TimeoutError:
        what = f"The runner of session {locked.session} did not answer within {timeout_seconds:g} s"
        locked.args = (f"{what}. It may still make the change when it does.",)
        raise locked from None
    except Refused as refused:
        if refused.kind == UsageError.__name__:
            raise UsageError(str(refused)) from None
        raise
