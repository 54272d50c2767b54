"""Packed sources, unpacked on the way: zstd and gzip, in pieces, with a limit against bombs."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from holdfast.errors import ImportRejected

MOST_UNPACKED_BYTES = 16 * 1024**3
LARGEST_RATIO = 500
_ALWAYS_FINE_BYTES = 64 * 1024 * 1024
_PIECE_BYTES = 1024 * 1024
_LARGEST_WINDOW_LOG = 26  # 64 MiB: the decoder holds as much in memory


class _Decoder(Protocol):
    @property
    def is_whole(self) -> bool:
        """Whether the last piece ended what was packed."""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield what ``data`` unpacks to, in pieces of bounded size."""


def unpacked(path: str, chunks: Iterator[bytes], report: Callable[[str], None]) -> Iterator[bytes]:
    """Yield the content of a file whose name says that it is packed; others as they are.

    Damage in the middle ends it, and is reported.

    Raises:
        ImportRejected: nothing can be unpacked, or more than there should be.
    """
    if path.endswith(".zst"):
        decoder: _Decoder = _Zstd(path)
    elif path.endswith(".gz"):
        decoder = _Gzip()
    else:
        yield from chunks
        return
    packed = size = 0
    for chunk in chunks:
        packed += len(chunk)
        try:
            for piece in decoder.pieces(chunk):
                size += len(piece)
                _check(path, packed, size)
                yield piece
        except (zlib.error, EOFError, _zstd_error(decoder)) as error:
            if size == 0:
                raise ImportRejected(path, None, f"it cannot be unpacked ({error})") from error
            report(f"cannot be unpacked from here on ({error})")
            return
    if not decoder.is_whole:
        report("is packed, and breaks off in the middle")


def _check(path: str, packed: int, size: int) -> None:
    if size > MOST_UNPACKED_BYTES or (size > _ALWAYS_FINE_BYTES and size > packed * LARGEST_RATIO):
        raise ImportRejected(
            path, None, f"its {packed} bytes unpack to more than {size}, which no session does"
        )


class _Gzip:
    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(wbits=31)

    @property
    def is_whole(self) -> bool:
        return self._decoder.eof

    def pieces(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._decoder.eof:  # several members, one behind the other
                self._decoder = zlib.decompressobj(wbits=31)
            yield self._decoder.decompress(data, _PIECE_BYTES)
            data = self._decoder.unconsumed_tail or self._decoder.unused_data


class _Zstd:
    def __init__(self, path: str) -> None:
        self._zstd = _zstd_module(path)
        self.error: type[Exception] = self._zstd.ZstdError
        self._decoder = self._new()

    def _new(self) -> Any:
        window = self._zstd.DecompressionParameter.window_log_max
        return self._zstd.ZstdDecompressor(options={window: _LARGEST_WINDOW_LOG})

    @property
    def is_whole(self) -> bool:
        return bool(self._decoder.eof)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        while True:
            if self._decoder.eof:  # several frames, one behind the other
                data = self._decoder.unused_data + data
                if not data:
                    return
                self._decoder = self._new()
            yield self._decoder.decompress(data, max_length=_PIECE_BYTES)
            data = b""
            if self._decoder.needs_input:
                return


def _zstd_error(decoder: _Decoder) -> type[Exception]:
    return decoder.error if isinstance(decoder, _Zstd) else zlib.error


def _zstd_module(path: str) -> Any:
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ImportRejected(
        path, None, "reading zstd needs a package: pip install 'holdfast[zstd]', then import again"
    )
