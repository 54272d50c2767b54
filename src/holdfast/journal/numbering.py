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

    from holdfast.journal.ticket import Ticket


class Cursor(Struct, frozen=True, gc=False):
    """Where numbering stands: behind the last durable entry.

    ``chain`` is the sum that the next line is chained to, ``head`` the next parent.
    """

    last_seq: int | None
    next_seq: int
    chain: bytes
    head: int | None
    since_mark_bytes: int = 0


def number(
    tickets: Sequence[Ticket], cursor: Cursor, at: str | None = None
) -> tuple[list[Entry], Cursor]:
    """Give every ticket its entries; return all of them, and the cursor behind the last one."""
    numbered: list[Entry] = []
    at = at or timestamp()
    seq, chain, head = cursor.next_seq, cursor.chain, cursor.head
    since = cursor.since_mark_bytes
    for ticket in tickets:
        ticket.trailer = ()
        if ticket.entries:  # by an earlier attempt, which did not succeed
            head, since = _behind(ticket.entries, head, since)
            seq, chain = ticket.entries[-1].seq + 1, ticket.entries[-1].sum
            numbered += ticket.entries
            continue
        entries: list[Entry] = []
        last = len(ticket.drafts) - 1
        batch = own_id = None
        for index, (type_name, body, data) in enumerate(ticket.drafts):
            parent: int | None = NO_PARENT_FIELD
            if type_name in TREE:
                parent, head = head, seq
            elif type(body) is Head:
                head = body.to
            if last:
                batch = (index, last + 1)
            if index == last:
                own_id = ticket.id
            line = seal(seq, at, type_name, data, chain, parent, own_id, batch)
            entries.append(Entry(seq, at, type_name, body, parent, own_id, batch, "ok", line))
            chain = line[-10:-2]
            since = 0 if type_name == "mark" else since + len(line)
            seq += 1
        ticket.entries = entries
        numbered += entries
    return numbered, Cursor(seq - 1, seq, chain, head, since)


def _behind(
    entries: Sequence[Entry], head: int | None, since_mark_bytes: int
) -> tuple[int | None, int]:
    """Return the next parent and the bytes since a mark, behind entries numbered before."""
    for entry in entries:
        since_mark_bytes += len(entry.line)
        if entry.type in TREE:
            head = entry.seq
        elif isinstance(entry.body, Head):
            head = entry.body.to
    return head, since_mark_bytes
