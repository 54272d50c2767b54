"""Journals that are compressed: read at any place without unpacking the rest.

A packed journal keeps its name. Its content is zstd in frames of half a megabyte, each with a
checksum of its own, and a table behind them that says where each one is (zstd's seekable format; to
``zstd -dc`` it is a comment). Reading unpacks the frames that are asked for, the last one is kept.
A frame that cannot be unpacked reads as NULs: damage like any other. A file goes from one form to
the other in a single rename, so that there is never more than one of them.

Sizes in the table are claims of whoever wrote the file: they are held against the bounds of
``bounded`` before anything is read by them. A table that claims too much is not believed, and the
frames are found by reading them, as far as the bounds go.
"""

from __future__ import annotations

import errno
from array import array
from bisect import bisect_right
from itertools import accumulate
from struct import Struct as Layout
from typing import TYPE_CHECKING

from holdfast.journal.bounded import (
    LARGE_HOLE_BYTES,
    LARGEST_FRAME_BYTES,
    LIMITS,
    frame,
    frame_sizes,
    zstd,
)
from holdfast.model.ids import new_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from holdfast.files import Files

MAGIC = b"\x28\xb5\x2f\xfd"
"""How a packed journal begins; a journal begins with a brace."""

FRAME_BYTES = 512 * 1024
_LEVEL = 9
_SKIPPABLE = Layout("<II")
_SKIPPABLE_MAGIC = 0x184D2A5E
_ENTRY = Layout("<II")
_FOOTER = Layout("<IBI")
_FOOTER_MAGIC = 0x8F92EAB1
_MOST_FRAMES = 1 << 16  # 32 GiB, in frames of ours


class CompressedFile:
    """A packed file that is open, read as if it were not packed."""

    def __init__(self, files: Files, descriptor: int) -> None:
        """Read the table; if it cannot be read, find the frames one by one."""
        self._files = files
        self._descriptor = descriptor
        self._zstd = zstd()
        self._packed_bytes = files.status(descriptor).st_size
        self.damaged = False
        """Whether something could not be unpacked, as far as it was read."""
        sizes = self._table() or list(self._found())
        self._places = array("Q", accumulate((packed for packed, _ in sizes), initial=0))
        self._offsets = array("Q", accumulate((size for _, size in sizes), initial=0))
        self._last: tuple[int, bytes] = (-1, b"")

    @property
    def size(self) -> int:
        """Bytes of the content."""
        return self._offsets[-1]

    def read(self, start: int, end: int) -> bytes:
        """Return the content from ``start`` to ``end``, less where it ends."""
        end = min(end, self.size)
        if start >= end:
            return b""
        number = bisect_right(self._offsets, start) - 1
        pieces = []
        while start < end:
            first, behind = self._offsets[number], self._offsets[number + 1]
            pieces.append(self._frame(number)[start - first : end - first])
            start, number = behind, number + 1
        return b"".join(pieces)

    def pieces(self) -> Iterator[bytes]:
        """Yield the whole content."""
        for start in range(0, self.size, FRAME_BYTES):
            yield self.read(start, start + FRAME_BYTES)

    def _frame(self, number: int) -> bytes:
        kept, data = self._last  # one value: another thread may put its own there
        if kept != number:
            data = self._unpacked(number)
            self._last = number, data
        return data

    def _unpacked(self, number: int) -> bytes:
        place = self._places[number]
        packed = self._files.read_at(self._descriptor, self._places[number + 1] - place, place)
        size = self._offsets[number + 1] - self._offsets[number]
        data = frame(self._zstd, packed, size)
        if data is None:
            self.damaged = True
            return b"\0" * size
        return data

    def _table(self) -> list[tuple[int, int]]:
        """Return packed and unpacked size of each frame, nothing if the table is not right."""
        at_end = self._packed_bytes - _FOOTER.size
        footer = self._files.read_at(self._descriptor, _FOOTER.size, max(at_end, 0))
        if at_end < 0 or len(footer) < _FOOTER.size:
            return []
        count, flags, magic = _FOOTER.unpack(footer)
        start = at_end - count * _ENTRY.size
        if magic != _FOOTER_MAGIC or flags or count > _MOST_FRAMES or start < _SKIPPABLE.size:
            return []
        table = self._files.read_at(self._descriptor, count * _ENTRY.size, start)
        sizes = list(_ENTRY.iter_unpack(table))
        fits = sum(packed for packed, _ in sizes) + _SKIPPABLE.size == start
        sane = all(size <= LARGEST_FRAME_BYTES >= packed for packed, size in sizes)
        allowed = LIMITS.allow(self._packed_bytes, sum(size for _, size in sizes))
        return sizes if fits and sane and allowed else []

    def _found(self) -> Iterator[tuple[int, int]]:
        """Yield the sizes of frames, from the first to one that cannot be unpacked.

        What stands behind the bounds is damage like the rest of a file that was cut off.
        """
        self.damaged = True
        place = total = 0
        for _ in range(_MOST_FRAMES):
            if self._files.read_at(self._descriptor, len(MAGIC), place) != MAGIC:
                return
            found = frame_sizes(self._zstd, self._files, self._descriptor, place)
            if found is None:
                return
            place, total = place + found[0], total + found[1]
            if not LIMITS.allow(self._packed_bytes, total):
                return
            yield found


