"""The writing side of a session: bodies in, durable entries and a published state out.

Order of truth, on every path: bytes on disk, then the fold in memory, then listeners. Nothing is
folded before it is durable. The journal's ``writer`` makes it durable, and then calls back here;
``listeners`` are told when that is done.

Bodies are accepted by one thread at a time, in order, each once. They are checked and encoded
before the mutex is taken. Under it: is the session open, was the same accepted before, is an
introduction due? Then they are queued, and the thread that writes the queue numbers them. A thread
that needs the session to stand still shuts the door for the others.
"""

from __future__ import annotations

import atexit
import logging
import os
import random
import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from msgspec import UNSET, UnsetType

from holdfast.errors import DiskFull, HoldfastError, SessionLocked, UsageError
from holdfast.journal.pool import BackgroundTask
from holdfast.journal.ticket import Draft, DuplicateTicket, Ticket
from holdfast.journal.writer import GroupCommitter
from holdfast.model.entry import Body, Entry, Header, Position
from holdfast.model.message import Message
from holdfast.store.read.branch import Branch
from holdfast.store.read.fold import fold
from holdfast.store.validation import check_facts
from holdfast.store.write.blob_refs import Unwritten, put_back
from holdfast.store.write.dedup import AppendIds, checked_ids, known_entries
from holdfast.store.write.encode import encode_all, encode_mark, seal_all
from holdfast.store.write.listeners import Listeners
from holdfast.store.write.preamble import Preamble
from holdfast.store.write.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.journal.damage import Damage
    from holdfast.model.event import Event
    from holdfast.model.state import State
    from holdfast.store.backend import BlobSource, LiveLog, Log, LogWriter, Opened
    from holdfast.store.types import Span
    from holdfast.store.write.encode import ImportedEntry

_LOG = logging.getLogger("holdfast")
_RETRY_SECONDS = 0.5
_JOIN_SECONDS = 5.0


