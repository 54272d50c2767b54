"""Reading a journal: all files of a session, as one sequence of records.

A ``Journal`` is a consistent view: it holds its files open and reads up to a fixed end, so that a
writer, a compaction or a deletion beside it changes nothing. Where a file continues another, what
the earlier one has behind that place does not count.

How one file is read is told in ``segment``; how what is torn at the end is found, in ``repair``.

A journal that is being written, as its own session reads it.

It shows all that is durable and nothing else. It is opened when it is first asked for, anew after
a rewrite has put another file in its place, and also if somebody took the files away. Who holds it
can read it without the mutex: it is closed when it is of no use any more and nobody holds it, and
its end only moves on.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from holdfast.errors import DamagedJournal
from holdfast.journal.damage import Damage, Record
from holdfast.model.entry import Entry, Header
from holdfast.store.local.id_index import IdIndex
from holdfast.store.local.live import read_live
from holdfast.store.local.segment import Block, Segment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Self

    from holdfast.files import Files
    from holdfast.model.event import Event
    from holdfast.store.backend import Log
    from holdfast.store.local.lock import AppendTarget
    from holdfast.store.local.provenance import OriginKey

MOST_FILES_HELD = 10**6


def files_held(header: Header) -> int:
    """Return how many files a compaction merged into the first; 1 if the number cannot be right."""
    return header.holds if 1 <= header.holds <= MOST_FILES_HELD else 1


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
        self.key: OriginKey | None = None
        """Of the home; without it ids are found by reading everything."""
        self._ids: IdIndex | None = None
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
            first.renumber(files_held(self.header.body))
        with suppress(FileNotFoundError):
            while True:
                self.segments.append(Segment(files, folder, self.last.number + 1))
        self._limit_earlier()

    def _limit_earlier(self) -> None:
        """Ignore what stands in a file behind the entry that a later file continues.

        Each file is looked at once, from the last to the first: there may be a thousand.
        """
        starts = [segment.first_seq() for segment in self.segments[1:]]
        limit: int | None = None
        for segment, start in zip(reversed(self.segments[:-1]), reversed(starts), strict=True):
            if start is not None:  # else there is nothing in it that could take their place
                limit = start if limit is None else min(limit, start)
            if limit is not None:
                segment.end = self._end_of(segment, limit)

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
    def session_id(self) -> str:
        """The session's id."""
        return self.folder.name

    @property
    def location(self) -> Path:
        """Where the session is, for messages."""
        return self.folder

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

    def find_id(self, id: str) -> Entry | None:
        """Return the last entry with that id, also one that a rewrite has archived."""
        return self.ids.find(self, id)

    @property
    def ids(self) -> IdIndex:
        """Where the ids are."""
        if self._ids is None:
            self._ids = IdIndex(self, self.key)
        return self._ids

    def find_archived(self, seq: int) -> Entry | None:
        """Return the entry numbered ``seq`` that a rewrite has archived, ``None`` if none has."""
        from holdfast.store.local.compact import archived_with  # noqa: PLC0415  gzip costs 3 ms

        found = archived_with(self.files, self.folder, b'"seq":%d,' % seq)
        return next((each for each in found if each.seq == seq and each.type != "gap"), None)

    def live_events(self) -> list[Event]:
        """Return the text of running streams, and of streams that a crash left."""
        return read_live(self.files, self.folder).events

    def find(self, seq: int) -> Entry | None:
        """Return the entry numbered ``seq``, ``None`` if it cannot be read."""
        for record in self.records(seq - 1):
            if isinstance(record, Entry):
                return record if record.seq == seq else None
        return None


class OwnLog:
    """What the writer of a journal reads of it. The caller holds the writer's mutex."""

    def __init__(self, files: Files, key: OriginKey) -> None:
        self._files = files
        self._key = key
        self._journal: Journal | None = None
        self._holders: Counter[Log] = Counter()

    def of(self, place: AppendTarget) -> Journal:
        """Return all that is durable of the journal at ``place``."""
        if self._journal is not None and self._journal.last.inode != place.inode:
            self.close()
        if self._journal is None:
            self._journal = self._open(place)
            self._journal.key = self._key
        self._journal.last.size = self._journal.last.end = place.end
        return self._journal

    def _open(self, place: AppendTarget) -> Journal:
        try:
            journal = Journal(self._files, place.folder)
            if journal.last.inode == place.inode:
                return journal
            journal.close()
        except OSError:
            pass
        # Somebody deleted or replaced the files. What we have open can still be read and exported.
        return Journal(self._files, place.folder, (place.descriptor, place.segment))

    def hold(self, journal: Log) -> None:
        """Keep it open until ``release``."""
        self._holders[journal] += 1

    def release(self, journal: Log) -> None:
        """Let it be closed, if nobody else holds it and it is of no use any more."""
        self._holders[journal] -= 1
        if not self._holders[journal]:
            del self._holders[journal]
            if journal is not self._journal:
                journal.close()

    def close(self) -> None:
        """Let go of the files; they are opened again if need be."""
        journal, self._journal = self._journal, None
        if journal is not None and journal not in self._holders:
            journal.close()