def pack(files: Files, path: Path) -> tuple[int, int]:
    """Compress a file in its place; return its size before and after. The caller holds the lock.

    What is written is read again and compared before it takes the name.

    Raises:
        OSError: it could not be done; the file is as it was.
    """
    source = files.open_read(path)
    try:
        size = files.status(source).st_size
        frames = _packed(files, source, size)
        return size, _replace(files, path, frames, lambda target: _same(files, source, target))
    finally:
        files.close(source)


def unpack(files: Files, path: Path, keep: Callable[[], None]) -> None:
    """Decompress a file in its place. The caller holds the lock.

    If some of it could not be unpacked, ``keep`` is called before it is replaced.
    """
    source = files.open_read(path)
    try:
        packed = CompressedFile(files, source)

        def check(_: int) -> bool:
            if packed.damaged:
                keep()
            return True

        _replace(files, path, packed.pieces(), check)
    finally:
        files.close(source)


def _replace(
    files: Files, path: Path, pieces: Iterator[bytes], check: Callable[[int], bool]
) -> int:
    """Put other content in the place of a file, durably; return its size."""
    temporary = path.with_name(f".{path.name}.{new_name()}")
    descriptor = files.open_append(temporary, create=True)
    try:
        for piece in pieces:
            files.write_all(descriptor, piece)
        files.sync(descriptor)
        if not check(descriptor):
            raise OSError(errno.EIO, "the compressed file differs from the original")
        size = files.status(descriptor).st_size
        files.rename(temporary, path)
    except BaseException:
        files.unlink(temporary)
        raise
    finally:
        files.close(descriptor)
    files.sync_folder(path.parent)
    return size


def _packed(files: Files, source: int, size: int) -> Iterator[bytes]:
    if not LIMITS.allow_holes(size, files.holes(source, size, LARGE_HOLE_BYTES)):
        raise OSError(errno.ENOTSUP, "it has more holes than a compressed journal may have")
    module = zstd()
    names = module.CompressionParameter
    options = {names.compression_level: _LEVEL, names.checksum_flag: 1}
    entries = []
    packed_bytes = 0
    for offset in range(0, size, FRAME_BYTES):
        data = files.read_at(source, min(FRAME_BYTES, size - offset), offset)
        packed: bytes = module.compress(data, options=options)
        entries.append(_ENTRY.pack(len(packed), len(data)))
        packed_bytes += len(packed)
        yield packed
    if not LIMITS.allow(packed_bytes, size):  # nobody would believe it
        raise OSError(errno.ENOTSUP, "it compresses more than the limit for a compressed journal")
    table = b"".join([*entries, _FOOTER.pack(len(entries), 0, _FOOTER_MAGIC)])
    yield _SKIPPABLE.pack(_SKIPPABLE_MAGIC, len(table)) + table


def _same(files: Files, source: int, target: int) -> bool:
    """Tell whether a packed file has the content of another one, to its last byte."""
    packed = CompressedFile(files, target)
    offset = 0
    for piece in packed.pieces():
        if files.read_at(source, len(piece), offset) != piece:
            return False
        offset += len(piece)
    return not packed.damaged and offset == files.status(source).st_size
