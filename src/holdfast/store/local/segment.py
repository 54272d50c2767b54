"""One journal file: lines forward, backward, by number; and what of it is damaged.

It is read in blocks; a block is always parsed forward, because a line can only be checked against
the one before it. Damage never stops a reader. What cannot be read comes out as ``Damage`` in its
place, and reading continues after it. A large hole is damage that is not read: it takes no room, so
its size says nothing about how long reading may take.

Which files a journal has, and how far each of them counts, is left to ``reader``.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING
from zlib import crc32

from msgspec import Struct

from holdfast.journal.bounded import LARGE_HOLE_BYTES, LONGEST_LINE_BYTES, data_pieces
from holdfast.journal.damage import Damage, Record, in_order, misnumbered, with_neighbours
from holdfast.journal.format import (
    CHAIN_SETTERS,
    SEQ_START,
    chain_after,
    parse,
    salvage,
    stored_sum,
)
from holdfast.model.entry import Entry, Header
from holdfast.store.local.compressed import MAGIC, CompressedFile
from holdfast.store.local.layout import segment_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from holdfast.files import Files

_BLOCK_BYTES = 256 * 1024
_FIRST_LOOK_BYTES = 4096
_LONGEST_SETTER_BYTES = 2048  # longest gap line, or header of a continuation
_SEQ_START_BYTES = 32
_MOST_DOUBTFUL_LINES = 8
_CHAIN_SETTER = re.compile(rb'"type":"(?:gap|header)"')


class Block(Struct, frozen=True):
    """Whole lines of one file, parsed. ``end`` is the offset behind the last one."""

    segment: int
    start: int
    end: int
    records: list[Record]


class Segment:
    """One open journal file, read up to ``end``; offsets and sizes are those of its content."""

    def __init__(
        self, files: Files, folder: Path, number: int, descriptor: int | None = None
    ) -> None:
        self.files = files
        self.folder = folder
        self.name = segment_name(number)
        self.is_first = number == 1
        self.number = number
        self.descriptor = -1
        if descriptor is None:
            self.descriptor = files.open_regular(f"{folder}/{self.name}")  # text: listed often
        else:
            self.descriptor = files.duplicate(descriptor)
        status = files.status(self.descriptor)
        self.inode = status.st_ino
        self.packed: CompressedFile | None = None
        if descriptor is None and files.read_at(self.descriptor, len(MAGIC), 0) == MAGIC:
            self.packed = CompressedFile(files, self.descriptor)
        self.size = status.st_size if self.packed is None else self.packed.size
        self.end = self.size
        self._last_block: Block | None = None
        self._known_holes: list[tuple[int, int]] = []
        self._size_with_holes = -1  # what the holes were looked for in: a file can be cut and grow

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / self.name

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from ``start`` to ``end``."""
        if self.packed is not None:
            return self.packed.read(start, end)
        return self.files.read_at(self.descriptor, end - start, start)

    def header(self) -> Entry | None:
        """Return the file's first line if it is a header that can be read."""
        if self.is_first and 0 < self.end <= _BLOCK_BYTES:  # a small file is read and parsed once
            first = next(iter(self.block_before(self.end).records), None)
            return first if isinstance(first, Entry) and isinstance(first.body, Header) else None
        size = _FIRST_LOOK_BYTES
        while True:
            data = self.read(0, min(size, self.size))
            start = len(data) - len(data.lstrip(b"\n"))  # blank lines stand for nothing
            newline = data.find(b"\n", start)
            if newline >= 0 or size >= min(self.size, LONGEST_LINE_BYTES):
                break
            if b"\0" in data:
                return None  # no header has one: this is a hole, or was never written
            size *= 16
        line = data[start:] if newline < 0 else data[start:newline]
        entry = parse(line, b"", start, self.number)
        return entry if entry is not None and isinstance(entry.body, Header) else None

    def renumber(self, number: int) -> None:
        """Count as another one."""
        if number != self.number:
            self.number = number
            self._last_block = None

    def last_newline(self) -> int:
        """Return the offset of the last newline, ``-1`` if there is none."""
        return self._newline_before(self.end)

    def first_seq(self) -> int | None:
        """Return the number above which this file has the entries, ``None`` if it has none."""
        if self.is_first:
            return -1
        header = self.header()
        if header is not None:
            return header.seq
        found = self._line_after(0, self.end)
        return found[1] - 1 if found else None

    def block_before(self, end: int) -> Block:
        """Parse whole lines that end at ``end``, about a quarter of a megabyte of them.

        The last answer is kept: opening looks at the end of a file more than once.
        """
        block = self._last_block
        if block is None or block.end != end:
            block = self._last_block = self._read_block_before(end)
        return block

    def _read_block_before(self, end: int) -> Block:
        start = max(0, end - _BLOCK_BYTES)
        data = self.read(start, end)
        if start == 0:
            return self._parse_block(data, 0)
        # The last byte is the newline that ends the block itself.
        newline = data.find(b"\n", 0, len(data) - 1)
        if newline >= 0:
            return self._parse_block(data[newline + 1 :], start + newline + 1)
        hole_start, hole_end = self._hole_before(end)
        if hole_end == end:
            return self._unread(hole_start, end)
        return self._line_block(self._newline_before(start, hole_end) + 1, end)

    def forward(self, start: int) -> Iterator[Block]:
        """Parse block after block, from the line that starts at ``start`` to the end."""
        while start < self.end:
            block = self._read_block_after(start)
            yield block
            if block.end == start:
                return  # what was torn there has been cut off meanwhile
            start = block.end

    def _read_block_after(self, start: int) -> Block:
        stop = min(self.end, start + _BLOCK_BYTES)
        data = self.read(start, stop)
        cut = len(data) if stop == self.end else data.rfind(b"\n") + 1
        if cut > 0 or not data:
            return self._parse_block(data[:cut], start)
        hole_start, hole_end = self._hole_after(start)
        if hole_start <= start:
            return self._unread(start, hole_end)
        return self._line_block(start, self._newline_after(stop, hole_start) + 1)

    def _line_block(self, start: int, end: int) -> Block:
        """Parse one long line; if it is too long it is reported, and stays on disk."""
        length = end - start - (self.read(end - 1, end) == b"\n")
        if length <= LONGEST_LINE_BYTES:
            return self._parse_block(self.read(start, end), start)
        damage = Damage(self.number, start, length, "too long")
        return Block(self.number, start, end, [damage])

    def _unread(self, start: int, end: int) -> Block:
        """Return a block for a hole, or a part of one."""
        damage = Damage(self.number, start, end - start, "unreadable")
        return Block(self.number, start, end, [damage])

    def _holes(self) -> list[tuple[int, int]]:
        """Return the large holes. Asked for only if a block has no newline, which is rare."""
        if self.packed is None and self._size_with_holes != self.size:
            self._size_with_holes = self.size
            self._known_holes = self.files.holes(self.descriptor, self.size, LARGE_HOLE_BYTES)
        return self._known_holes

    def _hole_after(self, offset: int) -> tuple[int, int]:
        """Return the first hole that ends after ``offset``; else the file's end."""
        holes = self._holes()
        place = bisect_right(holes, offset, key=itemgetter(1))
        start, end = holes[place] if place < len(holes) else (self.end, self.end)
        return min(start, self.end), min(end, self.end)

    def _hole_before(self, offset: int) -> tuple[int, int]:
        """Return the last hole that begins before ``offset``, up to there; or the file's start."""
        holes = self._holes()
        place = bisect_left(holes, (offset, 0)) - 1
        start, end = holes[place] if place >= 0 else (0, 0)
        return start, min(end, offset)

    def checksum(self, start: int, end: int, before: int = 0) -> int:
        """Return the CRC-32 of some content, without large holes, after that of what is before."""
        if self.packed is None:
            for _, piece in data_pieces(self.files, self.descriptor, start, end):
                before = crc32(piece, before)
            return before
        for place in range(start, end, _BLOCK_BYTES):
            before = crc32(self.read(place, min(place + _BLOCK_BYTES, end)), before)
        return before

    def _newline_before(self, end: int, first: int = 0) -> int:
        """Return the offset of the last newline from ``first`` to ``end``, else ``first - 1``."""
        while end > first:
            start = max(first, end - _BLOCK_BYTES)
            found = self.read(start, end).rfind(b"\n")
            if found >= 0:
                return start + found
            hole_start, hole_end = self._hole_before(start)
            end = hole_start if hole_end == start else start
        return first - 1

    def _newline_after(self, start: int, end: int) -> int:
        """Return the offset of the next newline, or of the last byte before ``end``."""
        while start < end:
            found = self.read(start, min(end, start + _BLOCK_BYTES)).find(b"\n")
            if found >= 0:
                return start + found
            start += _BLOCK_BYTES
        return end - 1

    def chain_at(self, offset: int) -> bytes | None:
        """Return the sum that the line starting at ``offset`` is chained to."""
        if offset == 0:
            return b""
        start = max(0, offset - _LONGEST_SETTER_BYTES)
        tail = self.read(start, offset - 1).rstrip(b"\n")  # blank lines stand for nothing
        line = tail.rpartition(b"\n")[2]
        entry = None
        if _CHAIN_SETTER.search(line):
            entry = parse(line, None, 0, self.number)
        elif len(line) == len(tail) and start > 0:  # longer than that: a header with a long key?
            header = self.header()
            entry = header if header and len(header.line) == start + len(tail) else None
        return stored_sum(tail) if entry is None else chain_after(entry)

    def _parse_block(self, data: bytes, start: int) -> Block:
        previous = self.chain_at(start)
        records: list[Record] = []
        offset = start
        lines = data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        for line in lines:
            is_read = 0 < len(line) <= LONGEST_LINE_BYTES
            entry = parse(line, previous, offset, self.number) if is_read else None
            if entry is not None:
                records.append(entry)
                simple = entry.status == "ok" and entry.type not in CHAIN_SETTERS
                previous = line[-10:-2] if simple else chain_after(entry)
            elif line:  # a blank line is an editor's doing and stands for nothing
                records += self._salvaged(line, previous, offset)
                previous = stored_sum(line)
            offset += len(line) + 1
        if start == 0 and not self.is_first and records and _is_header(records[0]):
            del records[0]  # it only repeats the number of the entry that it continues
        offset_end = start + len(data)
        return Block(self.number, start, offset_end, self._in_order(records, offset_end))

    def _in_order(self, records: list[Record], end: int) -> list[Record]:
        """Turn lines whose number cannot be right into damage; the line at ``end`` has a say."""
        records = in_order(records)
        last = records[-1] if records else None
        if isinstance(last, Entry) and last.status != "ok":
            following = SEQ_START.match(self.read(end, min(self.end, end + _SEQ_START_BYTES)))
            if following is not None and int(following[1]) <= last.seq:
                records = [*records[:-1], misnumbered(last)]
        return with_neighbours(records)

    def _salvaged(self, line: bytes, previous: bytes | None, offset: int) -> list[Record]:
        """Return the entries inside a line that cannot be read whole, and the damage around."""
        if len(line) > LONGEST_LINE_BYTES:
            return [Damage(self.number, offset, len(line), "too long")]
        records: list[Record] = []
        done = 0
        for start, piece in salvage(line):
            entry = parse(piece, previous if start == done else None, offset + start, self.number)
            if entry is None:
                continue
            if start > done:
                records.append(Damage(self.number, offset + done, start - done, "unreadable"))
            records.append(entry)
            previous = chain_after(entry)
            done = start + len(piece)
        if done < len(line) or not records:
            records.append(Damage(self.number, offset + done, len(line) - done, "unreadable"))
        return records

    def ends_with(self, seq: int) -> bool:
        """Tell whether entry ``seq`` is in the last block, where most looks begin."""
        records = self.block_before(self.end).records if self.end else []
        first = next((record.seq for record in records if isinstance(record, Entry)), None)
        return first is not None and first <= seq

    def offset_of(self, seq: int) -> int:
        """Return the start of a line at or before the one numbered ``seq``, by bisection."""
        low = self._bisect(seq, self._line_after)
        if low > 0 and not self._is_intact(low):  # an altered number may have led astray
            low = self._bisect(seq, self._intact_line_after)
        return low

    def _bisect(self, seq: int, line_after: Callable[[int, int], tuple[int, int] | None]) -> int:
        low, high = 0, self.end if seq >= 0 else 0
        while high - low > _BLOCK_BYTES:
            middle = (low + high) // 2
            found = line_after(middle, high)
            if found is None or found[1] > seq:
                high = middle
            else:
                low = found[0]
        return low

    def _intact_line_after(self, offset: int, limit: int) -> tuple[int, int] | None:
        """Do as ``_line_after``, but pass over lines that are not intact.

        Many of them in a row mean that nobody seals lines here; then the first is believed.
        """
        first = found = self._line_after(offset, limit)
        for _ in range(_MOST_DOUBTFUL_LINES):
            if found is None or self._is_intact(found[0]):
                return found
            found = self._line_after(found[0], limit)
        return first

    def _is_intact(self, offset: int) -> bool:
        size = _FIRST_LOOK_BYTES
        data = self.read(offset, min(self.end, offset + size))
        while b"\n" not in data and size < _BLOCK_BYTES:
            size *= 16
            data = self.read(offset, min(self.end, offset + size))
        entry = parse(data.partition(b"\n")[0], self.chain_at(offset), offset, self.number)
        return entry is not None and entry.status == "ok"

    def _line_after(self, offset: int, limit: int) -> tuple[int, int] | None:
        """Return offset and number of the first readable line that starts after ``offset``."""
        position = offset
        carry = b""
        while position < limit:
            data = carry + self.read(position, min(position + _BLOCK_BYTES, limit))
            base = position - len(carry)
            newline = data.find(b"\n")
            while newline >= 0:
                match = SEQ_START.match(data, newline + 1)
                if match is not None:
                    return base + newline + 1, int(match[1])
                newline = data.find(b"\n", newline + 1)
            position += _BLOCK_BYTES
            carry = data[-_SEQ_START_BYTES:]
            hole_start, hole_end = self._hole_after(position)
            if hole_start <= position < hole_end:  # no line is found across it
                position, carry = hole_end, b""
        return None

    def close(self) -> None:
        """Close the file."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            self.files.close(descriptor)

    def __del__(self) -> None:
        """Close the file of a view that was dropped: sessions can be read after they are closed."""
        self.close()


def _is_header(record: Record) -> bool:
    return isinstance(record, Entry) and isinstance(record.body, Header)