class Recorder:
    """Accepts bodies from any thread, keeps their order, publishes what is durable.

    ``damage`` belongs to a log that exists. One that does not is made, with ``first_meta``, when
    the first entry comes. If another process has made it by then, ``open_existing`` opens it and
    the entries go there; without it that is an error.
    """

    def __init__(
        self,
        log_writer: LogWriter,
        header: Header,
        state: State,
        *,
        damage: Sequence[Damage] = (),
        first_meta: Callable[[], dict[str, Any]] | None = None,
        open_existing: Callable[[], Opened] | None = None,
    ) -> None:
        self._whole = False  # until there is something to close
        self._open_existing = open_existing
        self.log_writer = log_writer
        self.uid = header.uid
        self._writer = GroupCommitter(log_writer, self)
        self.mutex = self._writer.mutex
        self.state = state
        self.branch = Branch()
        self.introduction = Preamble(self._writer, header, first_meta, state.gaps)
        self._known = AppendIds()
        self.listeners = Listeners(self.mutex)
        self._ids_grow = False  # whether it may be worth to save where ids are
        self.steps: dict[tuple[str, str], Any] = {}  # of runs, while this process is at them
        self.ended_runs: set[str] = set()
        self._finished: list[str] = []  # streams whose messages became durable
        self.closed = False  # set under the mutex
        self._door = threading.Lock()  # shut by a thread that wants the session to come to rest
        self._inside: int | None = None  # that thread, once it has
        self._forked = False
        self.streams = Streams(self._open_live, self._finish_stream, self.settle)
        self._whole = True
        self._task = BackgroundTask(self._work)
        self.streams.wake = self._wake
        self.introduction.note(damage)
        _open.add(self)

    # Reading what was written

    @property
    def unborn(self) -> bool:
        """Whether nothing was accepted yet, so that there is nothing on disk."""
        return not self._writer.exists and not self.introduction.given

    def check_ours(self) -> None:
        """Raise ``UsageError`` in a process that was forked from the one that opened it."""
        if self._forked:
            raise UsageError(
                "This session was opened before a fork and belongs to the parent process: "
                "open it again in the child process."
            )

    def _check_open(self) -> None:
        """Raise ``UsageError`` once it is closed. The caller holds the mutex."""
        if self.closed:
            raise UsageError("This session is closed; open it again to append.")

    def leave_to_parent(self) -> None:
        """In a forked child: never write, cut or close what the parent goes on using.

        The locks may have been held by threads that are not in this process.
        """
        self._forked = self.closed = True
        self._door = threading.Lock()
        self._writer.renew_locks()
        self.mutex = self.listeners.mutex = self._writer.mutex
        self.streams.leave_to_parent()

    @property
    def exists(self) -> bool:
        """Whether there is a log: not while nothing was ever appended, nor after close."""
        return self._writer.exists

    def journal(self) -> Log | None:
        """Return a view of everything durable, ``None`` while there is nothing, and after close."""
        with self.mutex:
            return self.log_writer.log()

    @contextmanager
    def held_journal(self) -> Iterator[Log | None]:
        """Give the same to somebody who reads it without the mutex."""
        with self.mutex:
            journal = self.journal()
            if journal is not None:
                self.log_writer.hold(journal)
        try:
            yield journal
        finally:
            if journal is not None:
                with self.mutex:
                    self.log_writer.let_go(journal)

    def trouble(self) -> HoldfastError | None:
        """Return what keeps entries from becoming durable right now, if anything does."""
        return self._writer.trouble()

    def pending_messages(self, blobs: BlobSource) -> list[Message]:
        """Return messages that were accepted and are not durable yet, or never will be."""
        with self.mutex:
            tickets = self._writer.unpublished
        payloads = [payload for ticket in tickets for payload in ticket.payloads]
        unwritten = Unwritten(payloads, blobs)
        return [
            put_back(body, unwritten)
            for ticket in tickets
            for _, body, _ in ticket.drafts[len(ticket.known_entries) :]
            if isinstance(body, Message)
        ]

    # Writing

    def _accept(
        self,
        items: Sequence[Body],
        id: str | None = None,
        ids: Sequence[str] | None = None,
        expect_head: int | UnsetType | None = UNSET,
        payloads: Sequence[bytes] = (),
        *,
        resumable: bool = False,
        finishes_stream: bool = False,
    ) -> Ticket:
        """Check, encode and queue bodies as one batch; the thread that writes it numbers it."""
        if self._forked:
            self.check_ours()
        if not items:
            raise UsageError("There is nothing to append: the list is empty.")
        given = checked_ids(len(items), id, ids) if id is not None or ids is not None else ()
        drafts, taken_out = encode_all(items)
        check_facts(self.state.meta, [body for type_name, body, _ in drafts if type_name == "meta"])
        payloads = [*payloads, *taken_out]
        while True:
            with self._writer.mutex:
                if not self._door.locked() or self._inside == threading.get_ident():
                    if self.closed:
                        self._check_open()
                    known = None
                    if given or self._known.refused:
                        known = self._known.find(drafts, given, resumable=resumable)
                    if known is not None:
                        return known
                    if not self.introduction.given or self.introduction.unnoted:
                        self.introduction.enqueue()
                    ticket = self._writer.enqueue(drafts, given, payloads, (), expect_head)
                    if given:
                        self._known.note(ticket)
                    if finishes_stream:
                        ticket.finishes_stream = True
                    return ticket
            with self._door:  # not with the mutex: the thread that shut it needs that
                pass

    def append(
        self,
        items: Sequence[Body],
        id: str | None = None,
        ids: Sequence[str] | None = None,
        expect_head: int | UnsetType | None = UNSET,
        payloads: Sequence[bytes] = (),
    ) -> Position:
        """Append and return once durable; ``payloads`` are the blobs that items name.

        After ``DiskFull`` the same call takes up the entries that wait instead of new ones.
        """
        ticket = self._accept(items, id, ids, expect_head, payloads, resumable=True)
        try:
            if isinstance(ticket, DuplicateTicket):
                self.settle(ticket.original)
                return ticket.position
            return self.settle(ticket)
        except DiskFull:
            with self.mutex:
                self._known.refuse(ticket)
            raise

    def submit(
        self,
        items: Sequence[Body],
        id: str | None = None,
        ids: Sequence[str] | None = None,
        expect_head: int | UnsetType | None = UNSET,
        payloads: Sequence[bytes] = (),
    ) -> Ticket:
        """Append in the background."""
        ticket = self._accept(items, id, ids, expect_head, payloads)
        if not self._task.awake:
            self._wake()
        return ticket

    def adopt(
        self, pasts: Sequence[ImportedEntry], record: Callable[[list[Span]], None]
    ) -> Position:
        """Append entries that were made elsewhere, as one batch; return once it is durable.

        ``record`` is called before with the numbers they will have.
        """
        if not pasts:
            raise UsageError("There is nothing to append: the list is empty.")
        introduction = self.introduction
        ticket: Ticket | None = None
        while ticket is None:
            with self.mutex:
                self._check_open()
                if not introduction.given or introduction.unnoted:
                    introduction.enqueue()
            with self.at_rest():
                self._check_open()
                if not introduction.unnoted:  # else damage was met while we came to rest
                    first, last = self.next_seq, max(past.seq for past in pasts)
                    record([(first, max(first, last))])
                    ticket = self._enqueue_past(pasts)
        return self.settle(ticket)

    def _enqueue_past(self, pasts: Sequence[ImportedEntry]) -> Ticket:
        """Seal and queue entries behind the last durable one; nothing else is queued now."""
        cursor = self._writer.cursor
        entries = seal_all(pasts, cursor.next_seq - 1, cursor.chain)
        payloads = [payload for past in pasts for payload in past.payloads]
        drafts = [past.draft for past in pasts]
        ticket = self._writer.enqueue(drafts, (), payloads, entries)
        self.branch.forget()  # what is adopted need not hang on the head
        return ticket

    def settle(self, ticket: Ticket) -> Position:
        """Wait for a ticket and tell listeners."""
        try:
            self._writer.wait(ticket)
            if ticket.error is not None or ticket.known:
                return ticket.wait()
            last = ticket.entries[-1]  # as ``Entry.position``, but every append comes this way
            return Position(last.seq, last.offset, last.segment) if last.segment else last.position
        except DiskFull:
            self._wake()  # it goes on trying
            raise
        finally:
            if self._finished:  # as in ``_deliver``, but every append comes this way: no call
                self._let_streams_go()
            if self.listeners.untold:
                self.listeners.tell()
            if self._ids_grow:
                self._wake()

    def flush(self) -> None:
        """Return when everything accepted so far is durable."""
        with self.at_rest():
            pass

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Hold the session still: all that was accepted is durable, others wait at the door.

        Without a door a session that is busy would never come to rest.
        """
        with self._door:
            while True:
                self._writer.flush()  # without the mutex: those who are inside go on
                with self._writer.mutex:
                    if self._writer.idle:
                        self._inside = threading.get_ident()
                        try:
                            yield
                        finally:
                            self._inside = None
                        return

    # Streams

    def _finish_stream(self, items: Sequence[Body]) -> Ticket:
        ticket = self._accept(items, finishes_stream=True)
        self._wake()
        return ticket

    def _open_live(self) -> LiveLog:
        if not self._writer.exists:
            with self.mutex:
                self.introduction.enqueue()
            self.flush()
        if not self._writer.exists:  # the first append has failed for good: there is no session
            trouble = self._writer.trouble()
            assert trouble is not None
            raise trouble
        return self.log_writer.open_live()

    def recover(self, messages: Sequence[Message]) -> None:
        """Keep what a process that died had streamed, then empty the live file."""
        if not self.log_writer.has_live_text():
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
        if self.log_writer.has_live_file():
            self.streams.drop_finished()

    # What the writer calls

    def find_known(self, ticket: Ticket) -> list[Entry]:
        """Return the entries that the first drafts of a ticket with ids became earlier."""
        try:
            with self.log_writer.errors("cannot be read"), self.held_journal() as log:
                known = [] if log is None else known_entries(log, ticket)
        except HoldfastError:
            with self.mutex:
                self._known.forget(ticket)  # it is rejected
            raise
        if len(known) == len(ticket.drafts):
            with self.mutex:
                self._known.forget(ticket)
        return known

    def join(self) -> LogWriter | None:
        """Open the session that another process made meanwhile; wait while it is locked."""
        if self._open_existing is None:
            return None
        deadline = time.monotonic() + _JOIN_SECONDS
        opened: Opened | None = None
        while opened is None:
            try:
                opened = self._open_existing()
            except SessionLocked:
                if time.monotonic() > deadline:
                    raise
                time.sleep(random.uniform(0.01, 0.05))  # noqa: S311  so that not all come at once
        writer = opened.writer
        if writer is None or opened.recovery.interrupted:  # ``Store.session`` takes care of these
            if writer is not None:
                writer.release()
            return None
        writer.begin_own(opened.state.seq)
        with self.mutex:
            self.introduction.join(opened.recovery.damage)
            self.state, self.log_writer = opened.state, writer
        return writer

    def mark_after(self, entries: list[Entry]) -> Draft | None:
        """Return the mark that ends a round; none if the state is more than a line can hold."""
        return encode_mark(fold(entries, self.state))

    def publish(self, tickets: list[Ticket]) -> None:
        """Make what is durable visible. Called under the mutex."""
        seen = self.state.seq
        entries: list[Entry] = []
        finished: list[str] = []
        for ticket in tickets:
            entries += ticket.entries
            if ticket.trailer:
                entries += ticket.trailer
                self._ids_grow = True
            if ticket.ids:
                self._known.forget(ticket)
            if ticket.finishes_stream:
                message = ticket.entries[0].body  # others may go along with it
                assert isinstance(message, Message)
                finished.append(message.stream or "")
        if entries[0].seq <= seen:  # an interrupt may have us called twice
            entries = [entry for entry in entries if entry.seq > seen]
        if entries:
            if not self.branch.is_idle:
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
        """Have the pool do what no caller waits for; where it has no thread, do it here.

        What was accepted is accepted: an error now would have the caller do it twice.
        """
        try:
            self._task.wake()
        except (RuntimeError, MemoryError):
            if self._inside != threading.get_ident():  # who holds the session still waits next
                self._writer.drain()
                self.streams.work()

    def _work(self) -> float | None:
        """Write what was submitted, flush and sync streams, retry. Called by the pool."""
        idle = self._writer.drain()
        calls_out = self.listeners.untold or self.streams.listeners
        with self._task.lent() if calls_out else nullcontext():  # a listener may take its time
            self._deliver()
            delay = self.streams.work()
        if self._ids_grow:
            self._ids_grow = False
            self._save_ids()
        if idle:
            return delay
        return _RETRY_SECONDS if delay is None else min(delay, _RETRY_SECONDS)

    def _save_ids(self, *, closing: bool = False) -> None:
        """Save where ids are, if it is worth it; what fails is done again."""
        errors = self.log_writer.errors("cannot be read")
        with suppress(HoldfastError), errors, self.held_journal() as log:
            if log is not None:
                self.log_writer.save_ids(log, closing=closing)

    # Rewriting and closing

    def rewritten(self, state: State) -> None:
        """Go on in a rewritten log. The caller holds the mutex and nothing is queued."""
        self.state = state
        self.introduction.forget_damage()
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
                        self.closed = True
                        break
        except DiskFull:
            raise
        except HoldfastError:
            self._let_go()
            raise
        if self.log_writer.has_grown():
            self._save_ids(closing=True)
        self._let_go()
        self._deliver()
        self._writer.raise_unseen()
        self._writer.raise_rejected()

    def __del__(self) -> None:
        """Free the lock of a session that was dropped without being closed.

        Nothing can be waiting then: whatever waits is referred to by the thread that writes it.
        """
        if self._whole and not self.closed:
            self.closed = True
            self._release()

    def _let_go(self) -> None:
        with self.mutex:
            self.closed = True
        self._task.stop()
        self._release()
        _open.discard(self)

    def _release(self) -> None:
        self.streams.close()
        self._writer.close()


_open: WeakSet[Recorder] = WeakSet()
"""The recorders that are open in this process; none is kept alive by this."""


def _leave_all_to_parent() -> None:
    """Leave all open recorders to the parent, in a child that was forked."""
    for recorder in list(_open):
        recorder.leave_to_parent()
    _open.clear()


os.register_at_fork(after_in_child=_leave_all_to_parent)


@atexit.register
def _close_all() -> None:
    """Write what was submitted and never waited for, before the interpreter exits."""
    for recorder in list(_open):
        try:
            recorder.close()
        except Exception as error:  # noqa: BLE001  the end of the process: close the others too
            _LOG.critical("%s", error)
