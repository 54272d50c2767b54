"""Journals that are compressed: read at any place without unpacking the rest.

A packed journal keeps its name. Its content is zstd in frames of half a megabyte, each with a
checksum of its own, and a table behind them that says where each one is (zstd's seekable format; to
``zstd -dc`` it is a comment). Reading unpacks the frames that are asked for, the last one is kept.
A frame that cannot be unpacked reads as NULs: damage like any other. A file goes from one form to
the other in a single rename, so that there is never more than one of them.

zstd is in the standard library from Python 3.14 on; before, it is a package that is loaded when the
first packed journal is met.
"""

from __future__ import annotations

import errno
import importlib
from array import array
from bisect import bisect_right
from itertools import accumulate
from struct import Struct as Layout
from typing import TYPE_CHECKING, Any

from holdfast.model.ids import new_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from holdfast.journal.files import Files

MAGIC = b"\x28\xb5\x2f\xfd"
"""How a packed journal begins; a journal begins with a brace."""

FRAME_BYTES = 512 * 1024
_LARGEST_FRAME_BYTES = 8 * 1024 * 1024  # of somebody else's making
_LEVEL = 9
_SKIPPABLE = Layout("<II")
_SKIPPABLE_MAGIC = 0x184D2A5E
_ENTRY = Layout("<II")
_FOOTER = Layout("<IBI")
_FOOTER_MAGIC = 0x8F92EAB1
_MOST_FRAMES = 1 << 20


def zstd() -> Any:
    """Return the module for zstd.

    Raises:
        OSError: there is none; says what to do.
    """
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    reason = "the session is compressed, which needs a package: pip install 'holdfast[zstd]'"
    raise OSError(errno.ENOTSUP, reason)


class Packed:
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
        try:
            decoder = self._zstd.ZstdDecompressor()
            data: bytes = decoder.decompress(packed, max_length=size + 1)
            if len(data) == size and decoder.eof:
                return data
        except (self._zstd.ZstdError, EOFError):
            pass
        self.damaged = True
        return b"\0" * size

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
        sane = all(size <= _LARGEST_FRAME_BYTES >= packed for packed, size in sizes)
        return sizes if fits and sane else []

    def _found(self) -> Iterator[tuple[int, int]]:
        """Yield the sizes of frames, from the first to one that cannot be unpacked."""
        self.damaged = True
        place = 0
        while True:
            packed = self._files.read_at(self._descriptor, _LARGEST_FRAME_BYTES, place)
            if not packed.startswith(MAGIC):
                return
            decoder = self._zstd.ZstdDecompressor()
            try:
                size = len(decoder.decompress(packed, max_length=_LARGEST_FRAME_BYTES))
            except self._zstd.ZstdError:
                return
            if not decoder.eof:
                return
            length = len(packed) - len(decoder.unused_data)
            yield length, size
            place += length


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
        packed = Packed(files, source)

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
            raise OSError(errno.EIO, "what was written is not what was read")
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
    module = zstd()
    names = module.CompressionParameter
    options = {names.compression_level: _LEVEL, names.checksum_flag: 1}
    entries = []
    for offset in range(0, size, FRAME_BYTES):
        data = files.read_at(source, min(FRAME_BYTES, size - offset), offset)
        frame: bytes = module.compress(data, options=options)
        entries.append(_ENTRY.pack(len(frame), len(data)))
        yield frame
    table = b"".join([*entries, _FOOTER.pack(len(entries), 0, _FOOTER_MAGIC)])
    yield _SKIPPABLE.pack(_SKIPPABLE_MAGIC, len(table)) + table


def _same(files: Files, source: int, target: int) -> bool:
    """Tell whether a packed file has the content of another one, to its last byte."""
    packed = Packed(files, target)
    offset = 0
    for piece in packed.pieces():
        if files.read_at(source, len(piece), offset) != piece:
            return False
        offset += len(piece)
    return not packed.damaged and offset == files.status(source).st_size
