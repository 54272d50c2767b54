"""Reading a journal: all files of a session, as one sequence of records.

A ``Journal`` is a consistent view: it holds its files open and reads up to a fixed end, so that a
writer, a compaction or a deletion beside it changes nothing. Where a file continues another, what
the earlier one has behind that place does not count.

How one file is read is told in ``segment``; how what is torn at the end is found, in ``repair``.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from holdfast.errors import DamagedJournal
from holdfast.journal.damage import Damage, Record
from holdfast.journal.segment import Block, Segment
from holdfast.model.entry import Entry, Header

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Self

    from holdfast.journal.files import Files


class Journal:
    """All journal files of a session, as one sequence of records."""

    def __init__(self, files: Files, folder: Path, instead: tuple[int, int] | None = None) -> None:
        """Open the files of ``folder``.

        ``instead`` gives descriptor and number of the last file, for a writer whose files are gone:
        what it has open can still be read.

        Raises:
            FileNotFoundError: there is no journal.
            DamagedJournal: nothing in it can be read; it was left as it is.
        """
        self.files = files
        self.folder = folder
        self.segments: list[Segment] = []
        with ExitStack() as undo:
            undo.callback(self.close)
            if instead is not None:
                self.segments.append(Segment(files, folder, instead[1], instead[0]))
                self.header = self.last.header()
                undo.pop_all()
                return
            self._open(files, folder)
            while self._was_replaced():
                self.close()
                self._open(files, folder)
            undo.pop_all()

    def _was_replaced(self) -> bool:
        """Tell whether a compaction put another first file in place while we opened the rest.

        It merges the later files and removes them: what is only there must not be missed.
        """
        first = self.segments[0]
        try:
            return self.files.status_of(f"{self.folder}/{first.name}").st_ino != first.inode
        except FileNotFoundError:
            return False  # the session was deleted; this is what it was

    def _open(self, files: Files, folder: Path) -> None:
        first = Segment(files, folder, 1)
        self.segments.append(first)
        self.header = first.header()
        if self.header is not None and isinstance(self.header.body, Header):
            # A compaction merged this many files into the first: it counts as the last of them.
            first.renumber(self.header.body.holds)
        number = first.number + 1
        while True:
            try:
                segment = Segment(files, folder, number)
            except FileNotFoundError:
                return
            self.segments.append(segment)
            self._limit_earlier(segment)
            number += 1

    def _limit_earlier(self, segment: Segment) -> None:
        """Ignore what stands in earlier files behind the entry that ``segment`` continues."""
        last = segment.first_seq()
        if last is not None:  # else there is nothing in it that could take their place
            for earlier in self.segments[:-1]:
                earlier.end = self._end_of(earlier, last)

    def _end_of(self, segment: Segment, seq: int) -> int:
        """Return the offset behind entry ``seq``; if it cannot be read, before the one after it."""
        for block in segment.forward(segment.offset_of(seq)):
            for record in block.records:
                if isinstance(record, Entry) and record.seq >= seq:
                    is_it = record.seq == seq
                    return record.offset + len(record.line) if is_it else record.offset
        return segment.end

    def __enter__(self) -> Self:
        """Return the journal."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files."""
        self.close()

    def close(self) -> None:
        """Close the files."""
        for segment in self.segments:
            segment.close()
        self.segments = []

    def __del__(self) -> None:
        """Close the files of a journal that was dropped."""
        self.close()

    @property
    def last(self) -> Segment:
        """The file that is appended to."""
        return self.segments[-1]

    @property
    def size_bytes(self) -> int:
        """Bytes that count, over all files."""
        return sum(segment.end for segment in self.segments)

    def check_readable(self) -> None:
        """Raise ``DamagedJournal`` if not one entry can be read."""
        if self.header is None and not any(isinstance(record, Entry) for record in self.records()):
            path = self.segments[0].path
            raise DamagedJournal(path, 0, "not a journal" if self.size_bytes else "empty")

    def blocks_backward(self, seq: int | None = None) -> Iterator[Block]:
        """Yield blocks back to the beginning, from the end or from one that has entry ``seq``.

        The first block may go on behind that entry.
        """
        for segment in reversed(self.segments):
            end = segment.end
            if seq is not None:
                first = segment.first_seq()
                if first is None or seq <= first:
                    continue
                if not segment.ends_with(seq):
                    end = self._end_of(segment, seq)
                seq = None
            while end > 0:
                block = segment.block_before(end)
                yield block
                end = block.start

    def records(self, after: int = -1) -> Iterator[Record]:
        """Yield entries numbered above ``after``, and the damage between them, in order."""
        for segment in self.segments:
            for block in segment.forward(segment.offset_of(after)):
                for record in block.records:
                    if isinstance(record, Damage):
                        yield record
                    elif record.seq > after:
                        after = record.seq
                        yield record

    def find(self, seq: int) -> Entry | None:
        """Return the entry numbered ``seq``, ``None`` if it cannot be read."""
        for record in self.records(seq - 1):
            if isinstance(record, Entry):
                return record if record.seq == seq else None
        return None
