"""Reading what somebody else may have written: one reader, and the bounds that it keeps.

Archives, other agents' files, packed journals, what compactions archived and live files are read
through this module. A size that stands in a file is a claim: nothing is allocated or counted by it
before it was held against what is really there. Reading costs memory for a few pieces of a megabyte
and for the longest line; it takes time in proportion to the bytes that are allowed.

    depth and number of values of one JSON text     model/codec.py
    length of a line, total, ratio                  ReadLimits

Plain files are read to their end, whatever their size: they take the room that they claim, unless
they have holes. A hole costs its sender nothing, so what is large of them is not read.
"""

from __future__ import annotations

import errno
import importlib
import zlib
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import Self

    from holdfast.files import Files

LONGEST_LINE_BYTES = 64 * 1024 * 1024
"""A longer line is not loaded: it is reported, and stays on disk."""

PIECE_BYTES = 1024 * 1024
LARGEST_FRAME_BYTES = 8 * 1024 * 1024  # of a packed journal; ours have half a megabyte
_LARGEST_WINDOW_LOG = 26  # 64 MiB: the decoder holds as much in memory
_FIRST_LOOK_BYTES = 128
_SLICE_BYTES = 16 * 1024
LARGE_HOLE_BYTES = 256 * 1024
"""A smaller hole is read as the NULs that it stands for."""


class ReadLimits(Struct, frozen=True):
    """How much may be read of one file that is packed, or is split into lines.

    Up to ``free_bytes`` of content are fine whatever they were packed into; beyond that, content
    may be at most ``ratio`` times as large as what it was packed into, and ``total_bytes`` in all.
    """

    line_bytes: int = LONGEST_LINE_BYTES
    total_bytes: int = 16 * 1024**3
    ratio: int = 500
    free_bytes: int = 64 * 1024 * 1024

    def allow(self, packed_bytes: int, size_bytes: int) -> bool:
        """Tell whether so many packed bytes may have so much content."""
        in_ratio = size_bytes <= max(self.free_bytes, packed_bytes * self.ratio)
        return in_ratio and size_bytes <= self.total_bytes

    def allow_holes(self, size_bytes: int, holes: Iterable[tuple[int, int]]) -> bool:
        """Tell whether a file of this size may have these holes: they pack NULs into nothing."""
        hole_bytes = sum(end - start for start, end in holes)
        return hole_bytes <= max(self.free_bytes, (size_bytes - hole_bytes) * self.ratio)


LIMITS = ReadLimits()


class TooMuch(ValueError):
    """A file has more content than its bounds allow; the text goes on after the file's name."""


class BrokenPacking(ValueError):
    """Packed content that cannot be unpacked from some place on; the text says why."""


class BoundedReader:
    """One open file that may come from anybody: its bytes, its content, its lines.

    ``content`` is what the bytes unpack to, for a file that is packed with gzip or zstd.
    """

    def __init__(self, files: Files, path: Path | str, limits: ReadLimits = LIMITS) -> None:
        """Open the file; raises as ``Files.open_regular``."""
        self._files = files
        self._limits = limits
        self.descriptor = files.open_regular(path)
        self.size_bytes = files.status(self.descriptor).st_size

    def __enter__(self) -> Self:
        """Return the reader."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._files.close(self.descriptor)

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield the bytes of the file, up to the size that it had when it was opened.

        Raises:
            TooMuch: it has more holes than the limits allow.
        """
        end = self.size_bytes if end is None else min(end, self.size_bytes)
        if end - start > self._limits.free_bytes:
            holes = self._files.holes(self.descriptor, end, LARGE_HOLE_BYTES)
            if not self._limits.allow_holes(end, holes):
                raise TooMuch(f"claims {end} bytes, nearly all of them in holes")
        while start < end:
            chunk = self._files.read_at(self.descriptor, min(PIECE_BYTES, end - start), start)
            if not chunk:
                return  # it was cut while we read it
            start += len(chunk)
            yield chunk


