"""Appending: one write and one sync for all that waits, then the acknowledgements.

Leader commit. Drafts are queued under the mutex. Whoever waits for one of them and finds nobody
writing becomes the leader: takes what is queued as one round, has it numbered, written and synced
outside the mutex, settles its tickets. Those who arrive meanwhile share the next round.

What a leader reaches is one assignment of the log (its ``cursor``), and tickets leave the queue
only when they have been told. So an interrupt (Ctrl+C) at any point leaves either the old truth or
the new one, and whatever it leaves undone, the next leader does. There is one at a time because it
holds ``_leading``. All locks are the interpreter's own and are held by ``with`` alone: no interrupt
can come between taking one and being bound to let go of it. (A ``threading.Condition`` is made of
Python functions, where it can.)
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from msgspec import UNSET, UnsetType

from holdfast.errors import DiskFull, HeadMoved, HoldfastError, SessionExists, WriteFailed
from holdfast.journal.format import Cursor, assign_sequence
from holdfast.journal.ticket import Draft, Ticket
from holdfast.model.entry import LARGEST_SEQ, Body, Entry, Head, in_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

MARK_EVERY_BYTES = 512 * 1024
_LOOK_AGAIN_SECONDS = 0.05  # for a leader that an interrupt took away
# What a mistake of ours raises, each time anew: whoever waits must hear of it. To be out of memory,
# or of the stack's depth, is another matter: that passes.
_DEFECTS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
_TO_BE_NUMBERED = object()  # a head that no caller can name yet
_ENVELOPE_BYTES = 64  # at least: a round that is cut for a mark must be long enough for one


class RoundLog(Protocol):
    """Where rounds are stored: one session on one medium. Called by one thread at a time."""

    @property
    def location(self) -> Path | str:
        """Where the session is or will be, for messages."""

    @property
    def exists(self) -> bool:
        """Whether the session was made and is still held; false after ``release``."""

    @property
    def cursor(self) -> Cursor:
        """Where numbering continues, after the last durable entry. Read at any time."""

    def check_held(self) -> None:
        """Raise ``UsageError`` if this process does not hold the session any more."""

    def append(self, entries: Sequence[Entry], payloads: Sequence[bytes], after: Cursor) -> None:
        """Store a round; the first one makes the session.

        Contract: durable on return, all of it or nothing. ``cursor`` becomes ``after`` in one
        assignment, so an interrupt leaves the old truth or the new one. ``payloads`` are durable
        before the entries that name them. The same entries again after an error are stored once.

        Raises:
            DiskFull: there is no room now; nothing was stored.
            WriteFailed: nothing can be stored any more.
        """

    def release(self) -> None:
        """Let another writer have the session. May be called twice."""


class Owner(Protocol):
    """Who a writer works for."""

    def find_known(self, ticket: Ticket) -> list[Entry]:
        """Return the entries that the first drafts of a ticket with ids became earlier.

        Contract: runs without the mutex, and may read the disk.

        Raises:
            IdConflict: one of the ids is that of another entry.
            StorageError: the log cannot be read.
        """

    def join(self) -> RoundLog | None:
        """Return the log of the session that another process made in the place of a new one.

        Contract: runs without the mutex. What was queued to make a session has left the queue.
        ``None`` if it has to be an error.
        """

    def mark_after(self, entries: list[Entry]) -> Draft | None:
        """Return the line that holds the state after a round's entries, if it can be held."""

    def publish(self, tickets: list[Ticket]) -> None:
        """Take note of durable tickets.

        Contract: runs under the mutex, must not raise, may be called for the same ones again.
        """


