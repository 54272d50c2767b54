"""The one writer of a session on files: lock, journal, blobs and live text.

``FileLogWriter`` is what the rest of the store sees. ``Appender`` puts bytes at the end of a file,
durable on return: the only code that writes to a journal.

``Appender.append`` either returns the new end, with everything before it synced, or leaves the
journal as it was and says why. When something goes wrong, in this order of preference:

- **no room**: what was written is cut off again and ``DiskFull`` is raised; the caller tries again;
- **a failed sync** (or a write that failed otherwise): the kernel may have thrown the pages away
  and will not say so twice, so that descriptor is never used again. The bytes go into the next
  journal file, whose header names the last acknowledged entry; readers ignore what stands after
  that entry in the earlier file;
- **that fails too, or the file is no longer ours** (deleted, replaced, changed by somebody else):
  ``WriteFailed``.

An interrupt (Ctrl+C) may come between any two steps. The place that was returned last is then still
the truth, and the next call cuts the file back to its end first.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.errors import (
    DiskFull,
    HoldfastError,
    SessionExists,
    SessionLocked,
    StorageError,
    WriteFailed,
)
from holdfast.files import NO_ROOM, PASSING
from holdfast.journal.format import Cursor, seal, timestamp
from holdfast.model.codec import encode_body
from holdfast.model.entry import FORMAT, Continues, Header
from holdfast.store.local import compact
from holdfast.store.local import erasure as erasing
from holdfast.store.local.blobs import Blobs
from holdfast.store.local.id_index import SAVE_AT_CLOSE_BYTES
from holdfast.store.local.layout import JOURNAL_NAME, LIVE_NAME, os_errors, segment_name
from holdfast.store.local.live import LiveFile, has_live_text
from holdfast.store.local.lock import AppendTarget, Lock
from holdfast.store.local.provenance import close_foreign, record_reception
from holdfast.store.local.reader import Journal, OwnLog
from holdfast.store.types import IMPORT, Compaction, Receipt
from holdfast.store.write.erase import kept
from holdfast.store.write.rewrite import LogCopy
from holdfast.version import __version__

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from holdfast.files import Files
    from holdfast.model.entry import Entry
    from holdfast.model.state import State
    from holdfast.store.backend import Log
    from holdfast.store.local.layout import Home
    from holdfast.store.types import Span
    from holdfast.store.write.erase import Erasure

_RESERVE_BYTES = 1024 * 1024
_RESERVE_AGAIN_BYTES = 256 * 1024
_LOOK_EVERY_SECONDS = 1.0
_NOTE_EVERY_SECONDS = 0.02


class FileLogWriter:
    """Holds one session: appends rounds, stores blobs and live text, rewrites the journal.

    ``place`` is ``None`` for a session that is made by its first append. Place and cursor change
    in one assignment. The caller allows one thread at a time.
    """

    def __init__(
        self,
        home: Home,
        header: Header,
        place: AppendTarget | None = None,
        cursor: Cursor | None = None,
        *,
        received_upto: int = -1,
    ) -> None:
        self.home = home
        self._received_upto = received_upto
        self._files = home.files
        self._header = header
        self.location = home.folder(header.session) if place is None else place.folder
        self._appender = Appender(home.files, header)
        self._durable = place, cursor or Cursor(None, 0, b"", None)
        self._view = OwnLog(home.files, home.origin_key)
        self._note_again = 0.0
        self._opened_at = 0 if place is None else place.end // SAVE_AT_CLOSE_BYTES

    @property
    def place(self) -> AppendTarget | None:
        """Where the journal is; ``None`` before the first round, and when released."""
        return self._durable[0]

    @property
    def exists(self) -> bool:
        """Whether the session was made and is still held."""
        return self._durable[0] is not None

    @property
    def cursor(self) -> Cursor:
        """Where numbering continues, after the last durable entry."""
        return self._durable[1]

    def check_held(self) -> None:
        """Raise ``UsageError`` in a process that was forked from the holder."""
        place = self._durable[0]
        if place is not None and not place.lock.held:
            place.lock.check_ours()

    def errors(self, what: str) -> AbstractContextManager[None]:
        """Turn errors of the operating system into errors of ours that say ``what`` failed."""
        return os_errors(f"{self.location} {what}", self.location)

    # Writing

    def append(self, entries: Sequence[Entry], payloads: Sequence[bytes], after: Cursor) -> None:
        """Store a round; see ``RoundLog``."""
        place, cursor = self._durable
        data = b"\n".join([entry.line for entry in entries]) + b"\n"
        try:
            if place is None:
                new_place, start = self._create(data, payloads), 0
            else:
                if payloads:
                    self._store(place, payloads)
                new_place, start = self._appender.append(place, cursor, data)
        except OSError as error:
            path = self.location
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

    def _create(self, data: bytes, payloads: Sequence[bytes]) -> AppendTarget:
        return _make_session(self.home, self._header.session, data, list(payloads))

    def _store(self, place: AppendTarget, payloads: Sequence[bytes]) -> None:
        blobs = Blobs(self._files, place.folder)
        for payload in payloads:
            blobs.write(payload)

    def put_blob(self, data: bytes) -> str:
        """Store bytes durably and return their name.

        Raises:
            DiskFull: there is no room.
            StorageError: they could not be written.
        """
        try:
            return Blobs(self._files, self.location).write(data)
        except OSError as error:
            if error.errno in PASSING:
                raise DiskFull(self.location, ()) from error
            raise StorageError(f"{self.location} cannot be written: {error}.") from error

    # Live text

    def open_live(self) -> LiveFile:
        """Return the file of running streams; the session exists."""
        place = self._durable[0]
        assert place is not None
        return LiveFile(self._files, place.folder)

    def has_live_file(self) -> bool:
        """Tell whether there is a live file, be it empty."""
        return self._files.exists(self.location / LIVE_NAME)

    def has_live_text(self) -> bool:
        """Tell whether there is live text, be it of finished streams."""
        return has_live_text(self._files, self.location)

    # Where entries came from

    def record_reception(self, spans: Sequence[Span], source: str) -> None:
        """Record durably that entries with these numbers come from elsewhere."""
        receipt = Receipt.now(IMPORT, source)
        with self.errors("cannot be written"):
            record_reception(self._files, self.location, self.home.origin_key, spans, receipt)

    def begin_own(self, last_seq: int) -> None:
        """Record that entries after ``last_seq`` are written here; those before may be foreign."""
        with suppress(OSError):  # no room: what is appended now counts as foreign, which is safe
            self.home.origin_key.make()  # without it nothing that is appended could be ours
            key = self.home.origin_key
            close_foreign(self._files, self.location, key, self._received_upto, last_seq)

    # Reading what was written. The caller holds the mutex of the group commit.

    def log(self) -> Journal | None:
        """Return a view of everything durable, ``None`` while there is nothing, and afterwards."""
        place = self._durable[0]
        return None if place is None else self._view.of(place)

    def hold(self, log: Log) -> None:
        """Keep a view open until ``let_go``."""
        self._view.hold(log)

    def let_go(self, log: Log) -> None:
        """Let a view be closed when it is of no use any more."""
        self._view.release(log)

    def has_grown(self) -> bool:
        """Tell whether the journal has grown enough since it was opened to save where ids are.

        By crossing a boundary, so that many short openings in a row have it saved as well.
        """
        place = self._durable[0]
        now = 0 if place is None else place.end // SAVE_AT_CLOSE_BYTES
        return now > self._opened_at

    def save_ids(self, log: Log, *, closing: bool = False) -> None:
        """Save what finds ids without reading history, if it is worth it."""
        assert isinstance(log, Journal)
        with suppress(OSError):  # then it is read again
            log.ids.save(log, closing=closing)

    # Rewriting

    def rewrite(self, keep: Callable[[Entry], bool], state: State) -> tuple[Compaction, State]:
        """Replace the journal by a copy of the lines for which ``keep`` says yes.

        Nothing is queued. The old journal is kept, compressed. If anything fails before the new
        one has its name, everything is as it was. Returns the state that the new one folds to.

        Raises:
            OSError: copying failed.
        """
        place, cursor = self._durable
        assert place is not None
        journal = self._view.of(place)
        header = replace(self._header, holds=place.segment)
        copy = LogCopy(journal, header, keep, lambda _: state, cursor.next_seq)
        before = journal.size_bytes
        ids = journal.ids
        ids.catch_up(journal)  # from files that are about to be replaced
        new_place, archived = compact.replace_journal(self._files, place, journal, copy)
        assert copy.last is not None
        last = copy.last
        self.move(new_place, Cursor(last.seq, last.seq + 1, last.sum, copy.state.head))
        self._view.close()  # else the old file would take its room
        with suppress(OSError):  # then the archives are read when an id is looked for
            renewed = self._view.of(new_place)
            renewed.ids.continue_in(renewed, ids)
        self._view.close()
        return Compaction(before, copy.size_bytes, copy.left_out, str(archived)), copy.state

    def erase(self, erasure: Erasure, state: State) -> State:
        """Replace the journal by a copy without an entry; see ``LogWriter``.

        Raises:
            OSError: it failed; the next opening finishes what was begun.
        """
        place, cursor = self._durable
        assert place is not None
        folder = place.folder
        begun = erasing.unfinished(self._files, folder)
        if begun is not None and begun.seq == erasure.seq:  # it may name blobs no line names
            blobs = sorted({*begun.blobs, *erasure.blobs})
            erasure = replace(erasure, blobs=blobs)
        erasing.begin(self._files, folder, erasure)
        journal = self._view.of(place)
        header, seq = replace(self._header, holds=place.segment), erasure.seq
        copy = LogCopy(
            journal, header, lambda entry: kept(entry, seq), lambda _: state, cursor.next_seq, {seq}
        )
        new_place, _ = compact.replace_journal(self._files, place, journal, copy, archiving=False)
        assert copy.last is not None
        last = copy.last
        self.move(new_place, Cursor(last.seq, last.seq + 1, last.sum, copy.state.head))
        self._view.close()
        return copy.state

    def finish_erasing(self, seq: int) -> None:
        """Remove an entry that the journal does not have any more from all that is in the folder.

        Raises:
            OSError: it failed; the next opening tries again.
        """
        place = self._durable[0]
        assert place is not None
        begun = erasing.unfinished(self._files, place.folder)
        assert begun is not None
        assert begun.seq == seq
        erasing.finish(self.home, place.folder, self._header, place.segment, begun)

    def move(self, place: AppendTarget, cursor: Cursor) -> None:
        """Go on in a file that a rewrite put in the old one's place."""
        old = self._durable[0]
        assert old is not None
        self._durable = place, cursor
        self._appender.begin_anew()
        self._appender.close(old)
        place.lock.note_durable(place.inode, place.end)

    def release(self) -> None:
        """Give the reserve back and let go of the file and the lock."""
        place, cursor = self._durable
        self._durable = None, cursor
        if place is not None:
            place.lock.note_durable(place.inode, place.end)
            self._appender.close(place)
            place.lock.release()
        self._view.close()