def data_pieces(files: Files, descriptor: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes of a file with their offsets, in pieces; large holes are left out."""
    holes = files.holes(descriptor, end, LARGE_HOLE_BYTES)
    for hole_start, hole_end in [*holes, (end, end)]:
        while start < hole_start:
            piece = files.read_at(descriptor, min(PIECE_BYTES, hole_start - start), start)
            if not piece:
                return  # it was cut while we read it
            yield start, piece
            start += len(piece)
        start = max(start, hole_end)


def unpacked(
    chunks: Iterable[bytes], packing: str, limits: ReadLimits = LIMITS, spent: int = 0
) -> Iterator[bytes]:
    """Yield the content of packed bytes in pieces of bounded size. ``packing``: gzip or zstd.

    ``spent`` is what other files of the same kind have used up of the total.

    Raises:
        TooMuch: there is more of it than the limits allow.
        BrokenPacking: it cannot be unpacked from here on, or breaks off.
        OSError: there is no package for zstd.
    """
    decoder: _Decoder = _Zstd() if packing == "zstd" else _Gzip()
    packed = size = 0
    for chunk in _sliced(chunks):
        packed += len(chunk)
        try:
            for piece in decoder.pieces(chunk):
                size += len(piece)
                if not limits.allow(packed, size) or spent + size > limits.total_bytes:
                    raise TooMuch(f"decompresses to more than {size} bytes from {packed}")
                if piece:
                    yield piece
        except decoder.errors as error:
            raise BrokenPacking(str(error)) from error
    if not decoder.is_whole:
        raise BrokenPacking("it ends in the middle")


def _sliced(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield chunks in slices: decoders copy what they have not used yet, for each small member."""
    for chunk in chunks:
        for start in range(0, len(chunk), _SLICE_BYTES):
            yield chunk[start : start + _SLICE_BYTES]


class ReadLine(Struct, frozen=True):
    """A line without its newline, its number from 1 and its length; too long: without its bytes."""

    number: int
    size_bytes: int
    data: bytes | None


def lines(pieces: Iterable[bytes], limits: ReadLimits = LIMITS) -> Iterator[ReadLine]:
    """Yield the lines of some content, split on the newline byte alone.

    What stands behind the last newline is a line if it is not empty.
    """
    number = 0
    carried: list[bytes] = []  # the beginning of a line that goes on in the next piece
    carried_bytes = 0
    for piece in pieces:
        found = piece.split(b"\n")
        rest = found.pop()
        for data in found:
            number += 1
            size = carried_bytes + len(data)
            if not carried_bytes:
                whole: bytes | None = data
            else:
                whole = b"".join([*carried, data])
                carried, carried_bytes = [], 0
            yield ReadLine(number, size, whole if size <= limits.line_bytes else None)
        carried_bytes += len(rest)
        if carried_bytes <= limits.line_bytes:
            carried.append(rest)
        else:
            carried = []  # too long to be kept; counted to its end
    if carried_bytes:
        fits = carried_bytes <= limits.line_bytes
        yield ReadLine(number + 1, carried_bytes, b"".join(carried) if fits else None)


# Packed content


class _Decoder(Protocol):
    errors: tuple[type[Exception], ...]

    @property
    def is_whole(self) -> bool:
        """Whether the last piece ended what was packed."""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield what ``data`` unpacks to, in pieces of bounded size."""


class _Gzip:
    errors: tuple[type[Exception], ...] = (zlib.error, EOFError)

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(wbits=31)

    @property
    def is_whole(self) -> bool:
        return self._decoder.eof

    def pieces(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._decoder.eof:  # several members, one behind the other
                self._decoder = zlib.decompressobj(wbits=31)
            yield self._decoder.decompress(data, PIECE_BYTES)
            data = self._decoder.unconsumed_tail or self._decoder.unused_data


def zstd() -> Any:
    """Return the module for zstd: of the standard library from Python 3.14 on, else a package.

    Raises:
        OSError: there is none; says what to do.
    """
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    reason = "it is compressed, which needs a package: pip install 'holdfast[zstd]'"
    raise OSError(errno.ENOTSUP, reason)


def _frame_decoder(module: Any) -> Any:
    window = module.DecompressionParameter.window_log_max
    return module.ZstdDecompressor(options={window: _LARGEST_WINDOW_LOG})


class _Zstd:
    def __init__(self) -> None:
        self._zstd = zstd()
        self.errors: tuple[type[Exception], ...] = (self._zstd.ZstdError, EOFError)
        self._decoder = _frame_decoder(self._zstd)

    @property
    def is_whole(self) -> bool:
        return bool(self._decoder.eof)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        while True:
            if self._decoder.eof:  # several frames, one behind the other
                data = self._decoder.unused_data + data
                if not data:
                    return
                self._decoder = _frame_decoder(self._zstd)
            yield self._decoder.decompress(data, max_length=PIECE_BYTES)
            data = b""
            if self._decoder.needs_input:
                return


def frame(module: Any, packed: bytes, size_bytes: int) -> bytes | None:
    """Return what one frame of zstd unpacks to, ``None`` if that is not of the size it claims."""
    try:
        decoder = _frame_decoder(module)
        data: bytes = decoder.decompress(packed, max_length=size_bytes + 1)
    except (module.ZstdError, EOFError):
        return None
    return data if len(data) == size_bytes and decoder.eof else None


def frame_sizes(module: Any, files: Files, descriptor: int, start: int) -> tuple[int, int] | None:
    """Return packed and unpacked size of the frame at ``start``; ``None`` if it is none, or large.

    A frame does not say how long it is. It is read in steps that grow, so that finding a small one
    does not mean reading what stands behind it.
    """
    decoder = _frame_decoder(module)
    place, step, size = start, _FIRST_LOOK_BYTES, 0
    try:
        while not decoder.eof:
            data = b""
            if decoder.needs_input:
                data = files.read_at(descriptor, step, place)
                place, step = place + len(data), min(step * 4, PIECE_BYTES)
                if not data or place - start > 2 * LARGEST_FRAME_BYTES:
                    return None
            size += len(decoder.decompress(data, max_length=PIECE_BYTES))
            if size > LARGEST_FRAME_BYTES:
                return None
    except (module.ZstdError, EOFError):
        return None
    return place - len(decoder.unused_data) - start, size