class GroupCommitter:
    """The one writer of a log: numbers what is queued and commits it in rounds."""

    def __init__(self, log: RoundLog, owner: Owner) -> None:
        self.renew_locks()
        self._log = log
        self._owner = owner
        self._queue: list[Ticket] = []
        self._lost: list[Ticket] = []  # when nothing can be written any more
        self._full = False
        self._cause: str | None = None  # why, if it is not the disk
        self._failure: HoldfastError | None = None
        self._unseen: list[Ticket] = []
        self._rejected: list[Ticket] = []  # for what they ask, which says nothing about the log
        self._conditional = False  # whether a ticket in the queue may have ids or a condition
        self._rejecting = False  # whether settled tickets may still be in the queue

    def renew_locks(self) -> None:
        """Make locks; anew in a forked child, where nobody may hold the old ones."""
        self.mutex = threading.RLock()
        self._leading = threading.Lock()  # always taken before the mutex
        self._leads_in_fact: int | None = None  # the thread that holds it to write
        self._leader: int | None = None  # the thread that leads; a hint, which may be out of date
        self._followers: list[tuple[Ticket, threading.Lock]] = []

    # What callers see

    @property
    def exists(self) -> bool:
        """Whether there is a session to read; not before the first round, nor when closed."""
        return self._log.exists

    @property
    def cursor(self) -> Cursor:
        """Where numbering stands, behind what is durable."""
        return self._log.cursor

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
        return DiskFull(self._log.location, tuple(seqs), self._cause)

    def trouble(self) -> HoldfastError | None:
        """Return what keeps entries from becoming durable right now, if anything does."""
        return self._failure or (self.disk_full() if self._full else None)

    def enqueue(
        self,
        drafts: list[Draft],
        ids: Sequence[str | None] = (),
        payloads: Sequence[bytes] = (),
        entries: Sequence[Entry] = (),
        expect_head: int | UnsetType | None = UNSET,
    ) -> Ticket:
        """Queue drafts as one batch. The caller holds the mutex.

        ``ids`` are those of the drafts, one for each; what has an id that is known is not written
        again. ``payloads`` are stored before the lines are written. ``entries`` are what the drafts
        became, if they have numbers. ``expect_head`` has to be the head when they are numbered.

        Raises:
            WriteFailed: the journal cannot be written any more.
        """
        if self._unseen:
            self.raise_unseen()
        if self._failure is not None:
            raise self._failure
        self._log.check_held()
        ticket = Ticket(self, drafts, ids, payloads, entries)
        if ids or expect_head is not UNSET:
            ticket.expect_head = expect_head
            self._conditional = True
        self._queue.append(ticket)
        return ticket

    def withdraw(self, tickets: list[Ticket]) -> None:
        """Take tickets that nobody reads out of the queue. The caller holds the mutex."""
        for ticket in tickets:
            ticket.settle(None)
        self._queue = [ticket for ticket in self._queue if ticket not in tickets]

    def enqueue_first(self, drafts: list[Draft]) -> Ticket:
        """Queue drafts before everything else; nothing in the queue is numbered.

        The caller holds the mutex.
        """
        ticket = Ticket(self, drafts)
        self._queue = [ticket, *self._queue]
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

    def raise_rejected(self) -> None:
        """Raise why a ticket was rejected that nobody waited for, once."""
        with self.mutex:
            rejected, self._rejected = self._rejected, []
            for ticket in rejected:
                if ticket.error is not None and not ticket.seen:
                    ticket.seen = True
                    raise ticket.error

    def close(self) -> None:
        """Let go of the log.

        The caller does not hold the mutex.
        """
        self._refuse_handlers()
        with self._leading, self.mutex:
            self._log.release()

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
                if tickets and self._conditional:
                    tickets, behind, settled = self._admit(tickets, behind)
                    waiting -= settled
                if tickets:
                    self._commit(tickets, behind)
            except HoldfastError as caught:
                error = caught
            except _DEFECTS as caught:
                place = self._log.location
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
            raise TimeoutError(
                "A signal handler cannot append while it interrupts an append to the same session."
            )

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
        if self._rejecting:
            self._drop_settled()  # an interrupt came before they left the queue
            queue = self._queue
        if queue and queue[0].entries:
            self._settle_durable()  # it was tried; perhaps with success, and an interrupt came
        if len(queue) <= 1:
            return queue[:], []
        count = 1 if self._full and self.exists else self._until_mark()
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

    # Ids and conditions. Without the mutex, before anything of the round has a number.

    def _admit(
        self, tickets: list[Ticket], behind: list[Ticket]
    ) -> tuple[list[Ticket], list[Ticket], int]:
        """Settle tickets whose ids are known or whose condition does not hold.

        Returns what of the round is left, what of the rest may be numbered, and how many were
        settled. A ticket that depends on one before it ends the round: the next one knows.
        """
        head: int | object | None = self._log.cursor.head
        ids: set[str | None] = set()
        admitted: list[Ticket] = []
        round_length = 0
        settled: list[tuple[Ticket, Sequence[Entry], HoldfastError | None]] = []
        for index, ticket in enumerate([*tickets, *behind]):
            if not ticket.entries:
                waits = not ids.isdisjoint(ticket.ids)
                if waits or (ticket.expect_head is not UNSET and head is _TO_BE_NUMBERED):
                    break
                try:
                    known = self._owner.find_known(ticket) if ticket.ids else []
                    if len(known) < len(ticket.drafts):
                        if ticket.expect_head not in (UNSET, head):
                            assert not isinstance(ticket.expect_head, UnsetType)
                            raise HeadMoved(ticket.expect_head, self._log.cursor.head)
                        ticket.known_entries = known
                    else:
                        settled.append((ticket, known, None))
                        continue
                except HoldfastError as error:
                    settled.append((ticket, (), error))
                    continue
            ids.update(each for each in ticket.ids if each is not None)
            head = _head_after(ticket, head)
            admitted.append(ticket)
            round_length += index < len(tickets)
        self._settle_early(settled)
        return admitted[:round_length], admitted[round_length:], len(settled)

    def _settle_early(
        self, settled: list[tuple[Ticket, Sequence[Entry], HoldfastError | None]]
    ) -> None:
        with self.mutex:
            self._rejecting = True
            for ticket, entries, error in settled:
                if error is None:
                    ticket.known = True  # before its entries: they were not numbered for it
                    ticket.entries = entries
                else:
                    waiting = [each for each in self._rejected if not each.seen]
                    self._rejected = [*waiting, ticket]
                ticket.settle(error)
            self._drop_settled()
            self._conditional = any(
                (ticket.ids or ticket.expect_head is not UNSET) and not ticket.entries
                for ticket in self._queue
            )

    def _drop_settled(self) -> None:
        """Take tickets that were settled early out of the queue. Under the mutex."""
        for ticket in self._queue:
            if ticket.known and ticket.writer is not None:  # an interrupt came in between
                if ticket.entries:
                    ticket.settle(None)
                else:
                    ticket.known = False
        self._queue = [ticket for ticket in self._queue if ticket.writer is not None]
        self._rejecting = False

    # Settling. Under the mutex; each step may be done twice, and comes before what would keep the
    # next leader from doing it again.

    def _settle_durable(self) -> None:
        """Publish and settle what is durable at the head of the queue."""
        last = self._log.cursor.last_seq
        count = 0
        for ticket in self._queue:
            if last is None or not ticket.entries or ticket.entries[-1].seq > last:
                break
            count += 1
        if count:
            settled = self._queue[:count]
            self._owner.publish(settled)
            for ticket in settled:
                ticket.writer = None  # as ``Ticket.settle``, but every append comes this way
                if ticket.callbacks:
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
        cursor = self._log.cursor
        entries, after = assign_sequence(tickets, cursor)
        if behind:
            assign_sequence(behind, after)  # so that a full disk can be told what waits
        elif (
            after.since_mark_bytes >= MARK_EVERY_BYTES or tickets[-1].drafts[-1][0] == "checkpoint"
        ):
            after = self._mark(tickets[-1], entries, after)
        if entries[-1].seq > LARGEST_SEQ:  # such as behind a line that somebody has altered
            path = self._log.location
            raise WriteFailed(f"{path} has used all entry numbers", cursor.last_seq)
        payloads: list[bytes] = []
        for ticket in tickets:
            if ticket.payloads:
                payloads += ticket.payloads
        try:
            self._log.append(entries, payloads, after)
        except SessionExists:
            log = self._owner.join()
            if log is None:
                raise
            self._continue_in(log)

    def _continue_in(self, log: RoundLog) -> None:
        """Write what waits to a session that another process has made meanwhile."""
        with self.mutex:
            for ticket in self._queue:
                ticket.entries = ()  # the numbers were those of a session that does not exist
            self._conditional = True  # ids may be known there
            self._log = log

    def _mark(self, last: Ticket, entries: list[Entry], cursor: Cursor) -> Cursor:
        """Have a mark written behind a round, which is added to; return the cursor behind it."""
        draft = self._owner.mark_after(entries)
        if draft is None:
            return cursor
        # At the time of what it marks, which may have taken place elsewhere, long ago.
        mark, cursor = assign_sequence([Ticket(None, [draft])], cursor, entries[-1].at)
        last.trailer = mark
        entries += mark
        return cursor


def _head_after(ticket: Ticket, head: int | object | None) -> int | object | None:
    """Return the head after a ticket, which may have no numbers yet."""
    for entry in ticket.entries:
        head = entry.seq if in_tree(entry.type, entry.body) else _moved(entry.body, head)
    for type_name, body, _ in () if ticket.entries else ticket.drafts:
        head = _TO_BE_NUMBERED if in_tree(type_name, body) else _moved(body, head)
    return head


def _moved(body: Body, head: int | object | None) -> int | object | None:
    return body.to if isinstance(body, Head) else head