class _Unusable(Exception):
    """The current file must not be written any more; the bytes have to go elsewhere."""


class Appender:
    """Appends to one journal. Used by one thread at a time."""

    def __init__(self, files: Files, header: Header) -> None:
        self._files = files
        self._header = header
        self._broken_segment: int | None = None
        self._attempted_end = 0
        self._reserved_until = 0
        self._reserve_from = 0  # an end behind this is close to the end of the reserve
        self._look_again = 0.0

    def append(self, place: AppendTarget, cursor: Cursor, data: bytes) -> tuple[AppendTarget, int]:
        """Write whole lines behind ``place.end``; return the new place and where they begin.

        If the new place is another file, the caller closes the old one.

        Raises:
            DiskFull: there is no room; nothing was changed.
            WriteFailed: the journal cannot be written any more.
        """
        files, descriptor = self._files, place.descriptor
        try:
            if self._broken_segment == place.segment:
                raise _Unusable("an earlier attempt to write or sync it failed")
            status = files.status(descriptor)
            now = time.monotonic()
            if status.st_size != place.end or not status.st_nlink or now >= self._look_again:
                self._check_ours(place, cursor, status, now)
            whole = b"\n" + data if place.newline_missing else data
            end = self._attempted_end = place.end + len(whole)
            if end > self._reserve_from:
                self._reserve(place, end)
            try:
                if end <= self._reserved_until:
                    written = files.append(descriptor, whole, place.end)
                else:
                    # There may be room for a part. It must not stay for the length of a sync, or a
                    # follower could show what is then cut off again.
                    written = files.append_in_two(descriptor, whole)
            except OSError as error:
                raise self._refused(place, error) from error
            if written != len(whole):
                self._cut_back(place)
                raise DiskFull(place.path, ())
        except _Unusable as reason:
            return self._continue(place, cursor, data, str(reason))
        folder, lock, path = place.folder, place.lock, place.path
        new_place = AppendTarget(folder, lock, path, descriptor, place.inode, place.segment, end)
        return new_place, end - len(data)

    def _refused(self, place: AppendTarget, error: OSError) -> DiskFull | _Unusable:
        """Return what an append that failed means: try again later, or never here.

        Only where nothing was written did the sync have nothing to lose.
        """
        if error.errno not in PASSING:
            return _Unusable(f"writing or syncing failed: {error}")
        try:
            nothing_written = self._files.status(place.descriptor).st_size == place.end
        except OSError:
            nothing_written = False
        if nothing_written:
            return passing(error, place.path)
        return _Unusable(f"syncing failed: {error}")

    def _cut_back(self, place: AppendTarget) -> None:
        """Remove what an attempt that did not succeed has left behind the durable end."""
        try:
            self._files.truncate(place.descriptor, place.end)
        except OSError as error:
            raise _Unusable(f"an incomplete write could not be undone: {error}") from error
        self._reserved_until = self._reserve_from = 0  # cutting gives it back

    def _check_ours(
        self, place: AppendTarget, cursor: Cursor, status: os.stat_result, now: float
    ) -> None:
        """Make sure that the file is as we left it; about once a second, also under its name.

        An acknowledgement into a deleted file is worth nothing. Bytes behind the durable end are
        ours only if an attempt of our own could have put them there.
        """
        if status.st_nlink == 0:
            raise _gone(f"{place.path} was deleted", cursor)
        if status.st_size != place.end:
            if not place.end < status.st_size <= self._attempted_end:
                raise _gone(f"{place.path} was changed by another process", cursor)
            self._cut_back(place)
        if now >= self._look_again:
            self._look_again = now + _LOOK_EVERY_SECONDS
            try:
                inode = self._files.status_of(place.path).st_ino
            except OSError as error:
                raise _gone(f"{place.path} is gone ({error})", cursor) from error
            if inode != place.inode:
                raise _gone(f"{place.path} was replaced by another file", cursor)
            if not place.lock.is_in_place(place.folder):
                raise WriteFailed(f"The lock of {place.folder} was removed", cursor.last_seq)

    def _reserve(self, place: AppendTarget, end: int) -> None:
        """Keep room set aside beyond the end, so that a full disk does not stop us at once."""
        until = end + _RESERVE_BYTES
        if self._files.reserve(place.descriptor, place.end, until - place.end):
            self._reserved_until, self._reserve_from = until, until - _RESERVE_AGAIN_BYTES

    def _continue(
        self, place: AppendTarget, cursor: Cursor, data: bytes, reason: str
    ) -> tuple[AppendTarget, int]:
        """Write to the next journal file instead."""
        self._broken_segment = place.segment
        assert cursor.last_seq is not None
        body, _ = encode_body(
            Header(
                format=FORMAT,
                session=self._header.session,
                uid=self._header.uid,
                continues=Continues(cursor.last_seq, cursor.chain.decode()),
            )
        )
        header = seal(cursor.last_seq, timestamp(), "header", body, b"") + b"\n"
        segment = place.segment + 1
        path = place.folder / segment_name(segment)
        try:
            self._files.publish(path, header + data)
            descriptor = self._files.open_append(path)
            inode = self._files.status(descriptor).st_ino
        except OSError as error:
            what = f"{place.path} cannot be written ({reason}), and no new file beside it either"
            raise no_room_or(error, path, what, cursor.last_seq) from error
        with suppress(OSError):  # a hint to the index, which looks at the first file's times
            self._files.touch(place.folder / JOURNAL_NAME)
        self._reserved_until = self._reserve_from = self._attempted_end = 0
        end = len(header) + len(data)
        return AppendTarget(place.folder, place.lock, path, descriptor, inode, segment, end), len(
            header
        )

    def begin_anew(self) -> None:
        """Forget the file; a rewrite has put another one in its place."""
        self._reserved_until = self._reserve_from = self._attempted_end = 0
        self._broken_segment = None

    def close(self, place: AppendTarget) -> None:
        """Give the reserve back and close the file."""
        with suppress(OSError):  # what is acknowledged is durable; blocks beyond are not ours
            ours = self._reserved_until and self._broken_segment != place.segment
            # Bytes behind our end are somebody else's: then the reserve stays where it is.
            if ours and self._files.status(place.descriptor).st_size == place.end:
                self._files.truncate(place.descriptor, place.end)
        with suppress(OSError):
            self._files.close(place.descriptor)


