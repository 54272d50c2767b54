"""The file of running streams: text is here before anybody sees it.

Each line is an ``Event`` with a checksum of its own; the first line has a generation number. The
file is emptied (with the next generation) when no stream is open, and rewritten by rename when it
grows too large. Finished streams may still stand in it after a crash: the entry that finishes a
stream names it, so whoever reads asks the journal which ones still count.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec
from msgspec import Struct

from holdfast.journal.bounded import ReadLimits, lines
from holdfast.journal.format import stored_sum
from holdfast.model.codec import convert, dumps, loads
from holdfast.model.event import Event
from holdfast.store.local.layout import DAMAGED_NAME, JOURNAL_NAME, LIVE_NAME
from holdfast.store.local.sparse_copy import save_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from holdfast.files import Files

LARGEST_LIVE_BYTES = 4 * 1024 * 1024
MOST_READ_BYTES = 64 * 1024 * 1024
"""More is not read: no message, hence no stream that could become one, is as large.

A writer saves the rest in ``damaged/`` before it cuts it off."""

_LIMITS = ReadLimits(total_bytes=MOST_READ_BYTES)
_GENERATION_BYTES = 64


class LiveView(Struct, frozen=True):
    """What a reader found: the file's generation, events, and the offset behind the last one."""

    inode: int
    generation: int
    events: list[Event]
    end: int


NOTHING_LIVE = LiveView(0, 0, [], 0)


def _line(fields: dict[str, object]) -> bytes:
    start = dumps(fields)[:-1]
    return b'%s,"sum":"%08x"}\n' % (start, crc32(start))


def _fields(line: bytes) -> dict[str, object] | None:
    """Return a line's fields if it is whole and its checksum fits."""
    if stored_sum(line) != b"%08x" % crc32(line[:-18]):
        return None
    try:
        fields = loads(line)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


class LiveFile:
    """The writer's side. Not thread-safe: its owner has a lock."""

    def __init__(self, files: Files, folder: Path) -> None:
        self._files = files
        self._replaced = False  # whether another file may have the name of what is open
        self._path = folder / LIVE_NAME
        try:
            self._descriptor = files.open_append(self._path)
        except FileNotFoundError:
            self._descriptor = self._create(folder)
        view = read_live(files, folder)
        self._generation, self.size_bytes = view.generation, view.end
        try:
            self._cut(folder, view.end)
        except BaseException:
            files.close(self._descriptor)
            raise

    def _cut(self, folder: Path, end: int) -> None:
        """Cut off what was not read; save it first if that is more than a torn line."""
        size = self._files.status(self._descriptor).st_size
        if size > MOST_READ_BYTES:
            span = (end, size)
            save_bytes(self._files, self._descriptor, span, folder / DAMAGED_NAME, f"live-{end}")
        if size > end:
            # The next line must not be glued to one that was torn.
            self._files.truncate(self._descriptor, end)

    def _create(self, folder: Path) -> int:
        descriptor = self._files.open_append(self._path, create=True)
        try:
            # Or a power cut takes the name, and all that was synced.
            self._files.sync_folder(folder)
        except OSError:
            self._files.close(descriptor)
            self._files.unlink(self._path)  # whoever tries again makes it and syncs again
            raise
        with suppress(OSError):  # a hint to the index, which looks at the journal's times
            self._files.touch(folder / JOURNAL_NAME)
        return descriptor

    def append(self, events: Iterable[Event]) -> None:
        """Write events; they are in the file on return, and durable after ``sync``."""
        if self._replaced:
            self._reopen()
        start = b"" if self.size_bytes else self._next_generation()
        data = start + b"".join(_line(msgspec.to_builtins(event)) for event in events)
        try:
            self._files.write_all(self._descriptor, data)
        except OSError:
            self._files.truncate(self._descriptor, self.size_bytes)
            raise
        self.size_bytes += len(data)

    def _next_generation(self) -> bytes:
        # Counted from the clock: a file that was removed and made again, perhaps with the same
        # inode, must not look like the one before.
        self._generation = max(self._generation + 1, time.time_ns() // 1000)
        return _line({"generation": self._generation})

    def sync(self) -> None:
        """Make what was appended survive a power cut."""
        if self._replaced:
            self._reopen()
        self._files.sync(self._descriptor)

    def clear(self) -> None:
        """Empty the file: no stream is open any more."""
        if self._replaced:
            self._reopen()
        if self.size_bytes:
            self._files.truncate(self._descriptor, 0)
            self.size_bytes = 0

    def rewrite(self, events: Iterable[Event]) -> None:
        """Replace the content by ``events``, so that it does not grow without end."""
        lines = [self._next_generation()]
        lines += [_line(msgspec.to_builtins(event)) for event in events]
        data = b"".join(lines)
        try:
            self._files.publish(self._path, data)
        finally:
            # Also after a failure: the rename may have been done. Should the opening fail, the
            # next call tries it again: what is open may have no name any more.
            self._replaced = True
            self._reopen()

    def _reopen(self) -> None:
        # Opened before the old one is closed: a number that was let go may be somebody else's.
        old, self._descriptor = self._descriptor, self._files.open_append(self._path)
        self._replaced = False
        self._files.close(old)
        self.size_bytes = self._files.status(self._descriptor).st_size

    def close(self) -> None:
        """Close the file, and remove it if nothing is in it."""
        self._files.close(self._descriptor)
        if self.size_bytes == 0:
            with suppress(OSError):
                self._files.unlink(self._path)


def has_live_text(files: Files, folder: Path) -> bool:
    """Tell whether anything stands in the live file, be it of finished streams."""
    try:
        return files.status_of(folder / LIVE_NAME).st_size > 0
    except FileNotFoundError:
        return False


def read_live(files: Files, folder: Path, since: LiveView = NOTHING_LIVE) -> LiveView:
    """Read the live file, or only what is new ``since`` an earlier look.

    Lines that are not whole are passed over: the last one may be on its way.
    """
    try:
        descriptor = files.open_regular(folder / LIVE_NAME)
    except OSError:  # not there, or a link, which is not followed, or no file
        return NOTHING_LIVE
    try:
        status = files.status(descriptor)
        head = files.read_at(descriptor, _GENERATION_BYTES, 0)
        generation = _generation(head)
        same = since.inode == status.st_ino and since.generation == generation
        start = since.end if same and since.end <= status.st_size else 0
        end = min(status.st_size, MOST_READ_BYTES)
        data = files.read_at(descriptor, max(0, end - start), start)
        # Emptied while we read: what was read may belong to either generation. Look again later.
        if files.read_at(descriptor, _GENERATION_BYTES, 0)[: len(head)] != head:
            return LiveView(status.st_ino, generation, [], start)
    finally:
        files.close(descriptor)
    whole = data.rfind(b"\n") + 1
    events = []
    for line in lines([data[:whole]], _LIMITS):
        fields = _fields(line.data) if line.data is not None else None
        if fields is not None and "stream" in fields:
            try:
                events.append(convert(fields, Event))
            except msgspec.ValidationError:
                continue
    return LiveView(status.st_ino, generation, events, start + whole)


def _generation(head: bytes) -> int:
    fields = _fields(head.partition(b"\n")[0])
    number = fields.get("generation") if fields else None
    return number if isinstance(number, int) else 0
