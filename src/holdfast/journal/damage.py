"""Damage: stretches of a journal that cannot be read, each told in its place.

A record is an entry or damage. In a list of records the numbers of the entries rise: a line whose
number cannot be right is damage too. Which bytes cannot be read is found in ``segment``; what is
done about them is decided by whoever asked.
"""

from __future__ import annotations

from msgspec import Struct, structs

from holdfast.model.entry import DamagePlace, Entry


class Damage(Struct, frozen=True):
    """A stretch of bytes that could not be read as entries.

    ``kind`` is unreadable (not JSON, or not an entry), out of order (a line whose number cannot be
    right), or too long. ``before`` and ``after`` are the numbers of the entries around it.
    """

    segment: int
    offset: int
    length: int
    kind: str
    before: int | None = None
    after: int | None = None

    @property
    def place(self) -> DamagePlace:
        """Where it is, for the medium that found it."""
        return self.segment, self.offset, self.length


Record = Entry | Damage

OUT_OF_ORDER = "out of order"
"""The kind of damage that is a readable line whose number cannot be right."""


def in_order(records: list[Record]) -> list[Record]:
    """Turn lines whose number cannot be right into damage.

    Numbers rise from line to line. Where one does not, the line that is not verified gives way:
    its number may be what was altered.
    """
    last = -1
    for record in records:
        if not isinstance(record, Entry) or record.seq <= last:
            break
        last = record.seq
    else:
        return records
    kept: list[Record] = []
    entries: list[tuple[int, Entry]] = []  # with their places in kept
    for record in records:
        if isinstance(record, Entry):
            while record.status == "ok" and entries and entries[-1][1].seq >= record.seq:
                place, wrong = entries.pop()
                kept[place] = misnumbered(wrong)
            if entries and entries[-1][1].seq >= record.seq:
                kept.append(misnumbered(record))
                continue
            entries.append((len(kept), record))
        kept.append(record)
    return kept


def with_neighbours(records: list[Record]) -> list[Record]:
    """Tell each damaged stretch the numbers of the entries around it, as far as they are known."""
    if all(type(record) is Entry for record in records):
        return records
    done = list(records)
    before: int | None = None
    for place, record in enumerate(records):
        if isinstance(record, Damage):
            done[place] = structs.replace(record, before=before)
        else:
            before = record.seq
    after: int | None = None
    for place, record in reversed(list(enumerate(done))):
        if isinstance(record, Damage):
            done[place] = structs.replace(record, after=after)
        else:
            after = record.seq
    return done


def misnumbered(entry: Entry) -> Damage:
    """Return what stands for a line whose number cannot be right."""
    return Damage(entry.segment, entry.offset, len(entry.line), OUT_OF_ORDER)
