"""A conversation as text for a terminal, message by message.

The current branch is read from the disk as it is shown, so a long session takes no memory. Text is
made harmless here; nothing that a message holds can steer the terminal.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.cli.colours import Colours
from holdfast.cli.columns import counted, printable
from holdfast.exchange.detail import abridged, selected
from holdfast.journal.files import Files
from holdfast.model.codec import dumps, plain
from holdfast.model.entry import Checkpoint, Entry
from holdfast.model.message import (
    AnyPart,
    File,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from holdfast.model.terminal import for_terminal
from holdfast.store.blobs import Blobs, put_back
from holdfast.store.session import Session

_WHO = {"user": ("you", "green"), "assistant": ("assistant", "blue"), "tool": ("tool", "magenta")}
_INDENT = "    "


class Said(Struct, frozen=True):
    """A message, or a summary that took the place of earlier ones.

    ``seq`` is ``None`` for text that was being streamed and that nobody has finished. ``status`` is
    that of its entry: ``edited`` if somebody changed it after it was written.
    """

    messages: list[Message]
    at: str
    seq: int | None
    is_summary: bool = False
    status: str = "ok"


def said(
    session: Session, depth: str, *, last: int | None = None, span: tuple[int, int] | None = None
) -> Iterator[Said]:
    """Yield what is said on the current branch, oldest first.

    Args:
        session: an open session.
        depth: how much of a message is shown; see ``exchange.detail``.
        last: only so many messages.
        span: entries with numbers from here to there instead, on whatever branch.
    """
    blobs = Blobs(Files(), session.path)
    unfinished = [] if span or not session.read_only else session.recovery.interrupted
    if last is not None:
        unfinished = unfinished[-last:] if last else []
        last -= len(unfinished)
    for entry in _entries(session, last, span):
        found = _shown(entry, depth, blobs)
        if found is not None:
            yield found
    for message in unfinished:
        yield Said([message], session.state.updated, None)


def _entries(session: Session, last: int | None, span: tuple[int, int] | None) -> Iterator[Entry]:
    if span is not None:
        for entry in session.follow(span[0] - 1, wait=False):
            if isinstance(entry, Entry):
                if entry.seq > span[1]:
                    return
                yield entry
        return
    kinds = (Message, Checkpoint)
    branch = (entry for entry in session.branch() if isinstance(entry.body, kinds))
    if last is not None:
        newest: deque[Entry] = deque()
        left = last
        for entry in branch:
            if left <= 0:
                break
            left -= isinstance(entry.body, Message)
            newest.appendleft(entry)
        yield from newest
        return
    numbers = array("q", (entry.seq for entry in branch))
    for entry in session.follow(wait=False):
        if numbers and isinstance(entry, Entry) and entry.seq == numbers[-1]:
            numbers.pop()
            yield entry


def _shown(entry: Entry, depth: str, blobs: Blobs) -> Said | None:
    body = entry.body
    if isinstance(body, Checkpoint):
        summary = [_detailed(message, depth, blobs) for message in body.summary]
        shown = [each for each in summary if each]
        return Said(shown, entry.at, entry.seq, is_summary=True, status=entry.status)
    if not isinstance(body, Message):
        return None
    message = _detailed(body, depth, blobs)
    return None if message is None else Said([message], entry.at, entry.seq, status=entry.status)


def _detailed(message: Message, depth: str, blobs: Blobs) -> Message | None:
    shown = selected(message, depth)
    return None if shown is None else abridged(put_back(shown, blobs), depth)


def as_object(said: Said) -> dict[str, Any]:
    """Return a message as JSON has it; with its status, unless that is as it should be."""
    shown: dict[str, Any] = {"seq": said.seq, "at": said.at}
    if said.status != "ok":
        shown["status"] = said.status
    if said.is_summary:
        summary = [plain(message) for message in said.messages]
        return {**shown, "type": "checkpoint", "summary": summary}
    return {**shown, "type": "message", **plain(said.messages[0])}


def heading(session: Session, colours: Colours) -> str:
    """Return what is known about a session, in two lines."""
    meta, totals = session.meta, session.totals
    facts = [session.id, *(_fact(meta, name) for name in ("workspace", "model"))]
    facts.append(counted(session.state.messages, "message"))
    if totals.requests:
        tokens = totals.input + totals.output + totals.cache_read + totals.cache_write
        facts.append(f"{tokens:,} tokens")
    if totals.cost_usd:
        facts.append(f"${totals.cost_usd:.4f}")
    title = printable(session.state.title or "") or "(nothing said yet)"
    return f"{colours(title, 'bold')}\n{colours(' · '.join(filter(None, facts)), 'dim')}"


def _fact(meta: dict[str, Any], name: str) -> str:
    value = meta.get(name)
    return printable(value) if isinstance(value, str) else ""


def block(said: Said, colours: Colours) -> str:
    """Return a message with its heading."""
    first = said.messages[0] if said.messages else None
    role = "summary" if said.is_summary or first is None else first.role
    who, colour = _WHO.get(role, (printable(role), "yellow"))
    facts = [when(said.at), "unfinished" if said.seq is None else f"#{said.seq}"]
    if first is not None and first.stop in ("interrupted", "cancelled"):
        facts.append(first.stop)
    if said.status != "ok":
        facts.append(said.status)
    lines = [f"\n{colours(who, 'bold', colour)} {colours('· ' + ' · '.join(facts), 'dim')}"]
    for message in said.messages:
        for part in message.content:
            lines += _part(part, colours)
    return "\n".join(lines)


def when(at: str) -> str:
    """Return a time as it stands in entries, in this machine's zone."""
    try:
        return f"{datetime.fromisoformat(at).astimezone():%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError):
        return printable(at)


def _part(  # noqa: PLR0911  one return a kind of part
    part: AnyPart, colours: Colours
) -> list[str]:
    match part:
        case Text():
            return [for_terminal(part.text).strip("\n")]
        case Thinking():
            return [colours(_indented(part.text), "dim")]
        case ToolCall():
            given = part.partial if part.partial is not None else _arguments(part.arguments)
            return [f"{colours(f'▸ {printable(part.name)}', 'cyan')} {_indented(given).lstrip()}"]
        case ToolResult():
            inner = [line for each in part.content for line in _part(each, Colours(on=False))]
            shown = [colours(_indented(line), "dim") for line in inner if line]
            failed = [colours(f"{_INDENT}{printable(part.outcome)}", "yellow")]
            return shown + (failed if part.outcome != "completed" else [])
        case Image() | File():
            name = part.name if isinstance(part, File) else part.url or ""
            return [colours(f"[{printable(f'{part.media_type} {name}').strip()}]", "dim")]
        case Opaque():
            return [colours(f"[a block of {printable(part.vendor)}]", "dim")]
        case _:
            return [colours("[a part that this version does not know]", "dim")]


def _arguments(given: Any) -> str:
    if isinstance(given, dict) and len(given) == 1:
        (value,) = given.values()
        if isinstance(value, str):
            return value
    return dumps(msgspec.to_builtins(given)).decode()


def _indented(text: str) -> str:
    lines = for_terminal(text).strip("\n").split("\n")
    return "\n".join(f"{_INDENT}{line}" for line in lines)