def _gone(reason: str, cursor: Cursor) -> WriteFailed:
    return WriteFailed(reason, cursor.last_seq, may_be_gone=True)


def no_room_or(error: OSError, path: Path, what: str, last_durable: int | None) -> HoldfastError:
    """Return ``DiskFull`` if that is what an error means, else ``WriteFailed``.

    A process that is out of descriptors or memory is no reason to give a journal up.
    """
    if error.errno in PASSING:
        return passing(error, path)
    return WriteFailed(f"{what}: {error}", last_durable)


def passing(error: OSError, path: Path) -> DiskFull:
    """Return what to say about an error that says nothing about the file."""
    return DiskFull(path, (), None if error.errno in NO_ROOM else error.strerror)


def _make_session(home: Home, session_id: str, data: bytes, payloads: list[bytes]) -> AppendTarget:
    """Make the session on disk with its first lines, durable on return.

    An interrupt right after ``Home.make_session`` leaves a session that no caller knows of, and a
    second try finds it in the way. It is discarded if it is certainly ours: no process holds it,
    and its content is a prefix of what we are about to write.

    Raises:
        SessionExists: there is one of that id, which is not what we left there.
    """
    try:
        return home.make_session(session_id, [data], payloads, [])
    except SessionExists:
        if not _discard_leaving(home, session_id, data):
            raise
    return home.make_session(session_id, [data], payloads, [])


def _discard_leaving(home: Home, session_id: str, data: bytes) -> bool:
    """Discard what an interrupt left when we made the session, before anybody was told.

    Only if nobody else holds it or has written to it.
    """
    folder = home.folder(session_id)
    try:
        if not _is_leaving(home, session_id, data):
            return False  # before a lock file is made, or a link followed
        lock = Lock.acquire(home.files, folder, __version__)
    except (OSError, SessionLocked):
        return False
    try:
        ours = _is_leaving(home, session_id, data)
        if ours:
            home.files.remove_tree(folder)
        return ours
    finally:
        lock.release()


def _is_leaving(home: Home, session_id: str, data: bytes) -> bool:
    journal = home.folder(session_id) / JOURNAL_NAME
    if not home.has(session_id):
        return False
    there = home.files.read_small(journal, len(data))
    return there is not None and data.startswith(there)
