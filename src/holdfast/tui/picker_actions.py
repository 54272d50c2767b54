"""What a picker changes: titles, tags, and whether a session is there. Everything blocks.

Each takes the session's lock. A session that a runner holds gets its title through that runner;
anything else that is held is named in a sentence and left as it is.
"""

from __future__ import annotations

import asyncio

from holdfast.errors import SessionLocked, StorageError
from holdfast.runtime.control.address import listens, socket_path
from holdfast.runtime.control.client import RunnerGone, connect, new_request_id
from holdfast.runtime.control.protocol import Rename
from holdfast.runtime.tools.terminal import on_one_line
from holdfast.store.local import LocalStore
from holdfast.tui.picker_model import Row

_ANSWER_SECONDS = 5.0


class Held(StorageError):
    """Somebody else is writing to the session; it was left as it is."""

    exit_code = 75


def rename(store: LocalStore, row: Row, title: str) -> str:
    """Give a session a title; without one, its first text is its title again.

    Raises:
        HoldfastError: it cannot be done; says why.
    """
    title = " ".join(title.split())
    try:
        with store.open(row.id) as session:
            session.update(title=title)
    except SessionLocked as locked:
        try:
            asyncio.run(_rename_by_runner(store, row.id, title))
        except RunnerGone:
            raise _held(store, row, locked) from None
    return f"Renamed to {on_one_line(title)}." if title else "Its first text is its title again."


async def _rename_by_runner(store: LocalStore, session_id: str, title: str) -> None:
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            connection = await connect(socket_path(store.path, session_id), {})
            try:
                if connection.hello.get("session") != session_id:
                    raise RunnerGone("Another session's runner is there.")
                await connection.request(Rename(id=new_request_id(), title=title))
            finally:
                await connection.close()
    except TimeoutError:
        raise RunnerGone("The runner does not answer.") from None


def tag(store: LocalStore, row: Row, words: str) -> str:
    """Give a session the tags that are named, and no others.

    Raises:
        HoldfastError: it cannot be done; says why.
    """
    tags = tags_of(words)
    try:
        with store.open(row.id) as session:
            session.update(tags=tags)
    except SessionLocked as locked:
        raise _held(store, row, locked) from None
    named = " ".join(f"#{each}" for each in tags)
    return f"Tagged {on_one_line(named)}." if tags else "It has no tags now."


def tags_of(words: str) -> list[str]:
    """Return the tags in what was typed: words, each once, with or without a ``#``."""
    cleaned = (word.strip("#,") for word in words.replace(",", " ").split())
    return list(dict.fromkeys(word for word in cleaned if word))


def delete(store: LocalStore, row: Row) -> str:
    """Move a session to the trash.

    Raises:
        HoldfastError: it cannot be done; says why.
    """
    try:
        store.delete(row.id)
    except SessionLocked as locked:
        raise _held(store, row, locked) from None
    return f"{on_one_line(row.title, 40)} is in the trash; Ctrl+Z brings it back."


def restore(store: LocalStore, row: Row) -> str:
    """Bring a session back from the trash.

    Raises:
        HoldfastError: it cannot be done; says why.
    """
    store.restore(row.id)
    return f"{on_one_line(row.title, 40)} is back."


def _held(store: LocalStore, row: Row, locked: SessionLocked) -> Held:
    title = on_one_line(row.title, 40)
    if listens(socket_path(store.path, row.id)):
        return Held(f"{title} is held by its runner; end that first: holdfast stop {row.id}.")
    return Held(f"{title} is being written by {locked.holder}; it was left as it is.")
