"""Bodies on their way into a journal: checked, encoded, large payloads taken out.

Most drafts get their number, time and parent when they are written. An ``ImportedEntry`` brings its
own: it comes from a conversation that took place elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from holdfast.errors import UsageError
from holdfast.journal.bounded import LONGEST_LINE_BYTES
from holdfast.journal.format import is_time, seal, timestamp
from holdfast.journal.ticket import Draft
from holdfast.model import entry as bodies
from holdfast.model.codec import encode_body, type_of
from holdfast.model.entry import LARGEST_SEQ, NO_PARENT_FIELD, Entry
from holdfast.model.message import Message
from holdfast.model.state import State
from holdfast.store.read.fold import mark_of
from holdfast.store.write.blob_refs import LARGEST_INLINE_BYTES, take_out

_ENVELOPE_BYTES = 16 * 1024
_LARGEST_MARK_BYTES = 1024 * 1024
ROLES = frozenset({"user", "assistant", "tool", "system"})
"""Who may have said a message."""

_JOURNALS_OWN = (bodies.Header, bodies.WriterInfo, bodies.Mark, bodies.Gap)


class ImportedEntry(Struct, frozen=True, gc=False):
    """An entry that was made elsewhere, with the number, time and parent that it shall have.

    Numbers rise, but need not follow on each other. ``parent`` is an earlier number of the same
    session, ``None`` for the first of a branch, ``NO_PARENT_FIELD`` for what belongs to no branch.
    """

    seq: int
    at: str
    draft: Draft
    parent: int | None = NO_PARENT_FIELD
    payloads: Sequence[bytes] = ()


def encode_all(items: Sequence[Any]) -> tuple[list[Draft], list[bytes]]:
    """Check and encode bodies; return them with the payloads that are too large for a line.

    Raises:
        UsageError: one of them cannot be stored; says why.
    """
    drafts: list[Draft] = []
    payloads: list[bytes] = []
    for item in items:
        data, body = encode_body(item)
        if len(data) > LARGEST_INLINE_BYTES:
            smaller, taken = take_out(body)
            payloads += taken
            data, body = encode_body(smaller)
            if len(data) > LONGEST_LINE_BYTES - _ENVELOPE_BYTES:
                raise UsageError(f"This {type_of(body)} is too large: {len(data)} bytes.")
        if type(body) is Message:
            _check_role(body)
            drafts.append(("message", body, data))
            continue
        if isinstance(body, bodies.Checkpoint):
            for message in body.summary:
                _check_role(message)
        type_name = type_of(body)
        if isinstance(body, _JOURNALS_OWN):
            raise UsageError(f"Only the journal itself writes {type_name} entries.")
        drafts.append((type_name, body, data))
    return drafts, payloads


def _check_role(message: Message) -> None:
    if message.role not in ROLES:
        raise UsageError(f"{message.role!r} is not a role: use {', '.join(sorted(ROLES))}.")


def encode_mark(state: State) -> Draft | None:
    """Return the mark that holds a state; none if the state is more than a line can hold."""
    try:
        data, mark = encode_body(mark_of(state))
    except UsageError:  # such as a sum of costs beyond what JSON can hold
        return None
    return ("mark", mark, data) if len(data) <= _LARGEST_MARK_BYTES else None


def seal_past(past: ImportedEntry, chain: bytes, batch: tuple[int, int] | None = None) -> Entry:
    """Return the entry, its line chained to the previous line's sum.

    A time that is none becomes that of now: other programs' importers make these, too.
    """
    type_name, body, data = past.draft
    at = past.at if is_time(past.at) else timestamp()
    line = seal(past.seq, at, type_name, data, chain, past.parent, None, batch)
    return Entry(past.seq, at, type_name, body, past.parent, None, batch, "ok", line)


def seal_all(pasts: Sequence[ImportedEntry], top: int, chain: bytes) -> list[Entry]:
    """Return the entries of one batch behind the line that has number ``top`` and sum ``chain``.

    Raises:
        UsageError: the number or the parent of one cannot be.
    """
    entries: list[Entry] = []
    for index, past in enumerate(pasts):
        if past.seq <= top:
            raise UsageError(
                f"Entry number {past.seq} is already used: the next number is {top + 1}."
            )
        if past.seq > LARGEST_SEQ:
            raise UsageError(f"Entry number {past.seq} is too large: the largest is {LARGEST_SEQ}.")
        if past.parent is not None and past.parent >= past.seq:
            raise UsageError(f"Entry {past.seq} cannot have entry {past.parent} as its parent.")
        entry = seal_past(past, chain, (index, len(pasts)) if len(pasts) > 1 else None)
        top, chain = past.seq, entry.sum
        entries.append(entry)
    return entries
