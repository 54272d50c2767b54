"""Places in a conversation that one can go back to: before a prompt, or behind any entry.

A prompt is recorded together with the start of its turn, and with the system prompt if that has
changed; taking it back takes back those too. What is done there is ``rewind``'s.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from holdfast.errors import UsageError
from holdfast.model.entry import Entry, Turn, in_tree
from holdfast.model.message import FileChange, Message, Text, ToolResult
from holdfast.store.session import Session


class Point(Struct, frozen=True):
    """A prompt that can be taken back, with everything behind it.

    ``files`` is how many files tools have changed since; ``before`` the entry that the conversation
    goes on from then, ``None`` for its beginning.
    """

    seq: int
    at: str
    line: str
    files: int
    before: int | None


def points(session: Session) -> list[Point]:
    """Return the prompts of the current branch, oldest first; blocks."""
    rows = [_row(entry) for entry in session.branch()]
    changed: set[str] = set()
    found: list[Point] = []
    for index, row in enumerate(rows):
        changed.update(row.paths)
        if row.kind == "prompt":
            before = _before(rows, index)
            found.append(Point(row.seq, row.at, row.line, len(changed), before))
    return found[::-1]


def before_prompts(session: Session, count: int) -> int | None:
    """Return the entry before the last ``count`` prompts, ``None`` for the very beginning; blocks.

    Raises:
        UsageError: there are not so many.
    """
    found = points(session)
    if not 1 <= count <= len(found):
        raise UsageError(f"Cannot undo {count} prompts: this conversation has {len(found)}.")
    return found[-count].before


def target(session: Session, seq: int, *, anywhere: bool = False) -> int | None:
    """Return the entry to go back to for one that a user names; blocks.

    A prompt is taken back itself, with what came behind it; any other entry is the last that stays.
    With ``anywhere`` an entry of another branch will do, such as one that a rewind left: it stays.

    Raises:
        UsageError: it is not on the current branch, or with ``anywhere`` on none at all.
    """
    rows = [_row(entry) for entry in session.branch()]
    for index, row in enumerate(rows):
        if row.seq == seq:
            return _before(rows, index) if row.kind == "prompt" else seq
    if anywhere and _is_on_a_branch(session, seq):
        return seq
    raise not_there(seq)


def _is_on_a_branch(session: Session, seq: int) -> bool:
    with session.follow(after=seq - 1, wait=False) as entries:
        found = next(entries, None)
    return isinstance(found, Entry) and found.seq == seq and in_tree(found.type, found.body)


class _Row(Struct, frozen=True):
    """What matters of one entry of a branch."""

    seq: int
    kind: Literal["prompt", "system", "started", "other"]
    at: str
    line: str
    paths: list[str]


def _row(entry: Entry) -> _Row:
    body = entry.body
    kind: Literal["prompt", "system", "started", "other"] = "other"
    line = ""
    if isinstance(body, Message) and body.role == "user":
        kind, line = "prompt", _first_line(body)
    elif isinstance(body, Message) and body.role == "system":
        kind = "system"
    elif isinstance(body, Turn) and body.state == "started":
        kind = "started"
    return _Row(entry.seq, kind, entry.at, line, [change.path for change in changes_of(entry)])


def _before(rows: list[_Row], index: int) -> int | None:
    """Return the entry before a prompt and before what was recorded with it; rows: newest first."""
    older = index + 1
    recorded_with = older
    while recorded_with < len(rows) and rows[recorded_with].kind == "system":
        recorded_with += 1
    if recorded_with < len(rows) and rows[recorded_with].kind == "started":
        older = recorded_with + 1
    return rows[older].seq if older < len(rows) else None


def _first_line(message: Message) -> str:
    for part in message.content:
        text = part.text if isinstance(part, Text) else ""
        if part.blob is not None and not text:
            text = part.blob.preview
        for line in text.splitlines():
            if line.strip():
                return line.strip()
    return "[no text]"


def not_there(seq: int) -> UsageError:
    """Return the error for an entry that one cannot go back to."""
    return UsageError(f"Entry {seq} is not on the current branch of this session.")


def changes_of(entry: Entry) -> list[FileChange]:
    """Return the changes that a message records, newest first, whatever came of the call."""
    if not isinstance(entry.body, Message):
        return []
    results = [part for part in entry.body.content if isinstance(part, ToolResult)]
    return [change for result in reversed(results) for change in reversed(result.changes)]
