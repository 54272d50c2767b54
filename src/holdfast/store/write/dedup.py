"""What was accepted before, so that a call that is made again writes nothing twice.

By the ids that a caller gave: those of entries that wait are known here, those in the journal and
its archives are looked up by the thread that writes the round, never by the caller's event loop.
Without an id: by the very drafts of calls that got ``DiskFull``, whose entries still wait or were
written since.

An id stands for its entry and for those before it in the same batch that have none. The same id
with other content is a conflict. Of a list with an id for each entry the first ones may be known:
then the rest is written. A known one after a new one is a conflict, or the order would change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import IdConflict, UsageError
from holdfast.journal.ticket import Draft, DuplicateTicket, Ticket
from holdfast.model.codec import canonical, encode_body
from holdfast.model.entry import Entry, is_undecoded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.store.backend import Log

_LONGEST_ID = 1000


class AppendIds:
    """What one session has accepted. The caller of every method holds the writer's mutex."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Ticket, int]] = {}  # with the place among its drafts
        self.refused: list[Ticket] = []
        """Whose callers got ``DiskFull``."""

    def find(
        self, drafts: list[Draft], ids: Sequence[str | None], *, resumable: bool
    ) -> Ticket | None:
        """Return a ticket for the same entries, if they were accepted before and still wait.

        Raises:
            IdConflict: an entry that waits has one of the ids and other content.
        """
        if ids:  # another call than one without ids, whose entries cannot be found by them
            return self._duplicate(drafts, ids)
        return self._refused_twin(drafts) if resumable and self.refused else None

    def _duplicate(self, drafts: list[Draft], ids: Sequence[str | None]) -> Ticket | None:
        originals: list[tuple[Ticket, int] | None] = []
        for id, first, last in _groups(ids):
            original = self._waiting.get(id)
            originals.append(original)
            if original is not None:
                ticket, place = original
                start = place
                while start and ticket.ids[start - 1] is None:
                    start -= 1
                if not _alike(ticket.drafts[start : place + 1], drafts[first : last + 1]):
                    raise IdConflict(id, None)
        found = [each for each in originals if each is not None]
        if len(found) < len(originals) or any(ticket is not found[-1][0] for ticket, _ in found):
            return None  # the thread that writes them finds out
        return DuplicateTicket(
            None, drafts, ids, known=True, original=found[-1][0], last=found[-1][1]
        )

    def note(self, ticket: Ticket) -> None:
        """Remember a ticket that waits by its ids."""
        for place, id in enumerate(ticket.ids):
            if id is not None:
                self._waiting[id] = ticket, place

    def forget(self, ticket: Ticket) -> None:
        """Forget a ticket that does not wait any more."""
        for id in ticket.ids:
            if id is not None and self._waiting.get(id, (None, 0))[0] is ticket:
                del self._waiting[id]

    def refuse(self, ticket: Ticket) -> None:
        """Remember whose caller gets ``DiskFull``; one with an id is known by that."""
        if not ticket.ids and ticket not in self.refused:
            self.refused.append(ticket)

    def _refused_twin(self, drafts: list[Draft]) -> Ticket | None:
        """Return the ticket of a call that got ``DiskFull``, if this is the same call again.

        Its entries have numbers and will be written, or were a moment ago; a retry that queued
        them once more would write them twice.
        """
        for ticket in self.refused:
            if ticket.drafts == drafts:
                self.refused.remove(ticket)
                return ticket
        # The callers went on to something else: what is durable by now is not tried again.
        self.refused = [ticket for ticket in self.refused if not ticket.done]
        return None


def checked_ids(count: int, id: str | None, ids: Sequence[str] | None) -> Sequence[str | None]:
    """Return one id for each of ``count`` entries, nothing if none has one.

    Raises:
        UsageError: an id cannot be one, or they do not fit the entries.
    """
    if ids is None:
        if id is None:
            return ()
        _check_id(id)
        return (*[None] * (count - 1), id)
    if id is not None:
        raise UsageError("Give id for the whole batch or ids for its entries, not both.")
    if isinstance(ids, str) or len(ids) != count:
        raise UsageError(f"Give one id for each entry: there are {count} entries.")
    for each in ids:
        _check_id(each)
    if len(set(ids)) < count:
        raise UsageError("Two entries of a batch cannot have the same id.")
    return tuple(ids)


def _check_id(id: str) -> None:
    if not (isinstance(id, str) and 0 < len(id) <= _LONGEST_ID):
        raise UsageError(f"An entry's id must be a string of 1 to {_LONGEST_ID} characters.")


def known_entries(log: Log, ticket: Ticket) -> list[Entry]:
    """Return the entries that the first drafts of a ticket became earlier; reads the log.

    Raises:
        IdConflict: an id belongs to other content, or the order would change.
    """
    known: list[Entry] = []
    is_new = False
    for id, first, last in _groups(ticket.ids):
        entry = log.find_id(id)
        if entry is None:
            is_new = True
            continue
        drafts = ticket.drafts[first : last + 1]
        stored, whole = _batch_of(log, entry, len(drafts))
        same = len(stored) == len(drafts) or not whole
        for draft, old in zip(reversed(drafts), reversed(stored), strict=False):
            same = same and (old is None or _is_stored_as(draft, old))
        if not same:
            raise IdConflict(id, entry.seq)
        if is_new:
            raise IdConflict(id, entry.seq, misplaced=True)
        known += [entry] * (len(drafts) - len(stored))
        known += [old or entry for old in stored[-len(drafts) :]]
    return known


def _groups(ids: Sequence[str | None]) -> Iterator[tuple[str, int, int]]:
    """Yield each id with the places of the first and the last draft that it stands for."""
    first = 0
    for place, id in enumerate(ids):
        if id is not None:
            yield id, first, place
            first = place + 1


def _batch_of(log: Log, last: Entry, count: int) -> tuple[list[Entry | None], bool]:
    """Return the entries that the id of ``last`` stands for, and whether that is sure.

    ``None`` stands for one that cannot be read any more, such as one that a compaction dropped.
    """
    found: list[Entry | None] = [last]
    whole = True
    place, length = last.batch or (0, 1)
    for back in range(1, min(place, count) + 1):
        entry = log.find(last.seq - back)
        if entry is not None and entry.batch != (place - back, length):
            entry = None  # a gap has its number
        if entry is not None and entry.id is not None:
            break
        whole = whole and entry is not None
        found.insert(0, entry)
    return found, whole


def _alike(some: list[Draft], others: list[Draft]) -> bool:
    return len(some) == len(others) and all(
        one[0] == other[0] and (one[2] == other[2] or canonical(one[2]) == canonical(other[2]))
        for one, other in zip(some, others, strict=True)
    )


def _is_stored_as(draft: Draft, entry: Entry) -> bool:
    """Tell whether an entry has the content of a draft, whatever the order of its fields."""
    type_name, _, data = draft
    if entry.type != type_name:
        return False
    if is_undecoded(entry):
        return data[1:-1] in entry.line
    return canonical(encode_body(entry.body)[0]) == canonical(data)
