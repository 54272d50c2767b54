"""Read a conversation: the entries of the current branch that hold messages or summaries.

Entries are read from disk as they are yielded, so a long session takes little memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any

from msgspec import Struct

from holdfast.exchange.exporting.depth import abridged, selected
from holdfast.model.codec import plain
from holdfast.model.entry import Checkpoint, Entry
from holdfast.model.message import Message
from holdfast.store.session import Session

_KINDS = ("message", "checkpoint")


class ConversationEntry(Struct, frozen=True):
    """One message, or a summary that replaced earlier messages.

    ``seq`` is ``None`` for a partial answer whose stream never ended. ``status`` is that of the
    journal entry: ``edited`` if the line was changed after it was written.
    """

    messages: list[Message]
    at: str
    seq: int | None
    is_summary: bool = False
    status: str = "ok"


class ConversationPage(Struct, frozen=True):
    """Entries in order, oldest first. ``before`` gives the page before this one; ``None`` if none.

    Every number in a page is below the ``before`` it was asked with, so that pages neither overlap
    nor leave entries out while the session grows.
    """

    entries: list[ConversationEntry]
    before: int | None


def entries_to_show(
    session: Session, depth: str, *, last: int | None = None, span: tuple[int, int] | None = None
) -> Iterator[ConversationEntry]:
    """Yield the conversation on the current branch, oldest entry first.

    Args:
        session: an open session.
        depth: how much of a message is shown; see ``exchange.exporting.depth``.
        last: only this many messages, counted from the end.
        span: instead, all entries with numbers from the first to the second, on any branch.
    """
    unfinished = [] if span or not session.read_only else session.recovery.interrupted
    if last is not None:
        unfinished = unfinished[-last:] if last else []
        last -= len(unfinished)
    for entry in _entries(session, last, span):
        found = _shown(entry, depth, session)
        if found is not None:
            yield found
    for message in unfinished:
        yield ConversationEntry([message], session.state.updated, None)


def conversation_page(
    session: Session, depth: str, *, limit: int, before: int | None = None
) -> ConversationPage:
    """Return at most ``limit`` entries numbered below ``before``: the last ones of the branch.

    Partial answers are not in it: they have no number.
    """
    earlier = session.entries(branch=True, before=before, reverse=True, types=_KINDS)
    shown = (each for entry in earlier if (each := _shown(entry, depth, session)) is not None)
    entries = list(islice(shown, limit))
    more = next(shown, None)
    following = entries[-1].seq if entries else before
    entries.reverse()
    return ConversationPage(entries, None if more is None else following)


def entry_to_json(entry: ConversationEntry) -> dict[str, Any]:
    """Return an entry as JSON data; ``status`` is left out if it is ``ok``."""
    shown: dict[str, Any] = {"seq": entry.seq, "at": entry.at}
    if entry.status != "ok":
        shown["status"] = entry.status
    if entry.is_summary:
        summary = [plain(message) for message in entry.messages]
        return {**shown, "type": "checkpoint", "summary": summary}
    return {**shown, "type": "message", **plain(entry.messages[0])}


def _entries(session: Session, last: int | None, span: tuple[int, int] | None) -> Iterator[Entry]:
    if span is not None:
        return session.entries(after=span[0] - 1, before=span[1] + 1)
    if last is None:
        return session.entries(branch=True, types=_KINDS)
    newest: deque[Entry] = deque()
    for entry in session.entries(branch=True, types=_KINDS, reverse=True) if last > 0 else ():
        newest.appendleft(entry)
        last -= isinstance(entry.body, Message)
        if last <= 0:
            break
    return iter(newest)


def _shown(entry: Entry, depth: str, session: Session) -> ConversationEntry | None:
    body = entry.body
    if isinstance(body, Checkpoint):
        summary = [_detailed(message, depth, session) for message in body.summary]
        shown = [each for each in summary if each]
        return ConversationEntry(shown, entry.at, entry.seq, is_summary=True, status=entry.status)
    if not isinstance(body, Message):
        return None
    message = _detailed(body, depth, session)
    if message is None:
        return None
    return ConversationEntry([message], entry.at, entry.seq, status=entry.status)


def _detailed(message: Message, depth: str, session: Session) -> Message | None:
    shown = selected(message, depth)
    return None if shown is None else abridged(session.with_blobs(shown), depth)
