"""Copies of a journal with lines left out, and one of them in the journal's place: compaction.

Kept lines are copied byte for byte, checksums included. Where lines are left out a gap line takes
their place and carries the checksum that the next kept line was computed from, so that the copy
verifies from end to end. A mark at the end holds the state that the lines left out had led to.

A copy that becomes another session is left to ``fork``.
"""

from __future__ import annotations

import gzip
import logging
import zlib
from contextlib import ExitStack, suppress
from io import BytesIO
from typing import TYPE_CHECKING

import msgspec

from holdfast.journal.appender import Place
from holdfast.journal.damage import Damage, Record
from holdfast.journal.format import chain_after, is_time, parse, seal, timestamp
from holdfast.journal.names import JOURNAL_NAME, segment_name
from holdfast.model.codec import encode_body, type_of
from holdfast.model.entry import TREE, Body, Entry, Gap, Header
from holdfast.model.ids import new_name
from holdfast.store.branch import walk
from holdfast.store.fold import fold, mark_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from holdfast.journal.files import Files
    from holdfast.journal.reader import Journal
    from holdfast.model.state import State

_LOG = logging.getLogger("holdfast")
ARCHIVE_NAME = "archive"
_CHUNK_BYTES = 1024 * 1024


def branch_numbers(journal: Journal, head: int | None, noticed: list[Damage]) -> set[int]:
    """Return the numbers of all entries on a branch."""
    return {entry.seq for entry in walk(journal, head, noticed)}


class Copy:
    """The lines of a journal for which ``keep`` says yes, as chunks of bytes.

    After the last chunk ``left_out`` counts lines, ``last`` is the final mark and ``state`` what
    the new journal folds to.
    """

    def __init__(
        self,
        journal: Journal,
        header: Header,
        keep: Callable[[Entry], bool],
        final_state: Callable[[State], State],
        next_seq: int = 0,
    ) -> None:
        self._journal = journal
        self._header = header
        self._keep = keep
        self._final_state = final_state
        self._next_seq = next_seq
        self._chain = b""
        self._top = 0
        self.left_out = 0
        self.size_bytes = 0
        self.last: Entry | None = None
        self.state: State = fold([])

    def chunks(self) -> Iterator[bytes]:
        """Yield the new file, line by line."""
        old_header = self._journal.header
        at = timestamp()
        if old_header and not self._header.forked_from and is_time(old_header.at):
            at = old_header.at
        chain = chain_after(old_header) if old_header else None
        header = msgspec.structs.replace(self._header, chain=(chain or b"").decode())
        yield self._sealed(0, at, header, b"")
        self._chain = chain or b""
        hole: list[Record] = []
        for record in self._journal.records(0):
            if isinstance(record, Damage) or not self._keep(record):
                hole.append(record)
                continue
            if hole:
                yield self._gap(hole, record.seq)
                hole = []
            self.state = fold([record], self.state)
            self._chain = chain_after(record) or b""
            self._top = record.seq
            yield self._counted(record.line)
        if hole:
            yield self._gap(hole, None)
        self.state = self._final_state(self.state)
        if not is_time(self.state.started):
            self.state = msgspec.structs.replace(self.state, started=at)
        seq = max(self._top + 1, self._next_seq)
        yield self._sealed(seq, timestamp(), mark_of(self.state), self._chain)

    def _gap(self, hole: list[Record], after: int | None) -> bytes:
        """Return the line that stands for lines left out, with the number of the last of them."""
        self.left_out += len(hole)
        before, first, last = self._top, hole[0], hole[-1]
        numbers = [record.seq for record in hole if isinstance(record, Entry)]
        seq = max(numbers, default=before + 1 if after is None else after - 1)
        if seq <= before:
            return b""  # damage between two neighbours: no line is missing
        chain = chain_after(last) if isinstance(last, Entry) else None
        gap = Gap(
            reason="omission",
            segment=first.segment,
            offset=first.offset,
            length=sum(_length(record) + 1 for record in hole),
            before=before,
            after=after,
            chain=(chain or b"").decode(),
        )
        line = self._sealed(seq, timestamp(), gap, self._chain)
        self._chain = chain or b""
        return line

    def _sealed(self, seq: int, at: str, body: Body, chain: bytes) -> bytes:
        data, _ = encode_body(body)
        line = seal(seq, at, type_of(body), data, chain)
        entry = parse(line, chain, self.size_bytes, 1)
        assert entry is not None
        self.last = entry
        self._top = seq
        self.state = fold([entry], self.state)
        return self._counted(line)

    def _counted(self, line: bytes) -> bytes:
        self.size_bytes += len(line) + 1
        return line + b"\n"


