"""Whether a journal is sound from its first byte to its last, told at the speed of its checksums.

Every line is whole JSON, fits its checksum and has a number above the one before; the last batch is
all there. A journal for which this does not hold, for whatever reason, is read with care by whoever
wants to know more. So nothing here has to understand damage.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec
from msgspec import Struct

from holdfast.journal.format import CHAIN_SETTERS, chain_after, parse
from holdfast.model.codec import may_be_deep
from holdfast.model.entry import Entry, Header, is_undecoded
from holdfast.store.local.layout import segment_name
from holdfast.store.local.reader import files_held
from holdfast.store.local.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.files import Files

_BLOCK_BYTES = 1024 * 1024
_SUM_FIELD = b',"sum":"'
_NAMES_A_BLOB = b'"blob"'


class _LineHead(Struct, gc=False):
    """As much of a line as is needed to follow it; all of it is decoded."""

    seq: int
    type: str
    batch: tuple[int, int] | None = None


_DECODER = msgspec.json.Decoder(_LineHead)


class Sound(Struct, frozen=True):
    """What is in a journal that is sound."""

    entries: int
    messages: int
    size_bytes: int
    holds: int


class _Unsound(Exception):
    """No error, but an answer: look with care."""


def verify_fast(
    files: Files,
    folder: Path,
    look: Callable[[Entry], None],
    progress: Callable[[int, int], None] | None = None,
) -> Sound | None:
    """Return what is in a journal that is sound, ``None`` if it may not be.

    ``look`` is called with each entry that may name a blob.

    Raises:
        FileNotFoundError: there is no journal.
    """
    with closing(Segment(files, folder, 1)) as segment:
        walk = _Walk(segment, look)
        try:
            for done in walk.steps():
                if progress is not None:
                    progress(done, segment.size)
        except (_Unsound, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if files.exists(f"{folder}/{segment_name(walk.holds + 1)}"):
            return None  # it goes on in another file
        return Sound(walk.entries, walk.messages, segment.size, walk.holds)


class _Walk:
    def __init__(self, segment: Segment, look: Callable[[Entry], None]) -> None:
        self._segment = segment
        self._look = look
        self._chain = crc32(b"")
        self._sum = b""
        self._after = -1
        self.entries = self.messages = 0
        self.holds = 0

    def steps(self) -> Iterator[int]:
        """Go through the file, a block at a time; yield how far it is."""
        start, size = 0, self._segment.size
        last: _LineHead | None = None
        while start < size:
            data = self._segment.read(start, min(size, start + _BLOCK_BYTES))
            lines = data.split(b"\n")
            rest = len(lines.pop())
            if not lines or (rest and start + len(data) >= size):
                raise _Unsound  # a very long line, or one without its end
            last = self._take(lines, start)
            start += len(data) - rest
            yield start
        batch = last.batch if last is not None else (0, 0)
        if not self.holds or (batch is not None and batch[0] + 1 != batch[1]):
            raise _Unsound

    def _take(self, lines: list[bytes], offset: int) -> _LineHead:
        chain, after, messages, decode = self._chain, self._after, 0, _DECODER.decode
        brief = None
        for line in lines:
            stored = line[-10:-2]
            if line[-18:-10] != _SUM_FIELD or stored != b"%08x" % crc32(line[:-18], chain):
                raise _Unsound
            brief = decode(line)
            if brief.seq <= after:
                raise _Unsound
            after = brief.seq
            if brief.type == "message":
                messages += 1
            elif brief.type in CHAIN_SETTERS:
                stored = self._set(line, offset)
            if _NAMES_A_BLOB in line or may_be_deep(line):
                self._look_at(line)
            chain = crc32(stored)
        assert brief is not None
        self._chain, self._after = chain, after
        self.messages += messages
        self.entries += len(lines)
        return brief

    def _set(self, line: bytes, offset: int) -> bytes:
        """Return what the line after a header or gap is chained to."""
        entry = parse(line, None, offset, 1)
        if entry is not None and isinstance(entry.body, Header):
            self.holds = files_held(entry.body)
        chain = None if entry is None else chain_after(entry)
        if chain is None or (not self.holds):
            raise _Unsound
        return chain

    def _look_at(self, line: bytes) -> None:
        entry = parse(line, None, 0, 1)
        if entry is None or is_undecoded(entry):
            raise _Unsound
        self._look(entry)
