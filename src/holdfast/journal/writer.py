"""Appending: one write and one sync for all that waits, then the acknowledgements.

Leader commit. Drafts are queued under the mutex. Whoever waits for one of them and finds nobody
writing becomes the leader: takes what is queued as one round, numbers and seals it, has it written
and synced outside the mutex, settles its tickets. Those who arrive meanwhile share the next round.

There is one leader at a time, and what it reaches is stored in one assignment (``_durable``). So an
interrupt at any point leaves either the old truth, with the round queued again, or the new one.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

from holdfast.errors import DiskFull, HoldfastError
from holdfast.journal.appender import Appender, Cursor, Place, no_room_or
from holdfast.journal.format import seal, timestamp
from holdfast.journal.ticket import Draft, Ticket
from holdfast.model.entry import NO_PARENT_FIELD, TREE, Entry, Head, Header

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from holdfast.journal.files import Files

MARK_EVERY_BYTES = 512 * 1024
_NOTE_EVERY_SECONDS = 0.02
_ENVELOPE_BYTES = 100  # about; only to see where a round should end


class Owner(Protocol):
    """Who a writer works for."""

    path: Path
    """Where the journal is or will be, for messages."""

    def begin(self, data: bytes, payloads: list[bytes]) -> Place:
        """Make the journal with the first round's bytes. Contract: durable on return."""

    def store_payloads(self, place: Place, payloads: list[bytes]) -> None:
        """Write large payloads. Contract: durable on return; the lines that name them follow."""

    def mark_after(self, entries: list[Entry]) -> Draft:
        """Return the line that holds the state after a round's entries."""

    def publish(self, tickets: list[Ticket]) -> None:
        """Take note of a durable round. Contract: runs under the mutex, must not raise."""


