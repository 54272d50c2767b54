"""The writing side of a session: bodies in, durable entries and a published state out.

Order of truth, on every path: bytes on disk, then the fold in memory, then listeners. Nothing is
folded before it is durable. What comes in goes through ``acceptance``; the journal's ``writer``
makes it durable, and then calls back here; ``listeners`` are told when that is done.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from holdfast.errors import DiskFull, HoldfastError, UsageError
from holdfast.journal.appender import Place
from holdfast.journal.live import LiveFile, has_live_text
from holdfast.journal.names import LIVE_NAME
from holdfast.journal.numbering import Cursor
from holdfast.journal.pump import Pump
from holdfast.journal.ticket import Draft, Ticket
from holdfast.journal.writer import Writer
from holdfast.model.entry import Body, Entry, Header
from holdfast.model.message import Message
from holdfast.store import birth, open_recorders
from holdfast.store.acceptance import Acceptance
from holdfast.store.blobs import Blobs, put_back
from holdfast.store.branch import Branch
from holdfast.store.drafts import draft_mark, seal_all
from holdfast.store.fold import fold
from holdfast.store.introduction import Introduction
from holdfast.store.known import Known
from holdfast.store.listeners import Listeners
from holdfast.store.streams import Streams
from holdfast.store.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from holdfast.journal.damage import Damage
    from holdfast.journal.reader import Journal
    from holdfast.model.entry import Position
    from holdfast.model.event import Event
    from holdfast.model.state import State
    from holdfast.store.drafts import Past
    from holdfast.store.home import Home

_RETRY_SECONDS = 0.5


class Recorder:
    """Accepts bodies from any thread, keeps their order, publishes what is durable.

    ``place``, ``cursor`` and ``damage`` belong to a journal that exists; without them it is made,
    with ``first_meta``, when the first entry comes.
    """

    def __init__(
        self,
        home: Home,
        header: Header,
        state: State,
        *,
        place: Place | None = None,
        cursor: Cursor | None = None,
        damage: Sequence[Damage] = (),
        first_meta: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        self._whole = False  # until there is something to close
        self._home = home
        self.header = header
        self.path = home.folder(header.session) if place is None else place.folder
        if cursor is None:
            cursor = Cursor(None, 0, b"", None)
        self._writer = Writer(home.files, header, self, cursor, place)
        self.mutex = self._writer.mutex
        self.state = state
        self.branch = Branch()
        self._view = View(home.files)
        self.introduction = Introduction(self._writer, header, first_meta, state.gaps)
        self._known = Known(home.files, self.path, self._writer, self.journal)
        self.listeners = Listeners(self.mutex)
        self._finished: list[str] = []  # streams whose messages became durable
        self._acceptance = Acceptance(self._writer, self.introduction, self._known)
        self.streams = Streams(self._open_live, self._finish_stream, self.settle)
        self._whole = True
        self._pump = Pump(self._work)
        self.streams.wake = self._wake
        self.introduction.note(damage)
        open_recorders.add(self)

    # Reading what was written

    @property
    def unborn(self) -> bool:
        """Whether nothing was accepted yet, so that there is nothing on disk."""
        return self._writer.place is None and not self.introduction.given

    @property
    def closed(self) -> bool:
        """Whether the lock has been let go."""
        return self._acceptance.closed

    def check_ours(self) -> None:
        """Raise ``UsageError`` in a process that was forked from the one that opened it."""
        self._acceptance.check_ours()

    def leave_to_parent(self) -> None:
        """In a forked child: never write, cut or close what the parent goes on using.

        The locks may have been held by threads that are not in this process.
        """
        self._acceptance.leave_to_parent()
        self._writer.renew_locks()
        self.mutex = self.listeners.mutex = self._writer.mutex
        self.streams.leave_to_parent()

    @property
    def place(self) -> Place | None:
        """Where the journal is; ``None`` while nothing was ever appended."""
        return self._writer.place

    def journal(self) -> Journal | None:
        """Return a view of everything durable, ``None`` while there is nothing, and after close."""
        with self.mutex:
            place = self._writer.place
            return None if place is None else self._view.of(place)

    @contextmanager
    def held_journal(self) -> Iterator[Journal | None]:
        """Give the same to somebody who reads it without the mutex."""
        with self.mutex:
            journal = self.journal()
            if journal is not None:
                self._view.hold(journal)
        try:
            yield journal
        finally:
            if journal is not None:
                with self.mutex:
                    self._view.release(journal)

    def trouble(self) -> HoldfastError | None:
        """Return what keeps entries from becoming durable right now, if anything does."""
        return self._writer.trouble()

    def pending_messages(self) -> list[Message]:
        """Return messages that were accepted and are not durable yet, or never will be."""
        with self.mutex:
            tickets = self._writer.unpublished
        payloads = [payload for ticket in tickets for payload in ticket.payloads]
        blobs = Blobs(self._home.files, self.path, payloads)
        return [
            put_back(body, blobs)
            for ticket in tickets
            for _, body, _ in ticket.drafts
            if isinstance(body, Message)
        ]

    # Writing

    def append(self, items: Sequence[Body], id: str | None = None) -> Position:
        """Append and return once durable.

        After ``DiskFull`` the same call takes up the entries that wait instead of new ones.
        """
        ticket = self._acceptance.accept(items, id, resumable=True)
        try:
            return self.settle(ticket)
        except DiskFull:
            with self.mutex:
                self._known.refuse(ticket, id)
            raise

    def submit(self, items: Sequence[Body], id: str | None = None) -> Ticket:
        """Append in the background."""
        ticket = self._acceptance.accept(items, id)
        if not self._pump.awake:
            self._wake()
        return ticket

    def adopt(self, pasts: Sequence[Past]) -> Position:
        """Append entries that were made elsewhere, as one batch; return once it is durable."""
        if not pasts:
            raise UsageError("There is nothing to append: the list is empty.")
        introduction = self.introduction
        ticket: Ticket | None = None
        while ticket is None:
            with self.mutex:
                self._acceptance.check_open()
                if not introduction.given or introduction.unnoted:
                    introduction.enqueue()
            with self.at_rest():
                self._acceptance.check_open()
                if not introduction.unnoted:  # else damage was met while we came to rest
                    ticket = self._enqueue_past(pasts)
        return self.settle(ticket)

    def _enqueue_past(self, pasts: Sequence[Past]) -> Ticket:
        """Seal and queue entries behind the last durable one; nothing else is queued now."""
        cursor = self._writer.cursor
        entries = seal_all(pasts, cursor.next_seq - 1, cursor.chain)
        payloads = [payload for past in pasts for payload in past.payloads]
        drafts = [past.draft for past in pasts]
        ticket = self._writer.enqueue(drafts, None, payloads, entries)
        self.branch.forget()  # what is adopted need not hang on the head
        return ticket

    def settle(self, ticket: Ticket) -> Position:
        """Wait for a ticket and tell listeners."""
        try:
            self._writer.wait(ticket)
            return ticket.entries[-1].position if ticket.error is None else ticket.wait()
        except DiskFull:
            self._wake()  # it goes on trying
            raise
        finally:
            if self._finished:  # as in ``_deliver``, but every append comes this way: no call
                self._let_streams_go()
            if self.listeners.untold:
                self.listeners.tell()

    def flush(self) -> None:
        """Return when everything accepted so far is durable."""
        with self.at_rest():
            pass

    def at_rest(self) -> AbstractContextManager[None]:
        """Hold the session still: all that was accepted is durable, other threads wait."""
        return self._acceptance.at_rest()

    # Streams

    def _finish_stream(self, items: Sequence[Body]) -> Ticket:
        ticket = self._acceptance.accept(items, None, finishes_stream=True)
        self._wake()
        return ticket

    def _open_live(self) -> LiveFile:
        if self._writer.place is None:
            with self.mutex:
                self.introduction.enqueue()
            self.flush()
        place = self._writer.place
        if place is None:  # the first append has failed for good: there is no session
            trouble = self._writer.trouble()
            assert trouble is not None
            raise trouble
        return LiveFile(self._home.files, place.folder)

    def recover(self, messages: Sequence[Message]) -> None:
        """Keep what a process that died had streamed, then empty the live file."""
        if not has_live_text(self._home.files, self.path):
            return
        self.streams.adopt({message.stream or "" for message in messages})
        for message in messages:
            self._finish_stream([message])
        try:
            with suppress(DiskFull):  # they stay queued; the live file still has them
                self.flush()
            self._writer.raise_unseen()
        except HoldfastError:
            self._let_go()
            raise
        self._let_streams_go()

    def drop_finished_streams(self) -> None:
        """Leave only text in the live file that is in no entry yet."""
        self.flush()
        self._let_streams_go()
        if self._home.files.exists(self.path / LIVE_NAME):
            self.streams.drop_finished()

    # What the writer calls

    def begin(self, data: bytes, payloads: list[bytes]) -> Place:
        """Make the session on disk."""
        return birth.make_session(self._home, self.header.session, data, payloads)

    def store_payloads(self, place: Place, payloads: list[bytes]) -> None:
        """Write blobs."""
        blobs = Blobs(self._home.files, place.folder)
        for payload in payloads:
            blobs.write(payload)

    def mark_after(self, entries: list[Entry]) -> Draft | None:
        """Return the mark that ends a round; none if the state is more than a line can hold."""
        return draft_mark(fold(entries, self.state))

    def publish(self, tickets: list[Ticket]) -> None:
        """Make what is durable visible. Called under the mutex."""
        seen = self.state.seq
        entries: list[Entry] = []
        finished: list[str] = []
        for ticket in tickets:
            entries += ticket.entries
            if ticket.trailer:
                entries += ticket.trailer
            if ticket.finishes_stream:
                message = ticket.entries[0].body  # others may go along with it
                assert isinstance(message, Message)
                finished.append(message.stream or "")
        if entries[0].seq <= seen:  # an interrupt may have us called twice
            entries = [entry for entry in entries if entry.seq > seen]
        if entries:
            self.branch.extend(entries)
            if self.listeners.callbacks:
                self.listeners.untold.extend(entries)
            self.state = fold(entries, self.state)
        if finished:
            self._finished += finished

    # After durability

    def listen_live(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Call ``callback`` for streamed text from now on; return a function that ends it."""
        with self.streams.lock:
            self.streams.listeners.append(callback)

        def stop() -> None:
            with self.streams.lock, suppress(ValueError):
                self.streams.listeners.remove(callback)

        return stop

    def _let_streams_go(self) -> None:
        """Let streams go whose messages became durable."""
        with self.mutex:
            names, self._finished = self._finished, []
        self.streams.settled(names)

    def _deliver(self) -> None:
        """Let everybody know what became durable. The caller does not hold the mutex."""
        if self._finished:
            self._let_streams_go()
        self.listeners.tell()

    def _wake(self) -> None:
        """Have the pump do what nobody waits for; where no thread can be had, do it here.

        What was accepted is accepted: an error now would have the caller do it twice.
        """
        try:
            self._pump.wake()
        except (RuntimeError, MemoryError):
            if not self._acceptance.held_here:  # who holds the session still waits next
                self._writer.drain()
                self.streams.work()

    def _work(self) -> float | None:
        """What the pump does: write what nobody waits for, flush and sync streams, retry."""
        idle = self._writer.drain()
        self._deliver()
        delay = self.streams.work()
        if idle:
            return delay
        return _RETRY_SECONDS if delay is None else min(delay, _RETRY_SECONDS)

    # Rewriting and closing

    def move(self, place: Place, cursor: Cursor, state: State) -> None:
        """Go on in a rewritten journal. The caller holds the mutex and nothing is queued."""
        self._writer.move(place, cursor)
        self._view.close()  # else the old file would take its room until somebody reads
        self.state = state
        self.introduction.forget_damage()
        self._known.forget_ids()
        self.branch.forget()

    @property
    def next_seq(self) -> int:
        """The number behind the last durable entry."""
        return self._writer.cursor.next_seq

    def close(self) -> None:
        """Finish streams as interrupted, make everything durable, let go of the lock.

        Listeners are told of everything first, and what they append is accepted; unless it is a
        listener that closes: it cannot wait for itself.

        Raises:
            DiskFull: entries still wait for room; the session stays open.
            WriteFailed: entries that nobody waited for were lost.
        """
        if self.closed:  # also in a forked child, where the mutex may be held by nobody
            return
        try:
            while True:
                self.listeners.wait_for_others()
                self.streams.interrupt_all()
                self.flush()
                self._deliver()
                with self.at_rest():
                    if self.listeners.is_done():  # else one may be about to append
                        self._acceptance.closed = True
                        break
        except DiskFull:
            raise
        except HoldfastError:
            self._let_go()
            raise
        self._let_go()
        self._deliver()
        self._writer.raise_unseen()

    def __del__(self) -> None:
        """Free the lock of a session that was dropped without being closed.

        Nothing can be waiting then: whatever waits is referred to by the thread that writes it.
        """
        if self._whole and not self._acceptance.closed:
            self._acceptance.closed = True
            self._release()

    def _let_go(self) -> None:
        with self.mutex:
            self._acceptance.closed = True
        self._pump.stop()
        self._release()
        open_recorders.discard(self)

    def _release(self) -> None:
        self.streams.close()
        self._writer.close()
        with self.mutex:
            self._view.close()
