"""Drafts become entries: numbers, times, parents and checksums, each line behind the one before.

A number is given once. What was numbered by an attempt that did not succeed keeps its numbers and
its bytes when it is tried again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.journal.format import seal, timestamp
from holdfast.model.entry import NO_PARENT_FIELD, TREE, Entry, Head

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.journal.ticket import Draft, Ticket


class Cursor(Struct, frozen=True, gc=False):
    """Where numbering stands: behind the last durable entry.

    ``chain`` is the sum that the next line is chained to, ``head`` the next parent.
    """

    last_seq: int | None
    next_seq: int
    chain: bytes
    head: int | None
    since_mark_bytes: int = 0


def number(tickets: list[Ticket], cursor: Cursor) -> Cursor:
    """Give every ticket its entries; return the cursor behind the last one."""
    at = timestamp()
    for ticket in tickets:
        ticket.trailer = ()
        if ticket.entries:  # by an earlier attempt, which did not succeed
            cursor = _behind(ticket.entries, cursor)
        else:
            ticket.entries, cursor = sealed(ticket.drafts, at, ticket.id, cursor)
    return cursor


def sealed(
    drafts: list[Draft], at: str, id: str | None, cursor: Cursor
) -> tuple[list[Entry], Cursor]:
    """Make a batch of drafts the entries that stand behind ``cursor``; return the cursor after."""
    entries: list[Entry] = []
    since = cursor.since_mark_bytes
    seq, chain, head, last = cursor.next_seq, cursor.chain, cursor.head, len(drafts) - 1
    batch = own_id = None
    for index, (type_name, body, data) in enumerate(drafts):
        parent: int | None = NO_PARENT_FIELD
        if type_name in TREE:
            parent, head = head, seq
        elif isinstance(body, Head):
            head = body.to
        if last:
            batch = (index, last + 1)
        if index == last:
            own_id = id
        line = seal(seq, at, type_name, data, chain, parent, own_id, batch)
        entries.append(Entry(seq, at, type_name, body, parent, own_id, batch, "ok", line))
        chain = line[-10:-2]
        since = 0 if type_name == "mark" else since + len(line)
        seq += 1
    return entries, Cursor(seq - 1, seq, chain, head, since)


def _behind(entries: Sequence[Entry], cursor: Cursor) -> Cursor:
    """Return the cursor behind entries that were numbered before."""
    head, since = cursor.head, cursor.since_mark_bytes
    for entry in entries:
        since += len(entry.line)
        if entry.type in TREE:
            head = entry.seq
        elif isinstance(entry.body, Head):
            head = entry.body.to
    last = entries[-1]
    return Cursor(last.seq, last.seq + 1, last.line[-10:-2], head, since)
