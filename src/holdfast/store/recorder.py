"""The writing side of a session: bodies in, durable entries and a published state out.

Order of truth, on every path: bytes on disk, then the fold in memory, then listeners. Nothing is
folded before it is durable.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import threading
from collections import deque
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from holdfast.errors import DiskFull, HoldfastError, SessionExists, SessionLocked, UsageError
from holdfast.journal.appender import Place
from holdfast.journal.live import LiveFile
from holdfast.journal.lock import Lock
from holdfast.journal.names import JOURNAL_NAME, LIVE_NAME
from holdfast.journal.numbering import Cursor
from holdfast.journal.pump import Pump
from holdfast.journal.reader import Journal
from holdfast.journal.ticket import Draft, Ticket
from holdfast.journal.writer import Writer
from holdfast.model import entry as bodies
from holdfast.model.codec import encode_body, type_of
from holdfast.model.entry import Body, Entry, Header, Meta
from holdfast.model.message import Message
from holdfast.store.blobs import LARGEST_INLINE_BYTES, Blobs, put_back
from holdfast.store.branch import Branch
from holdfast.store.drafts import encode_all, seal_past
from holdfast.store.fold import fold, mark_of
from holdfast.store.home import discard_folder
from holdfast.store.refusals import os_errors
from holdfast.store.rewrite import archived
from holdfast.store.streams import Stream, Streams
from holdfast.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.journal.damage import Damage
    from holdfast.model.entry import Position
    from holdfast.model.event import Event
    from holdfast.model.state import State
    from holdfast.store.drafts import Past
    from holdfast.store.home import Home

_LOG = logging.getLogger("holdfast")
_RETRY_SECONDS = 0.5
_MOST_GAPS_AT_ONCE = 100
_LONGEST_ID = 1000


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
        self._closed = True  # until there is something to close
        self._home = home
        self.header = header
        self.path = home.folder(header.session) if place is None else place.folder
        if cursor is None:
            cursor = Cursor(None, 0, b"", None)
        self._writer = Writer(home.files, header, self, cursor, place)
        self.mutex = self._writer.mutex
        self.state = state
        self._first_meta = first_meta
        self._introduced = False
        self._refused: list[Ticket] = []  # whose callers were told that the disk is full
        self._unnoted: list[Damage] = []
        self._noted = set(state.gaps)
        self._ids: dict[str, Ticket] | None = None
        self.branch = Branch()
        self._journal: Journal | None = None
        self._listeners: list[Callable[[Entry], None]] = []
        self._undelivered: deque[Entry] = deque()
        self._delivering = False
        self._finished: list[str] = []  # streams whose messages became durable
        self._closed = False
        self._door = threading.Lock()  # shut by a thread that wants the session to come to rest
        self._inside: int | None = None  # that thread, once it has
        self._forked = False
        self.streams = Streams(self._open_live, self._finish_stream, self.settle)
        self._pump = Pump(self._work)
        self.streams.wake = self._wake
        self.note_damage(damage)
        _open_recorders.add(self)

    # Reading what was written

    @property
    def unborn(self) -> bool:
        """Whether nothing was accepted yet, so that there is nothing on disk."""
        return self._writer.place is None and not self._introduced

    @property
    def closed(self) -> bool:
        """Whether the lock has been let go."""
        return self._closed

    def check_ours(self) -> None:
        """Raise ``UsageError`` in a process that was forked from the one that opened it."""
        if self._forked:
            raise UsageError(
                "This session was opened before a fork and belongs to the parent process: "
                "open it anew in the child."
            )

    def leave_to_parent(self) -> None:
        """In a forked child: never write, cut or close what the parent goes on using.

        The locks may have been held by threads that are not in this process.
        """
        self._forked = self._closed = True
        self._writer.renew_locks()
        self.mutex, self._door = self._writer.mutex, threading.Lock()
        self.streams.leave_to_parent()

    @property
    def place(self) -> Place | None:
        """Where the journal is; ``None`` while nothing was ever appended."""
        return self._writer.place

    def journal(self) -> Journal | None:
        """Return a view of everything durable, ``None`` while there is nothing, and after close."""
        with self.mutex:
            place = self._writer.place
            if place is None:
                return None
            if self._journal is not None and self._journal.last.inode != place.inode:
                self._journal.close()
                self._journal = None
            if self._journal is None:
                self._journal = self._open_journal(place)
            self._journal.last.size = self._journal.last.end = place.end
            return self._journal

    def _open_journal(self, place: Place) -> Journal:
        try:
            journal = Journal(self._home.files, place.folder)
            if journal.last.inode == place.inode:
                return journal
            journal.close()
        except OSError:
            pass
        # Somebody deleted or replaced the files. What we have open can still be read and exported.
        return Journal(self._home.files, place.folder, (place.descriptor, place.segment))

    def note_damage(self, damage: Sequence[Damage]) -> None:
        """Remember damage that was met; the next append notes it in the journal."""
        with self.mutex:
            for piece in damage:
                place = (piece.segment, piece.offset, piece.length)
                if place not in self._noted:
                    self._noted.add(place)
                    self._unnoted.append(piece)

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
        ticket = self._accept(items, id, resumable=True)
        try:
            return self.settle(ticket)
        except DiskFull:
            with self.mutex:
                if id is None and ticket not in self._refused:
                    self._refused.append(ticket)
            raise

    def submit(self, items: Sequence[Body], id: str | None = None) -> Ticket:
        """Append in the background."""
        ticket = self._accept(items, id)
        if not self._pump.awake:
            self._wake()
        return ticket

    def adopt(self, pasts: Sequence[Past]) -> Position:
        """Append entries that were made elsewhere, as one batch; return once it is durable."""
        if not pasts:
            raise UsageError("There is nothing to append: the list is empty.")
        ticket: Ticket | None = None
        while ticket is None:
            with self.mutex:
                if not self._introduced or self._unnoted:
                    self._introduce()
            with self.at_rest():
                if not self._unnoted:  # else damage was met while we came to rest
                    ticket = self._enqueue_past(pasts)
        return self.settle(ticket)

    def _enqueue_past(self, pasts: Sequence[Past]) -> Ticket:
        """Seal and queue entries behind the last durable one; nothing else is queued now."""
        cursor = self._writer.cursor
        top, line_chain, entries = cursor.next_seq - 1, cursor.chain, []
        for index, past in enumerate(pasts):
            if past.seq <= top:
                raise UsageError(f"Number {past.seq} is taken: the next one is {top + 1}.")
            if past.parent is not None and past.parent >= past.seq:
                raise UsageError(f"Entry {past.seq} cannot hang on entry {past.parent}.")
            entry = seal_past(past, line_chain, (index, len(pasts)) if len(pasts) > 1 else None)
            top, line_chain = past.seq, entry.sum
            entries.append(entry)
        payloads = [payload for past in pasts for payload in past.payloads]
        ticket = self._writer.enqueue([past.draft for past in pasts], None, payloads)
        ticket.entries = entries
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
            if self._undelivered or self._finished:
                self._deliver()

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
                with self.mutex:
                    if self._writer.idle:
                        self._inside = threading.get_ident()
                        try:
                            yield
                        finally:
                            self._inside = None
                        return

    def _accept(
        self,
        items: Sequence[Body],
        id: str | None,
        *,
        resumable: bool = False,
        finishes_stream: bool = False,
    ) -> Ticket:
        """Check, encode and queue bodies as one batch; whoever writes it numbers it."""
        if self._forked:
            self.check_ours()
        if not items:
            raise UsageError("There is nothing to append: the list is empty.")
        if id is not None and not (isinstance(id, str) and 0 < len(id) <= _LONGEST_ID):
            raise UsageError(f"An entry's id is a string of 1 to {_LONGEST_ID} characters.")
        drafts, payloads = encode_all(items)
        while True:
            with self.mutex:
                if not self._door.locked() or self._inside == threading.get_ident():
                    if self._closed:
                        raise UsageError("This session is closed; open it again to append.")
                    known = None
                    if id is not None or self._refused:
                        known = self._known(drafts, id, resumable=resumable)
                    if known is not None:
                        return known
                    if not self._introduced or self._unnoted:
                        self._introduce()
                    if id is not None:
                        return self._enqueue_known(drafts, id, payloads)
                    ticket = self._writer.enqueue(drafts, None, payloads)
                    if finishes_stream:
                        ticket.finishes_stream = True
                    return ticket
            with self._door:  # not with the mutex: whoever shut it needs that
                pass

    def _enqueue_known(self, drafts: list[Draft], id: str, payloads: list[bytes]) -> Ticket:
        """Queue a batch, and remember it by its id."""
        known = self._known_ids()
        try:
            known[id] = ticket = self._writer.enqueue(drafts, id, payloads)
        except BaseException:  # an interrupt: it may be queued and not noted
            self._ids = None
            raise
        return ticket

    def _known(self, drafts: list[Draft], id: str | None, *, resumable: bool) -> Ticket | None:
        """Return the ticket of the same entries, if they were accepted before."""
        known = None if id is None else self._known_ids().get(id)
        if known is None and resumable and self._refused:
            return self._refused_twin(drafts)
        return known

    def _introduce(self) -> None:
        """Queue what stands before the first entry of a journal, or of this opening.

        Gaps come first: where the last line has no readable sum, they anchor the chain anew.
        """
        now, later = self._unnoted[:_MOST_GAPS_AT_ONCE], self._unnoted[_MOST_GAPS_AT_ONCE:]
        first: list[Body] = [
            bodies.Gap(
                reason="damage",
                segment=piece.segment,
                offset=piece.offset,
                length=piece.length,
                before=piece.before,
                after=piece.after,
            )
            for piece in now
        ]
        if not self._introduced:
            if self._writer.place is None:
                meta = self._first_meta() if self._first_meta else {}
                first += [self.header, Meta(meta)] if meta else [self.header]
            else:
                first.append(bodies.Writer(os.getpid(), socket.gethostname(), __version__))
        drafts = [(type_of(body), body, data) for data, body in map(encode_body, first)]
        for draft in drafts:
            self._writer.enqueue([draft]).seen = True
        self._introduced, self._unnoted = True, later

    def _known_ids(self) -> dict[str, Ticket]:
        if self._ids is None:
            with os_errors(f"{self.path} cannot be read", self.path):
                journal = self.journal()
                known = {} if journal is None else self._ids_in(journal)
            waiting = {ticket.id: ticket for ticket in self._writer.unpublished if ticket.id}
            self._ids = known | waiting  # complete, or not at all
        return self._ids

    def _ids_in(self, journal: Journal) -> dict[str, Ticket]:
        entries = chain(archived(self._home.files, journal.folder), journal.records())
        return {
            entry.id: Ticket(None, [], entries=[entry])
            for entry in entries
            if isinstance(entry, Entry) and entry.id is not None
        }

    def _refused_twin(self, drafts: list[Draft]) -> Ticket | None:
        """Return the ticket of a call that got ``DiskFull``, if this is the same call again.

        Its entries have numbers and will be written, or were a moment ago; a retry that queued
        them once more would write them twice.
        """
        for ticket in self._refused:
            if ticket.drafts == drafts:
                self._refused.remove(ticket)
                return ticket
        # The callers went on to something else: what is durable by now is not tried again.
        self._refused = [ticket for ticket in self._refused if not ticket.done]
        return None

    # Streams

    def begin_stream(self, first: Event) -> Stream:
        """Begin a stream."""
        return self.streams.begin(first)

    def _finish_stream(self, items: Sequence[Body]) -> Ticket:
        ticket = self._accept(items, None, finishes_stream=True)
        self._wake()
        return ticket

    def _open_live(self) -> LiveFile:
        if self._writer.place is None:
            with self.mutex:
                self._introduce()
            self.flush()
        place = self._writer.place
        if place is None:  # the first append has failed for good: there is no session
            trouble = self._writer.trouble()
            assert trouble is not None
            raise trouble
        return LiveFile(self._home.files, place.folder)

    def recover(self, messages: Sequence[Message]) -> None:
        """Keep what a process that died had streamed, then empty the live file."""
        if not self._has_live_text():
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
        self.streams.settled(self._take_finished())

    def drop_finished_streams(self) -> None:
        """Leave only text in the live file that is in no entry yet."""
        self.flush()
        self.streams.settled(self._take_finished())
        if self._home.files.exists(self.path / LIVE_NAME):
            self.streams.drop_finished()

    def _has_live_text(self) -> bool:
        try:
            return self._home.files.status_of(self.path / LIVE_NAME).st_size > 0
        except FileNotFoundError:
            return False

    # What the writer calls

    def begin(self, data: bytes, payloads: list[bytes]) -> Place:
        """Make the session on disk."""
        try:
            return self._home.make_session(self.header.session, [data], payloads, [])
        except SessionExists:
            if not self._discard_leaving(data):
                raise
        return self._home.make_session(self.header.session, [data], payloads, [])

    def _discard_leaving(self, data: bytes) -> bool:
        """Discard what an interrupt left when we made the session, before anybody was told.

        Only if nobody else holds it or has written to it.
        """
        try:
            if not self._is_leaving(data):
                return False  # before a lock file is made, or a link followed
            lock = Lock.acquire(self._home.files, self.path, __version__)
        except (OSError, SessionLocked):
            return False
        try:
            ours = self._is_leaving(data)
            if ours:
                discard_folder(self._home.files, self.path)
            return ours
        finally:
            lock.release()

    def _is_leaving(self, data: bytes) -> bool:
        journal = self.path / JOURNAL_NAME
        return self._home.has(self.header.session) and data.startswith(
            self._home.files.read_whole(journal)
        )

    def store_payloads(self, place: Place, payloads: list[bytes]) -> None:
        """Write blobs."""
        blobs = Blobs(self._home.files, place.folder)
        for payload in payloads:
            blobs.write(payload)

    def mark_after(self, entries: list[Entry]) -> Draft | None:
        """Return the mark that ends a round; none if the state is more than a line can hold."""
        try:
            data, mark = encode_body(mark_of(fold(entries, self.state)))
        except UsageError:  # such as a sum of costs beyond what JSON can hold
            return None
        return ("mark", mark, data) if len(data) <= LARGEST_INLINE_BYTES else None

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
            if self._listeners:
                self._undelivered.extend(entries)
            self.state = fold(entries, self.state)
        if finished:
            self._finished += finished

    # After durability

    def listen(self, callback: Callable[[Entry], None]) -> Callable[[], None]:
        """Call ``callback`` for every entry from now on; return a function that ends it."""
        with self.mutex:
            self._listeners.append(callback)

        def stop() -> None:
            with self.mutex, suppress(ValueError):
                self._listeners.remove(callback)

        return stop

    def listen_live(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Call ``callback`` for streamed text from now on; return a function that ends it."""
        with self.streams.lock:
            self.streams.listeners.append(callback)

        def stop() -> None:
            with self.streams.lock, suppress(ValueError):
                self.streams.listeners.remove(callback)

        return stop

    def _take_finished(self) -> list[str]:
        with self.mutex:
            names, self._finished = self._finished, []
            return names

    def _deliver(self) -> None:
        """Tell listeners, in order, outside the mutex; one thread at a time does it."""
        if self._finished:
            self.streams.settled(self._take_finished())
        while True:
            with self.mutex:
                if self._delivering or not self._undelivered:
                    return
                self._delivering = True
                entry = self._undelivered.popleft()
                listeners = list(self._listeners)
            try:
                for listener in listeners:
                    try:
                        listener(entry)
                    except Exception:  # noqa: BLE001  other people's code; the entry is durable
                        _LOG.exception("A listener failed on entry %d", entry.seq)
            finally:
                with self.mutex:
                    self._delivering = False

    def _wake(self) -> None:
        """Have the pump do what nobody waits for; where no thread can be had, do it here.

        What was accepted is accepted: an error now would have the caller do it twice.
        """
        try:
            self._pump.wake()
        except (RuntimeError, MemoryError):
            if self._inside != threading.get_ident():  # who holds the session still waits next
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
        self.state = state
        self._unnoted, self._noted = [], set()
        self._ids = None
        self.branch.forget()

    @property
    def next_seq(self) -> int:
        """The number behind the last durable entry."""
        return self._writer.cursor.next_seq

    def close(self) -> None:
        """Finish streams as interrupted, make everything durable, let go of the lock.

        Raises:
            DiskFull: entries still wait for room; the session stays open.
            WriteFailed: entries that nobody waited for were lost.
        """
        if self._closed:  # also in a forked child, where the mutex may be held by nobody
            return
        try:
            self.streams.interrupt_all()
            self.flush()
            self._deliver()
            with self.at_rest():
                self._closed = True
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
        if not self._closed:
            self._closed = True
            self._release()

    def _let_go(self) -> None:
        with self.mutex:
            self._closed = True
        self._pump.stop()
        self._release()
        _open_recorders.discard(self)

    def _release(self) -> None:
        self.streams.close()
        self._writer.close()
        with self.mutex:
            if self._journal is not None:
                self._journal.close()
                self._journal = None


_open_recorders: WeakSet[Recorder] = WeakSet()


def _leave_all_to_parent() -> None:
    for recorder in list(_open_recorders):
        recorder.leave_to_parent()
    _open_recorders.clear()


os.register_at_fork(after_in_child=_leave_all_to_parent)


@atexit.register
def _close_all() -> None:
    """Write what was submitted and never waited for, before the interpreter goes."""
    for recorder in list(_open_recorders):
        try:
            recorder.close()
        except Exception as error:  # noqa: BLE001  the end of the process: close the others too
            _LOG.critical("%s", error)