def _length(record: Record) -> int:
    return record.length if isinstance(record, Damage) else len(record.line)


def kept_by_compaction(branch: set[int], keep_from: int) -> Callable[[Entry], bool]:
    """Return the rule of a compaction.

    Of the tree it keeps the branch from ``keep_from`` on. Session-wide lines stay, except those
    that only say what the final mark says better.
    """

    def keep(entry: Entry) -> bool:
        if entry.type in TREE:
            return entry.seq in branch and entry.seq >= keep_from
        return entry.type not in ("mark", "gap", "head")

    return keep


def archive(files: Files, folder: Path, journal: Journal) -> Path:
    """Keep a compressed copy of all journal files, durable on return."""
    target_folder = folder / ARCHIVE_NAME
    files.make_real_folder(target_folder)
    files.sync_folder(folder)
    path = target_folder / f"journal-{timestamp()[:19].replace(':', '')}-{new_name()}.jsonl.gz"
    temporary = path.with_name(f".{path.name}")
    descriptor = files.open_append(temporary, create=True)
    try:
        for segment in journal.segments:
            _compress(files, segment.descriptor, segment.size, descriptor)
        files.sync(descriptor)
        files.rename(temporary, path)
    except OSError:
        files.unlink(temporary)
        raise
    finally:
        files.close(descriptor)
    files.sync_folder(target_folder)
    return path


def archived(files: Files, folder: Path) -> Iterator[Entry]:
    """Yield the entries with an ``id`` that compactions have moved to the archive."""
    for name in sorted(files.names(folder / ARCHIVE_NAME)):
        if not name.startswith("."):
            data = BytesIO(files.read_whole(folder / ARCHIVE_NAME / name))
            try:
                with gzip.GzipFile(fileobj=data) as lines:
                    for line in lines:
                        entry = parse(line[:-1], None, 0, 1) if b'"id":"' in line else None
                        if entry is not None and entry.id is not None:
                            yield entry
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                # Damage never blocks appending; what reads was given out.
                _LOG.warning("%s is damaged: %s", folder / ARCHIVE_NAME / name, error)


def _compress(files: Files, source: int, size: int, target: int) -> None:
    # Level 1: this runs while somebody waits, and text shrinks well enough.
    compressor = zlib.compressobj(1, wbits=31)
    for offset in range(0, size, _CHUNK_BYTES):
        chunk = files.read_at(source, min(_CHUNK_BYTES, size - offset), offset)
        files.write_all(target, compressor.compress(chunk))
    files.write_all(target, compressor.flush())


def replace_journal(files: Files, place: Place, journal: Journal, copy: Copy) -> tuple[Place, Path]:
    """Put a copy in the journal's place; return where it is now and where the old one is kept.

    The old files are archived and the new one is synced before the name changes hands; leftover
    continuation files are recognised by the new header and removed last.
    """
    kept = archive(files, place.folder, journal)
    path = place.folder / JOURNAL_NAME
    temporary = path.with_name(f".{JOURNAL_NAME}.{new_name()}")
    with ExitStack() as undo:
        undo.callback(files.unlink, temporary)
        try:
            descriptor = files.open_append(temporary, create=True)
            undo.callback(files.close, descriptor)
            for chunk in _gathered(copy.chunks()):
                files.write_all(descriptor, chunk)
            files.sync(descriptor)
        except BaseException:
            files.unlink(kept)
            raise
        # From here on the archive may be the only place that has what was left out.
        files.rename(temporary, path)
        undo.pop_all()
    try:
        # If this fails a power cut may bring the old file back: nothing may be appended to the new
        # one, and nothing will, because it is not the writer's.
        files.sync_folder(place.folder)
    except OSError:
        files.close(descriptor)
        raise
    for segment in journal.segments[1:]:
        with suppress(OSError):
            files.unlink(place.folder / segment_name(segment.number))
    inode, end = files.status(descriptor).st_ino, copy.size_bytes
    return Place(place.folder, place.lock, path, descriptor, inode, place.segment, end), kept


def _gathered(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines in chunks that are worth a write."""
    waiting: list[bytes] = []
    size = 0
    for line in lines:
        waiting.append(line)
        size += len(line)
        if size > _CHUNK_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)
