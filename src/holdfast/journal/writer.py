"""Appending: one write and one sync for all that waits, then the acknowledgements.

Leader commit. Drafts are queued under the mutex. Whoever waits for one of them and finds nobody
writing becomes the leader: takes what is queued as one round, numbers and seals it, has it written
and synced outside the mutex, settles its tickets. Those who arrive meanwhile share the next round.

There is one leader at a time, and what it reaches is stored in one assignment (``_durable``). So an
interrupt at any point leaves either the old truth or the new one, and the round still queued.
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
_ENVELOPE_BYTES = 64  # at least: a round that is cut for a mark must be long enough for one


class Owner(Protocol):
    """Who a writer works for."""

    path: Path
    """Where the journal is or will be, for messages."""

    def begin(self, data: bytes, payloads: list[bytes]) -> Place:
        """Make the journal with the first round's bytes. Contract: durable on return."""

    def store_payloads(self, place: Place, payloads: list[bytes]) -> None:
        """Write large payloads. Contract: durable on return; the lines that name them follow."""

    def mark_after(self, entries: list[Entry]) -> Draft | None:
        """Return the line that holds the state after a round's entries, if it can be held."""

    def publish(self, tickets: list[Ticket]) -> None:
        """Take note of durable tickets.

        Contract: runs under the mutex, must not raise, may be called for the same ones again.
        """


