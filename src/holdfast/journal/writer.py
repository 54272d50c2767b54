"""Appending: one write and one sync for all that waits, then the acknowledgements.

Leader commit. Drafts are queued under the mutex. Whoever waits for one of them and finds nobody
writing becomes the leader: takes the whole queue, numbers and seals it, writes and syncs it outside
the mutex, settles its tickets. Those who arrive meanwhile share the next round. There is one leader
at a time, so what only a leader touches (numbers, chain, head) needs no lock.

When something goes wrong, in this order of preference:

- **no room**: what was written of the round is cut off again, the entries stay queued with their
  numbers, waiters get ``DiskFull``, and every later call and the pump try again;
- **a failed sync** (or a write that failed otherwise): the kernel may have thrown the pages away
  and will not say so twice, so that descriptor is never used again. The round is written to the
  next journal file, whose header names the last acknowledged entry; readers ignore what stands
  after that entry in the earlier file;
- **that fails too, or the file is no longer ours** (deleted, replaced, changed by somebody else):
  ``WriteFailed``; nothing is ever appended again.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.errors import DiskFull, HoldfastError, WriteFailed
from holdfast.journal.files import NO_ROOM
from holdfast.journal.format import seal, timestamp
from holdfast.journal.reader import JOURNAL_NAME, segment_name
from holdfast.journal.ticket import Draft, Ticket
from holdfast.model.codec import encode_body
from holdfast.model.entry import (
    FORMAT,
    NO_PARENT_FIELD,
    TREE,
    Continues,
    Entry,
    Head,
    Header,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from holdfast.journal.files import Files
    from holdfast.journal.lock import Lock
    from holdfast.journal.repair import Tail

_RESERVE_BYTES = 1024 * 1024
_RESERVE_AGAIN_BYTES = 256 * 1024


class Place(Struct):
    """Where a writer appends: an open file of a locked folder."""

    folder: Path
    lock: Lock
    path: Path
    descriptor: int
    inode: int
    segment: int


class _Unusable(Exception):
    """The current file must not be written any more; the round has to go elsewhere."""


class Writer:
    """The one appender of a journal.

    ``birth`` makes the journal with the first round's bytes and payloads and returns where it is;
    a journal that exists already is given as ``place`` with the ``tail`` that repair left. Payloads
    of later rounds go through ``store_payloads`` first.

    Contract of ``on_numbered``: called by the leader with each ticket's entries, in order; may
    return a line of the journal's own to be written behind them. Contract of ``on_durable``: called
    under the mutex with the tickets of a round that is durable, before they are settled.
    """

    def __init__(
        self,
        files: Files,
        header: Header,
        head: int | None,
        *,
        on_numbered: Callable[[Sequence[Entry]], Draft | None],
        on_durable: Callable[[list[Ticket]], None],
        birth: Callable[[bytes, list[bytes]], Place],
        store_payloads: Callable[[Place, list[bytes]], None],
        place: Place | None = None,
        tail: Tail | None = None,
    ) -> None:
        self.lock = threading.RLock()
        self.mutex = threading.Condition(self.lock)  # the same lock, with waiting
        self._files = files
        self._header = header
        self._on_numbered = on_numbered
        self._on_durable = on_durable
        self._birth = birth
        self._store_payloads = store_payloads
        self._place = place
        self._queue: list[Ticket] = []
        self._round: list[Ticket] = []
        self._leading = False
        self._full = False
        self._broken = False
        self._failure: HoldfastError | None = None
        self._unseen: list[Ticket] = []
        self._head = head
        self._offset = tail.end if tail else 0
        self._missing_newline = tail.newline_missing if tail else False
        self._chain = tail.chain if tail else b""
        self._durable_seq: int | None = tail.last_seq if tail else None
        self._durable_chain = self._chain
        self._reserved_until = 0
        self.next_seq = tail.next_seq if tail else 0

    # What callers see

    @property
    def place(self) -> Place | None:
        """Where the journal is; ``None`` before the first entry is durable."""
        return self._place

    @property
    def durable_end(self) -> int:
        """Bytes of the current file that are durable."""
        return self._offset

    @property
    def failure(self) -> HoldfastError | None:
        """Why nothing can be written any more, if so."""
        return self._failure

    @property
    def pending(self) -> tuple[int, ...]:
        """Numbers of the entries that are not durable yet."""
        return tuple(entry.seq for ticket in self.unpublished for entry in ticket.entries)

    @property
    def unpublished(self) -> list[Ticket]:
        """Tickets that are being written or wait for it. The caller holds the mutex."""
        return self._round + self._queue

    def disk_full(self) -> DiskFull:
        """Return the error that says what waits for room."""
        return DiskFull(self._place.path if self._place else "the session", self.pending)

    def trouble(self) -> HoldfastError | None:
        """Return what keeps entries from becoming durable right now, if anything does."""
        with self.mutex:
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
        if self._place is not None:
            self._place.lock.check_ours()
        ticket = Ticket(self, drafts, id)
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

    def wait(self, ticket: Ticket, timeout_seconds: float | None = None) -> None:
        """Return when the ticket is settled, writing the queue if nobody else does.

        Raises:
            DiskFull: an attempt made meanwhile found no room.
            TimeoutError: the time is over.
        """
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        with self.mutex:
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
        """Write what is queued, unless somebody does; tell whether nothing waits any more."""
        with self.mutex:
            if self._queue and not self._leading:
                self._lead()
            return not self._queue

    def flush(self) -> None:
        """Return when nothing waits any more; raise what ``Ticket.wait`` raises."""
        with self.mutex:
            while self._queue or self._leading:
                if self._queue:
                    self._queue[-1].wait()
                else:
                    self.mutex.wait()

    def raise_unseen(self) -> None:
        """Raise the error of a ticket that nobody waited for, once."""
        with self.mutex:
            unseen, self._unseen = self._unseen, []
            for ticket in unseen:
                if ticket.error is not None and not ticket.seen:
                    ticket.seen = True
                    raise ticket.error

    def close(self) -> None:
        """Give the reserve back and let go of the files and the lock."""
        with self.mutex:
            while self._leading:
                self.mutex.wait()
            place, self._place = self._place, None
            if place is None:
                return
            try:
                if not self._broken and self._failure is None and self._reserved_until:
                    self._files.truncate(place.descriptor, self._offset)
                self._files.close(place.descriptor)
            except OSError:
                pass  # everything acknowledged is durable; blocks beyond the end are not ours
            finally:
                place.lock.release()

    def move(self, place: Place, size: int, last: Entry) -> None:
        """Go on in a file that a rewrite put in the old one's place. The caller holds the mutex."""
        assert self._place is not None
        assert not self._leading
        assert not self._queue
        self._files.close(self._place.descriptor)
        self._place, self._offset = place, size
        self._chain = self._durable_chain = last.line[-10:-2]
        self._durable_seq, self.next_seq = last.seq, last.seq + 1
        self._reserved_until = 0
        self._missing_newline = False
        place.lock.note_durable(place.inode, size)

    # The leader. Enters and leaves with the mutex held, works without it.

    def _lead(self) -> None:
        tickets, self._queue = self._queue, []
        self._round = tickets
        self._leading = True
        self.mutex.release()
        failure: HoldfastError | None = None
        try:
            tickets = self._number(tickets)
            self._commit(tickets)
            full = False
        except DiskFull:
            full = True
        except HoldfastError as error:
            full, failure = False, error
        finally:
            self.mutex.acquire()
            self._leading = False
            self._round = []
        self._full = full
        if full:
            self._queue = tickets + self._queue
            for ticket in tickets:
                ticket.refusals += 1
        elif failure is not None:
            tickets += self._queue
            self._queue = []
            self._failure = failure
            self._unseen += tickets
            for ticket in tickets:
                ticket.settle(failure)
        else:
            self._on_durable(tickets)
            for ticket in tickets:
                ticket.writer = None
        self.mutex.notify_all()
        for ticket in tickets:
            if ticket.callbacks:
                ticket.notify()

    def _number(self, tickets: list[Ticket]) -> list[Ticket]:
        """Give numbers, parents and checksums; return the tickets with the journal's own lines."""
        at = timestamp()
        numbered = []
        for ticket in tickets:
            numbered.append(ticket)
            if ticket.entries:
                continue  # by an earlier attempt, which found no room
            ticket.entries = self._sealed(ticket.drafts, at, ticket.id)
            own = self._on_numbered(ticket.entries)
            if own is not None:
                extra = Ticket(self, [own], entries=self._sealed([own], at, None), seen=True)
                self._on_numbered(extra.entries)
                numbered.append(extra)
        return numbered

    def _sealed(self, drafts: list[Draft], at: str, id: str | None) -> list[Entry]:
        entries = []
        last = len(drafts) - 1
        for index, (type_name, body, data) in enumerate(drafts):
            seq = self.next_seq
            parent: int | None = NO_PARENT_FIELD
            if type_name in TREE:
                parent, self._head = self._head, seq
            elif type_name == "head" and isinstance(body, Head):
                self._head = body.to
            own_id = id if index == last else None
            batch = (index, last + 1) if last else None
            line = seal(seq, at, type_name, data, self._chain, parent, own_id, batch)
            entries.append(Entry(seq, at, type_name, body, parent, own_id, batch, "ok", line))
            self._chain = line[-10:-2]
            self.next_seq = seq + 1
        return entries

    def _commit(self, tickets: list[Ticket]) -> None:
        data = b"".join([entry.line + b"\n" for ticket in tickets for entry in ticket.entries])
        payloads = [payload for ticket in tickets for payload in ticket.payloads]
        try:
            if self._place is None:
                self._begin(data, payloads)
                start = 0
            else:
                self._prepare(self._place, payloads)
                start = self._append(self._place, data)
        except _Unusable as reason:
            start = self._continue(data, str(reason))
        place = self._place
        assert place is not None
        segment = place.segment
        for ticket in tickets:
            for entry in ticket.entries:
                entry.offset, entry.segment = start, segment
                start += len(entry.line) + 1
        last = tickets[-1].entries[-1]
        self._durable_seq, self._durable_chain = last.seq, last.line[-10:-2]
        place.lock.note_durable(place.inode, self._offset)

    def _begin(self, data: bytes, payloads: list[bytes]) -> None:
        try:
            self._place = self._birth(data, payloads)
        except OSError as error:
            raise self._no_room_or(error, "the session cannot be made") from error
        self._offset = len(data)
        self._reserve(self._place, 0)

    def _prepare(self, place: Place, payloads: list[bytes]) -> None:
        if payloads:
            try:
                self._store_payloads(place, payloads)
            except OSError as error:
                raise self._no_room_or(error, "a large payload cannot be stored") from error

    def _no_room_or(self, error: OSError, what: str) -> HoldfastError:
        if error.errno in NO_ROOM:
            return self.disk_full()
        return WriteFailed(f"{what[0].upper()}{what[1:]}: {error}", self._durable_seq)

    def _append(self, place: Place, data: bytes) -> int:
        """Write and sync behind the durable end; return the offset of the first entry."""
        if self._broken:
            raise _Unusable("the last attempt to go on in a new file found no room")
        self._check_ours(place)
        start = self._offset
        if self._missing_newline:
            data = b"\n" + data
            start += 1
        self._reserve(place, len(data))
        try:
            written = self._files.write(place.descriptor, data)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise self.disk_full() from error
            raise _Unusable(f"writing failed: {error}") from error
        if written != len(data):
            self._undo(place)
        try:
            self._files.sync(place.descriptor)
        except OSError as error:
            raise _Unusable(f"syncing failed: {error}") from error
        self._offset += len(data)
        self._missing_newline = False
        return start

    def _check_ours(self, place: Place) -> None:
        try:
            status = self._files.status_of(place.path)
        except OSError as error:
            raise WriteFailed(f"{place.path} is gone ({error})", self._durable_seq) from error
        if status.st_ino != place.inode:
            raise WriteFailed(f"{place.path} was replaced by another file", self._durable_seq)
        if status.st_size != self._offset:
            raise WriteFailed(f"{place.path} was changed by somebody else", self._durable_seq)

    def _undo(self, place: Place) -> None:
        """Cut off what a short write left, then report a full disk."""
        try:
            self._files.truncate(place.descriptor, self._offset)
        except OSError as error:
            raise _Unusable(f"a short write could not be undone: {error}") from error
        raise self.disk_full()

    def _reserve(self, place: Place, coming: int) -> None:
        """Keep room set aside beyond the end, so that a full disk does not stop us at once."""
        if self._offset + coming > self._reserved_until - _RESERVE_AGAIN_BYTES:
            self._files.reserve(place.descriptor, self._offset, coming + _RESERVE_BYTES)
            self._reserved_until = self._offset + coming + _RESERVE_BYTES

    def _continue(self, data: bytes, reason: str) -> int:
        """Write the round to the next journal file; return the offset of its first entry."""
        place = self._place
        assert place is not None
        assert self._durable_seq is not None
        self._broken = True
        segment = place.segment + 1
        body, _ = encode_body(
            Header(
                format=FORMAT,
                session=self._header.session,
                uid=self._header.uid,
                continues=Continues(self._durable_seq, self._durable_chain.decode()),
            )
        )
        header = seal(self._durable_seq, timestamp(), "header", body, b"") + b"\n"
        path = place.folder / segment_name(segment)
        try:
            self._files.publish(path, header + data)
            descriptor = self._files.open_append(path)
            inode = self._files.status(descriptor).st_ino
        except OSError as error:
            what = f"{place.path} cannot be used any more ({reason}), nor a new file beside it"
            raise self._no_room_or(error, what) from error
        try:
            self._files.close(place.descriptor)
            # The index looks at the first file's times: tell it that there is something new.
            self._files.touch(place.folder / JOURNAL_NAME)
        except OSError:
            pass  # a hint, and a descriptor that was bad already
        self._place = Place(place.folder, place.lock, path, descriptor, inode, segment)
        self._broken = self._missing_newline = False
        self._offset = len(header) + len(data)
        self._reserved_until = 0
        return len(header)
