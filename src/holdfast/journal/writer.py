"""Appending: one write and one sync for all that waits, then the acknowledgements.

Leader commit. Drafts are queued under the mutex. Whoever waits for one of them and finds nobody
writing becomes the leader: takes what is queued as one round, has it numbered, written and synced
outside the mutex, settles its tickets. Those who arrive meanwhile share the next round.

What a leader reaches is stored in one assignment (``_durable``), and tickets leave the queue only
when they have been told. So an interrupt (Ctrl+C) at any point leaves either the old truth or the
new one, and whatever it leaves undone, the next leader does. There is one at a time because it
holds ``_leading``. All locks are the interpreter's own and are held by ``with`` alone: no interrupt
can come between taking one and being bound to let go of it. (A ``threading.Condition`` is made of
Python functions, where it can.)
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

from holdfast.errors import DiskFull, HoldfastError, WriteFailed
from holdfast.journal.appender import Appender, Place, no_room_or
from holdfast.journal.numbering import Cursor, number
from holdfast.journal.ticket import Draft, Ticket
from holdfast.model.entry import LARGEST_SEQ, Entry, Header

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from holdfast.journal.files import Files

MARK_EVERY_BYTES = 512 * 1024
_NOTE_EVERY_SECONDS = 0.02
_LOOK_AGAIN_SECONDS = 0.05  # for a leader that an interrupt took away
# What a mistake of ours raises, each time anew: whoever waits must hear of it. To be out of memory,
# or of the stack's depth, is another matter: that passes.
_DEFECTS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
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
        self._full = False
        self._cause: str | None = None  # why, if it is not the disk
        self._failure: HoldfastError | None = None
        self._unseen: list[Ticket] = []
        self._note_again = 0.0

    def renew_locks(self) -> None:
        """Make locks; anew in a forked child, where nobody may hold the old ones."""
        self.mutex = threading.RLock()
        self._leading = threading.Lock()  # always taken before the mutex
        self._leads_in_fact: int | None = None  # the thread that holds it to write
        self._leader: int | None = None  # the thread that leads; a hint, which may be out of date
        self._followers: list[tuple[Ticket, threading.Lock]] = []

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
        """Whether nothing waits and nothing is being written. The caller holds the mutex."""
        return not self._queue

    def disk_full(self) -> DiskFull:
        """Return the error that says what waits for room."""
        with self.mutex:
            seqs = [entry.seq for ticket in self.unpublished for entry in ticket.entries]
        return DiskFull(self._owner.path, tuple(seqs), self._cause)

    def trouble(self) -> HoldfastError | None:
        """Return what keeps entries from becoming durable right now, if anything does."""
        return self._failure or (self.disk_full() if self._full else None)

    def enqueue(
        self,
        drafts: list[Draft],
        id: str | None = None,
        payloads: Sequence[bytes] = (),
        entries: Sequence[Entry] = (),
    ) -> Ticket:
        """Queue drafts as one batch. The caller holds the mutex.

        ``id`` goes on the last line, whose position the ticket gives. ``payloads`` are stored
        before the lines are written. ``entries`` are what the drafts became, if they have numbers.

        Raises:
            WriteFailed: the journal cannot be written any more.
        """
        if self._unseen:
            self.raise_unseen()
        if self._failure is not None:
            raise self._failure
        place = self._durable[0]
        if place is not None and not place.lock.held:
            place.lock.check_ours()
        ticket = Ticket(self, drafts, id, payloads, entries)
        self._queue.append(ticket)
        return ticket

    def subscribe(self, ticket: Ticket, callback: Callable[[], None]) -> int:
        """Call ``callback`` once when the ticket changes; return its refusals so far."""
        with self.mutex:
            if ticket.done:
                callback()
            else:
                ticket.callbacks = (*ticket.callbacks, callback)
            return ticket.refusals

    def wait(self, ticket: Ticket) -> None:
        """Return when the ticket is settled, writing the queue if nobody else does.

        The caller does not hold the mutex.

        Raises:
            DiskFull: an attempt made meanwhile found no room.
            TimeoutError: this is a signal handler, and the thread was writing.
        """
        refusals = ticket.refusals
        while ticket.writer is not None:
            if ticket.refusals != refusals:
                raise self.disk_full()
            if self._leader is None:
                self._lead()
            else:
                self._follow(ticket, refusals)

    def drain(self) -> bool:
        """Write what waits, as far as there is room; tell whether nothing waits any more."""
        try:
            while (last := self._last()) is not None:
                self.wait(last)
        except DiskFull:
            return False
        return True

    def flush(self) -> None:
        """Return when nothing waits any more; raise what ``Ticket.wait`` raises."""
        while (last := self._last()) is not None:
            last.wait()  # without the mutex, so that others can queue meanwhile

    def _last(self) -> Ticket | None:
        """Return the last ticket that is not settled."""
        with self.mutex:
            last = self._queue[-1] if self._queue else None
        if last is None or last.writer is not None:
            return last
        self._lead()  # it is settled, but an interrupt came before it left the queue
        return self._last()

    def raise_unseen(self) -> None:
        """Raise the error of a ticket that nobody waited for, once."""
        with self.mutex:
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
        """Give the reserve back and let go of the file and the lock.

        The caller does not hold the mutex.
        """
        self._refuse_handlers()
        with self._leading, self.mutex:
            place, cursor = self._durable
            self._durable = None, cursor
            if place is not None:
                place.lock.note_durable(place.inode, place.end)
                self._appender.close(place)
                place.lock.release()

    # Leading and following

    def _lead(self) -> None:
        """Write one round. An interrupt at any point leaves work for the next leader, no more."""
        self._refuse_handlers()
        self._leader = me = threading.get_ident()
        with self._leading:
            self._leads_in_fact = me
            error: HoldfastError | None = None
            waiting = 0
            try:
                with self.mutex:
                    tickets, behind = self._next_round()
                    waiting = len(self._queue)
                if tickets:
                    self._commit(tickets, behind)
            except HoldfastError as caught:
                error = caught
            except _DEFECTS as caught:
                place = self._owner.path
                error = WriteFailed(f"{place} cannot be written: {caught!r}", self.cursor.last_seq)
                error.__cause__ = caught
            finally:
                try:
                    with self.mutex:
                        self._leader = None
                        self._settle(waiting, error)
                finally:
                    self._leads_in_fact = None

    def _refuse_handlers(self) -> None:
        """Raise in a signal handler that interrupted the leader: it would wait for itself."""
        if self._leads_in_fact == threading.get_ident():
            raise TimeoutError("A signal handler cannot wait for the append it interrupted.")

    def _follow(self, ticket: Ticket, refusals: int) -> None:
        """Wait until the leader has settled or refused the ticket, or leaves the lead to us."""
        self._refuse_handlers()
        gate = threading.Lock()
        gate.acquire()
        with self.mutex:
            if not self._leading.locked():
                self._leader = None  # an interrupt took it away; or it is about to begin, and waits
            if self._leader is None or ticket.writer is None or ticket.refusals != refusals:
                return
            self._followers.append((ticket, gate))
        while not gate.acquire(timeout=_LOOK_AGAIN_SECONDS):
            if not self._leading.locked():
                return  # whom we follow was interrupted, or the one who was to lead next
            if ticket.writer is None or ticket.refusals != refusals:
                return  # whoever was to wake us was interrupted

    def _next_round(self) -> tuple[list[Ticket], list[Ticket]]:
        """Return what to write now, and what of the rest is to be numbered.

        A round ends where a mark is due. While there is no room it is one ticket: a large one must
        not keep small ones waiting.
        """
        queue = self._queue
        if self._failure is not None:
            raise self._failure  # an interrupt came before everybody was told
        if queue and queue[0].entries:
            self._settle_durable()  # it was tried; perhaps with success, and an interrupt came
        if len(queue) <= 1:
            return queue[:], []
        count = 1 if self._full and self.place is not None else self._until_mark()
        if self._full or (count < len(queue) and queue[count].entries):
            return queue[:count], queue[count:]
        return queue[:count], []  # the rest is not numbered yet; that can wait

    def _until_mark(self) -> int:
        """Return how many tickets there are up to where a mark is due."""
        room = MARK_EVERY_BYTES - self.cursor.since_mark_bytes
        for count, ticket in enumerate(self._queue, 1):
            for type_name, _, data in ticket.drafts:
                room -= len(data) + _ENVELOPE_BYTES
                if type_name == "checkpoint":
                    room = 0
            if room <= 0:
                return count
        return len(self._queue)

    # Settling. Under the mutex; each step may be done twice, and comes before what would keep the
    # next leader from doing it again.

    def _settle_durable(self) -> None:
        """Publish and settle what is durable at the head of the queue."""
        last = self._durable[1].last_seq
        count = 0
        for ticket in self._queue:
            if last is None or not ticket.entries or ticket.entries[-1].seq > last:
                break
            count += 1
        if count:
            settled = self._queue[:count]
            self._owner.publish(settled)
            for ticket in settled:
                ticket.settle(None)
            del self._queue[:count]

    def _settle(self, waiting: int, error: HoldfastError | None) -> None:
        """Settle what is durable; tell the first ``waiting`` that were queued what became of it."""
        waiting -= len(self._queue)
        self._settle_durable()
        self._full = isinstance(error, DiskFull)
        self._cause = error.cause if isinstance(error, DiskFull) else None
        if self._full:
            for ticket in self._queue[: waiting + len(self._queue)]:
                ticket.refuse()
        elif error is not None:
            self._failure = error
            self._unseen = self._lost + self._queue
            for ticket in self._queue:
                ticket.settle(error)
            self._lost, self._queue = self._lost + self._queue, []
        if self._followers:
            self._wake_followers()

    def _wake_followers(self) -> None:
        """Wake those who have something to hear, and one of the others to lead them."""
        followers, self._followers = self._followers, []
        led = False
        for ticket, gate in followers:
            if led and ticket.writer is not None and not self._full:
                self._followers.append((ticket, gate))
            else:
                led = led or ticket.writer is not None
                gate.release()

    # Writing. Without the mutex.

    def _commit(self, tickets: list[Ticket], behind: list[Ticket]) -> None:
        place, cursor = self._durable
        entries, after = number(tickets, cursor)
        if behind:
            number(behind, after)  # so that a full disk can be told what waits
        elif (
            after.since_mark_bytes >= MARK_EVERY_BYTES or tickets[-1].drafts[-1][0] == "checkpoint"
        ):
            after = self._mark(tickets[-1], entries, after)
        if entries[-1].seq > LARGEST_SEQ:  # such as behind a line that somebody has altered
            path = self._owner.path
            raise WriteFailed(f"The numbers of {path} are used up", cursor.last_seq)
        payloads: list[bytes] = []
        for ticket in tickets:
            if ticket.payloads:
                payloads += ticket.payloads
        data = b"\n".join([entry.line for entry in entries]) + b"\n"
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
        # Tell readers how far they need not sync, though not at every turn of a burst: an older
        # note costs a reader one sync, a note for every append costs the writer more.
        now = time.monotonic()
        if now >= self._note_again:
            self._note_again = now + _NOTE_EVERY_SECONDS
            new_place.lock.note_durable(new_place.inode, new_place.end)

    def _mark(self, last: Ticket, entries: list[Entry], cursor: Cursor) -> Cursor:
        """Have a mark written behind a round, which is added to; return the cursor behind it."""
        draft = self._owner.mark_after(entries)
        if draft is None:
            return cursor
        # At the time of what it marks, which may have taken place elsewhere, long ago.
        mark, cursor = number([Ticket(None, [draft])], cursor, entries[-1].at)
        last.trailer = mark
        entries += mark
        return cursor