class Writer:
    """The one writer of a journal. ``place`` is ``None`` for a journal that is yet to be made."""

    def __init__(
        self, files: Files, header: Header, owner: Owner, cursor: Cursor, place: Place | None = None
    ) -> None:
        self.renew_locks()
        self._owner = owner
        self._appender = Appender(files, header)
        self._durable = place, cursor
        self._queue: list[Ticket] = []
        self._lost: list[Ticket] = []  # when nothing can be written any more
        self._leader: int | None = None  # the thread that writes
        self._full = False
        self._failure: HoldfastError | None = None
        self._unseen: list[Ticket] = []
        self._note_again = 0.0

    def renew_locks(self) -> None:
        """Make locks; anew in a forked child, where nobody may hold the old ones."""
        self.lock = threading.RLock()
        self.mutex = threading.Condition(self.lock)  # the same lock, with waiting

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
        return self._lost + self._queue

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nobody writes. The caller holds the mutex."""
        return not self._queue and self._may_lead()

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
                if self._may_lead():
                    self._lead()
                    continue
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError("The entries are not durable yet; they are on their way.")
                try:
                    self.mutex.wait(left)
                except BaseException:  # an interrupt may have come while it was let go
                    while not self.lock._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001  as Condition does
                        self.lock.acquire()
                    raise

    def drain(self) -> bool:
        """Write what waits, as far as there is room; tell whether nothing waits any more."""
        with self.lock:
            while self._queue:
                if not self._may_lead():
                    self.mutex.wait()
                    continue
                self._lead()
                if self._full:
                    break
            return not self._queue

    def flush(self) -> None:
        """Return when nothing waits any more; raise what ``Ticket.wait`` raises."""
        while True:
            with self.lock:
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

        The caller holds the mutex and has flushed.
        """
        old = self._durable[0]
        assert old is not None
        self._durable = place, cursor
        self._appender.begin_anew()
        self._appender.close(old)
        place.lock.note_durable(place.inode, place.end)

    def close(self) -> None:
        """Give the reserve back and let go of the file and the lock."""
        with self.lock:
            while not self._may_lead():
                self.mutex.wait()
            place, cursor = self._durable
            self._durable = None, cursor
            if place is not None:
                place.lock.note_durable(place.inode, place.end)
                self._appender.close(place)
                place.lock.release()

    # The leader. Enters and leaves with the mutex held (once), works without it. Tickets stay in
    # the queue until they are settled, and settling begins with what is durable: so whatever an
    # interrupt leaves undone, the next call does.

    def _may_lead(self) -> bool:
        if self._leader == threading.get_ident():  # an interrupt cut our last attempt short
            self._leader = None
        return self._leader is None

    def _lead(self) -> None:
        error: HoldfastError | None = None
        waiting = 0
        try:
            self._leader = threading.get_ident()
            self._settle_durable()
            if not self._queue:
                return
            waiting = len(self._queue)
            tickets = self._next_round()
            behind = self._queue[len(tickets) :]
            if not self._full and not (behind and behind[0].entries):
                behind = []  # not numbered yet; that can wait
            self.lock.release()
            self._commit(tickets, behind)
        except HoldfastError as caught:
            error = caught
        finally:
            # Take the mutex back, step down and settle, whatever comes. In this function, because
            # an interrupt can come at the beginning of any other, before its first line.
            interrupt: BaseException | None = None
            while True:
                try:
                    while not self.lock._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001  as Condition does
                        self.lock.acquire()
                    self._leader = None
                    self._settle(waiting, error)
                except (KeyboardInterrupt, SystemExit) as caught:  # raised below
                    interrupt = caught
                else:
                    break
        if interrupt is not None:
            raise interrupt

    def _next_round(self) -> list[Ticket]:
        """Return what is queued, up to where a mark is due: a mark ends a round.

        While there is no room, one ticket at a time: a large one must not keep small ones waiting.
        """
        if self._full and self.place is not None:
            return self._queue[:1]
        room = MARK_EVERY_BYTES - self.cursor.since_mark_bytes
        for number, ticket in enumerate(self._queue, 1):
            for type_name, _, data in ticket.drafts:
                room -= len(data) + _ENVELOPE_BYTES
                if type_name == "checkpoint":
                    room = 0
            if room <= 0:
                return self._queue[:number]
        return list(self._queue)

    def _settle_durable(self) -> list[Ticket]:
        """Publish and settle what is durable at the head of the queue; harmless if done twice."""
        last = self._durable[1].last_seq
        done = 0
        for ticket in self._queue:
            if last is None or not ticket.entries or ticket.entries[-1].seq > last:
                break
            done += 1
        settled = self._queue[:done]
        if settled:
            self._owner.publish(settled)
            for ticket in settled:
                ticket.writer = None
            del self._queue[:done]
        return settled

    def _settle(self, waiting: int, error: HoldfastError | None) -> None:
        """Settle what is durable; tell the first ``waiting`` that were queued what became of it."""
        told = self._settle_durable()
        self._full = isinstance(error, DiskFull)
        if self._full:
            told += self._queue[: max(0, waiting - len(told))]
            for ticket in told:
                ticket.refusals += 1
        elif error is not None:
            self._failure = error
            self._lost, self._queue = self._lost + self._queue, []
            self._unseen = list(self._lost)
            told += self._lost
            for ticket in self._lost:
                ticket.error, ticket.writer = error, None
        self.mutex.notify_all()
        for ticket in told:
            if ticket.callbacks:
                ticket.notify()

    def _commit(self, tickets: list[Ticket], behind: list[Ticket]) -> None:
        place, cursor = self._durable
        after = _number(tickets, cursor)
        _number(behind, after)  # so that a full disk can be told what waits
        if not behind:
            after = self._mark(tickets, after)
        entries = [e for ticket in tickets for e in (*ticket.entries, *ticket.trailer)]
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
        if place is not None and place.segment != segment:
            self._appender.close(place)
        self._note_durable(new_place)

    def _note_durable(self, place: Place) -> None:
        """Tell readers how far they need not sync, though not at every turn of a burst.

        An older note costs a reader one sync; a note for every append costs the writer more.
        """
        now = time.monotonic()
        if now >= self._note_again:
            self._note_again = now + _NOTE_EVERY_SECONDS
            place.lock.note_durable(place.inode, place.end)

    def _mark(self, tickets: list[Ticket], cursor: Cursor) -> Cursor:
        """Have a mark written behind the round if one is due; return the cursor behind it."""
        last = tickets[-1]
        if cursor.since_mark_bytes >= MARK_EVERY_BYTES or last.entries[-1].type == "checkpoint":
            draft = self._owner.mark_after([e for ticket in tickets for e in ticket.entries])
            if draft is not None:
                last.trailer, cursor = _sealed([draft], timestamp(), None, cursor)
        return cursor


def _number(tickets: list[Ticket], cursor: Cursor) -> Cursor:
    """Give numbers, parents and checksums; return the cursor behind the last entry."""
    at = timestamp()
    for ticket in tickets:
        ticket.trailer = ()
        if ticket.entries:  # numbered by an earlier attempt, which did not succeed
            cursor = _behind(ticket.entries, cursor)
        else:
            ticket.entries, cursor = _sealed(ticket.drafts, at, ticket.id, cursor)
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
