"""A rewritten journal in the place of the old one, which is archived first.

Which lines the copy has is decided by ``holdfast.store.write.rewrite``.
"""

from __future__ import annotations

import logging
import zlib
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from holdfast.journal.bounded import (
    BoundedReader,
    BrokenPacking,
    TooMuch,
    data_pieces,
    lines,
    unpacked,
)
from holdfast.journal.format import parse, timestamp
from holdfast.model.ids import new_name
from holdfast.store.local.layout import ARCHIVE_NAME, JOURNAL_NAME, segment_name
from holdfast.store.local.lock import AppendTarget

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.files import Files
    from holdfast.model.entry import Entry
    from holdfast.store.local.reader import Journal
    from holdfast.store.write.rewrite import LogCopy

_LOG = logging.getLogger("holdfast")
_CHUNK_BYTES = 1024 * 1024


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
    for entry in archived_with(files, folder, b'"id":"'):
        if entry.id is not None:
            yield entry


def archived_with(files: Files, folder: Path, wanted: bytes) -> Iterator[Entry]:
    """Yield entries that compactions have moved to the archive: those with ``wanted`` in them."""
    spent = 0
    for name in sorted(files.names(folder / ARCHIVE_NAME)):
        if not name.startswith("."):
            try:
                with BoundedReader(files, folder / ARCHIVE_NAME / name) as reader:
                    for line in lines(unpacked(reader.chunks(), "gzip", spent=spent)):
                        spent += line.size_bytes
                        if line.data is not None and wanted in line.data:
                            entry = parse(line.data, None, 0, 0)  # in no file of the journal
                            if entry is not None:
                                yield entry
            except (BrokenPacking, TooMuch) as error:
                # Damage never blocks appending; what reads was given out.
                _LOG.warning("%s is damaged: %s", folder / ARCHIVE_NAME / name, error)


def _compress(files: Files, source: int, size: int, target: int) -> None:
    # Level 1: this runs while somebody waits, and text shrinks well enough.
    compressor = zlib.compressobj(1, wbits=31)
    end = 0
    for offset, piece in data_pieces(files, source, 0, size):
        # A large hole is left out. No line continues after it.
        data = b"\n" + piece if offset > end else piece
        files.write_all(target, compressor.compress(data))
        end = offset + len(piece)
    files.write_all(target, compressor.flush())


def replace_journal(
    files: Files, place: AppendTarget, journal: Journal, copy: LogCopy, *, archiving: bool = True
) -> tuple[AppendTarget, Path | None]:
    """Put a copy in the journal's place; return where it is now and where the old one is kept.

    The old files are archived, unless they have what is being erased, and the new one is synced
    before the name changes hands; leftover continuation files are recognised by the new header and
    removed last.
    """
    kept = archive(files, place.folder, journal) if archiving else None
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
            if kept is not None:
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
    return AppendTarget(place.folder, place.lock, path, descriptor, inode, place.segment, end), kept


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
