"""Bytes to the end of a file, durable on return: the only code that writes to a journal.

``append`` either returns the new end, with everything before it synced, or leaves the journal as it
was and says why. When something goes wrong, in this order of preference:

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

from msgspec import Struct

from holdfast.errors import DiskFull, HoldfastError, WriteFailed
from holdfast.journal.files import NO_ROOM, PASSING
from holdfast.journal.format import seal, timestamp
from holdfast.journal.names import JOURNAL_NAME, segment_name
from holdfast.journal.numbering import Cursor
from holdfast.model.codec import encode_body
from holdfast.model.entry import FORMAT, Continues, Header

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from holdfast.journal.files import Files
    from holdfast.journal.lock import Lock

_RESERVE_BYTES = 1024 * 1024
_RESERVE_AGAIN_BYTES = 256 * 1024
_LOOK_EVERY_SECONDS = 1.0


class Place(Struct, frozen=True):
    """Where a writer appends: an open file of a locked folder, durable up to ``end``."""

    folder: Path
    lock: Lock
    path: Path
    descriptor: int
    inode: int
    segment: int
    end: int
    newline_missing: bool = False


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

    def append(self, place: Place, cursor: Cursor, data: bytes) -> tuple[Place, int]:
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
        new_place = Place(folder, lock, path, descriptor, place.inode, place.segment, end)
        return new_place, end - len(data)

    def _refused(self, place: Place, error: OSError) -> DiskFull | _Unusable:
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

    def _cut_back(self, place: Place) -> None:
        """Remove what an attempt that did not succeed has left behind the durable end."""
        try:
            self._files.truncate(place.descriptor, place.end)
        except OSError as error:
            raise _Unusable(f"an incomplete write could not be undone: {error}") from error
        self._reserved_until = self._reserve_from = 0  # cutting gives it back

    def _check_ours(self, place: Place, cursor: Cursor, status: os.stat_result, now: float) -> None:
        """Make sure that the file is as we left it; about once a second, also under its name.

        An acknowledgement into a deleted file is worth nothing. Bytes behind the durable end are
        ours only if an attempt of our own could have put them there.
        """
        if status.st_nlink == 0:
            raise _gone(f"{place.path} was deleted", cursor)
        if status.st_size != place.end:
            if not place.end < status.st_size <= self._attempted_end:
                raise _gone(f"{place.path} was changed by somebody else", cursor)
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

    def _reserve(self, place: Place, end: int) -> None:
        """Keep room set aside beyond the end, so that a full disk does not stop us at once."""
        until = end + _RESERVE_BYTES
        if self._files.reserve(place.descriptor, place.end, until - place.end):
            self._reserved_until, self._reserve_from = until, until - _RESERVE_AGAIN_BYTES

    def _continue(
        self, place: Place, cursor: Cursor, data: bytes, reason: str
    ) -> tuple[Place, int]:
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
            what = f"{place.path} cannot be used any more ({reason}), nor a new file beside it"
            raise no_room_or(error, path, what, cursor.last_seq) from error
        with suppress(OSError):  # a hint to the index, which looks at the first file's times
            self._files.touch(place.folder / JOURNAL_NAME)
        self._reserved_until = self._reserve_from = self._attempted_end = 0
        end = len(header) + len(data)
        return Place(place.folder, place.lock, path, descriptor, inode, segment, end), len(header)

    def begin_anew(self) -> None:
        """Forget the file; a rewrite has put another one in its place."""
        self._reserved_until = self._reserve_from = self._attempted_end = 0
        self._broken_segment = None

    def close(self, place: Place) -> None:
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