class Writer:
    """The one writer of a journal. ``place`` is ``None`` for a journal that is yet to be made."""

    def __init__(
        self, files: Files, header: Header, owner: Owner, cursor: Cursor, place: Place | None = None
    ) -> None:
        self.lock = threading.RLock()
        self.mutex = threading.Condition(self.lock)  # the same lock, with waiting
        self._owner = owner
        self._appender = Appender(files, header)
        self._durable = place, cursor
        self._queue: list[Ticket] = []
        self._round: list[Ticket] = []
        self._lost: list[Ticket] = []  # when nothing can be written any more
        self._leading = False
        self._full = False
        self._failure: HoldfastError | None = None
        self._unseen: list[Ticket] = []
        self._note_again = 0.0

    # What callers see

    @property
    def place(self) -> Place | None:
        """Where the journal is; ``None`` before the first entry is durable, and when closed."""
        return self._durable[0]

    @property
    def cursor(self) -> Cursor:
        """Where numbering stands, behind what is durable."""
        return self._durable[1]

    @property
    def unpublished(self) -> list[Ticket]:
        """Tickets that are being written, wait for it, or never will be.

        The caller holds the mutex.
        """
        return self._lost + self._round + self._queue

    def disk_full(self) -> DiskFull:
        """Return the error that says what waits for room."""
        with self.lock:
            seqs = [entry.seq for ticket in self.unpublished for entry in ticket.entries]
        return DiskFull(self._owner.path, tuple(seqs))

    def trouble(self) -> HoldfastError | None:
        """Return what keeps entries from becoming durable right now, if anything does."""
        return self._failure or (self.disk_full() if self._full else None)

    def enqueue(self, drafts: list[Draft], id: str | None = None) -> Ticket:
        """Queue drafts as one batch. The caller holds the mutex.

        ``id`` goes on the last line, whose position the ticket gives.

        Raises:
            WriteFailed: the journal cannot be written any more.
        """
        if self._unseen:
            self.raise_unseen()
        if self._failure is not None:
            raise self._failure
        place = self._durable[0]
        if place is not None:
            place.lock.check_ours()
        ticket = Ticket(self, drafts, id)
        self._queue.append(ticket)
        return ticket

    def subscribe(self, ticket: Ticket, callback: Callable[[], None]) -> int:
        """Call ``callback`` once when the ticket changes; return its refusals so far."""
        with self.lock:
            if ticket.done:
                callback()
            else:
                ticket.callbacks = (*ticket.callbacks, callback)
            return ticket.refusals

    def wait(self, ticket: Ticket, timeout_seconds: float | None = None) -> None:
        """Return when the ticket is settled, writing the queue if nobody else does.

        Raises:
            DiskFull: an attempt made meanwhile found no room.
            TimeoutError: the time is over.
        """
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        with self.lock:
            refusals = ticket.refusals
            while not ticket.done:
                if ticket.refusals > refusals:
                    raise self.disk_full()
                if not self._leading:
                    self._lead()
                    continue
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError("The entries are not durable yet; they are on their way.")
                self.mutex.wait(left)

    def drain(self) -> bool:
        """Write a round, unless somebody does; tell whether nothing waits any more."""
        with self.lock:
            if self._queue and not self._leading:
                self._lead()
            return not self._queue

    def flush(self) -> None:
        """Return when nothing waits any more; raise what ``Ticket.wait`` raises."""
        while True:
            with self.lock:
                while self._leading and not self._queue:
                    self.mutex.wait()
                if not self._queue:
                    return
                last = self._queue[-1]
            last.wait()  # without the mutex, so that others can queue meanwhile

    def raise_unseen(self) -> None:
        """Raise the error of a ticket that nobody waited for, once."""
        with self.lock:
            unseen, self._unseen = self._unseen, []
            for ticket in unseen:
                if ticket.error is not None and not ticket.seen:
                    ticket.seen = True
                    raise ticket.error

    def move(self, place: Place, cursor: Cursor) -> None:
        """Go on in a file that a rewrite put in the old one's place.

        The caller holds the mutex, has flushed, and has closed the old file.
        """
        self._appender.forget_reserve()
        self._durable = place, cursor
        place.lock.note_durable(place.inode, place.end)

    def close(self) -> None:
        """Give the reserve back and let go of the file and the lock."""
        with self.lock:
            while self._leading:
                self.mutex.wait()
            place, cursor = self._durable
            self._durable = None, cursor
            if place is not None:
                place.lock.note_durable(place.inode, place.end)
                self._appender.close(place)
                place.lock.release()

    # The leader. Enters and leaves with the mutex held, works without it.

    def _lead(self) -> None:
        tickets = self._round = self._take_round()
        behind = list(self._queue)  # for the next round, which has to wait for this one
        self._leading = True
        error: HoldfastError | None = None
        self.mutex.release()
        try:
            self._commit(tickets)
        except HoldfastError as caught:
            error = caught
        finally:  # also if an interrupt passes through
            self.mutex.acquire()
            self._leading = False
            self._round = []
            self._finish_round(tickets, behind, error)

    def _take_round(self) -> list[Ticket]:
        """Take what is queued, up to where a mark is due: a mark ends a round."""
        room = MARK_EVERY_BYTES - self.cursor.since_mark_bytes
        for number, ticket in enumerate(self._queue, 1):
            for type_name, _, data in ticket.drafts:
                room -= len(data) + _ENVELOPE_BYTES
                if type_name == "checkpoint":
                    room = 0
            if room <= 0:
                taken, self._queue = self._queue[:number], self._queue[number:]
                return taken
        taken, self._queue = self._queue, []
        return taken

    def _finish_round(
        self, tickets: list[Ticket], behind: list[Ticket], error: HoldfastError | None
    ) -> None:
        last, entries = self._durable[1].last_seq, tickets[-1].entries
        durable = last is not None and bool(entries) and entries[-1].seq <= last
        self._full = isinstance(error, DiskFull)
        if durable:
            self._owner.publish(tickets)
            for ticket in tickets:
                ticket.writer = None
        elif error is None or self._full:
            # The round's own mark is made anew with the next attempt.
            tickets = [ticket for ticket in tickets if ticket.drafts[0][0] != "mark"]
            self._queue = tickets + self._queue
            tickets = tickets + behind
            if self._full:
                for ticket in tickets:
                    ticket.refusals += 1
        else:
            tickets, self._queue = tickets + self._queue, []
            self._failure = error
            self._lost = tickets
            self._unseen += tickets
            for ticket in tickets:
                ticket.error, ticket.writer = error, None
        self.mutex.notify_all()
        for ticket in tickets:
            if ticket.callbacks:
                ticket.notify()

    def _commit(self, tickets: list[Ticket]) -> None:
        place, cursor = self._durable
        after = self._number(tickets, cursor)
        entries = [entry for ticket in tickets for entry in ticket.entries]
        data = b"".join([entry.line + b"\n" for entry in entries])
        payloads = [payload for ticket in tickets for payload in ticket.payloads]
        try:
            if place is None:
                new_place, start = self._owner.begin(data, payloads), 0
            else:
                if payloads:
                    self._owner.store_payloads(place, payloads)
                new_place, start = self._appender.append(place, cursor, data)
        except OSError as error:
            path = self._owner.path
            raise no_room_or(error, path, f"Cannot write {path}", cursor.last_seq) from error
        segment = new_place.segment
        for entry in entries:
            entry.offset, entry.segment = start, segment
            start += len(entry.line) + 1
        self._durable = new_place, after
        self._note_durable(new_place)

    def _note_durable(self, place: Place) -> None:
        """Tell readers how far they need not sync, though not at every turn of a burst.

        An older note costs a reader one sync; a note for every append costs the writer more.
        """
        now = time.monotonic()
        if now >= self._note_again:
            self._note_again = now + _NOTE_EVERY_SECONDS
            place.lock.note_durable(place.inode, place.end)

    def _number(self, tickets: list[Ticket], cursor: Cursor) -> Cursor:
        """Give numbers, parents and checksums; return the cursor behind the last entry."""
        at = timestamp()
        for ticket in tickets:
            if ticket.entries:  # numbered by an earlier attempt, which found no room
                cursor = _behind(ticket.entries, cursor)
            else:
                ticket.entries, cursor = _sealed(ticket.drafts, at, ticket.id, cursor)
        last = tickets[-1].entries[-1]
        if cursor.since_mark_bytes >= MARK_EVERY_BYTES or last.type == "checkpoint":
            draft = self._owner.mark_after([e for ticket in tickets for e in ticket.entries])
            entries, cursor = _sealed([draft], at, None, cursor)
            tickets.append(Ticket(self, [draft], None, entries, seen=True))
        return cursor


def _sealed(
    drafts: list[Draft], at: str, id: str | None, cursor: Cursor
) -> tuple[list[Entry], Cursor]:
    """Make a batch of drafts the entries that stand behind ``cursor``; return the cursor after."""
    entries = []
    seq, chain, head, last = cursor.next_seq, cursor.chain, cursor.head, len(drafts) - 1
    since = cursor.since_mark_bytes
    for index, (type_name, body, data) in enumerate(drafts):
        parent: int | None = NO_PARENT_FIELD
        if type_name in TREE:
            parent, head = head, seq
        elif isinstance(body, Head):
            head = body.to
        own_id = id if index == last else None
        batch = (index, last + 1) if last else None
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
