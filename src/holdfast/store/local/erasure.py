"""Sessions and entries that are removed for good: every place that has their bytes, and the record.

    erased.jsonl                  in the home: a tombstone for each session and each entry
    erasing.json                  in a session: an entry is being erased; opening finishes it
    trash/.erasing-<uid>/         a session that is being erased

A session is erased once its folder has that name in the trash: from then on it is neither found nor
restored. An entry is erased once the rewritten journal has its name. What a crash leaves undone is
done by the next opening, deletion or cleanup; doing it twice changes nothing.

The caches are removed whole: SQLite leaves deleted text in its files.
"""

from __future__ import annotations

import re
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import DamagedJournal, UsageError
from holdfast.journal.bounded import BoundedReader, BrokenPacking, TooMuch, lines, unpacked
from holdfast.journal.format import chain_after, parse, seal, timestamp
from holdfast.model.codec import encode_body
from holdfast.model.entry import ERASED, NO_PARENT_FIELD, Entry, Gap, Header, is_erased
from holdfast.model.ids import new_name, new_uid
from holdfast.store.local.blobs import BLOBS_NAME
from holdfast.store.local.id_index import INDEX_NAME, RUNS_NAME
from holdfast.store.local.layout import (
    ARCHIVE_NAME,
    DAMAGED_NAME,
    ERASING_NAME,
    is_real_folder,
    segment_number,
)
from holdfast.store.local.lock import Lock
from holdfast.store.local.orphan_blobs import unnamed
from holdfast.store.local.reader import Journal
from holdfast.store.types import Tombstone
from holdfast.store.write.erase import Erasure
from holdfast.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.files import Files
    from holdfast.journal.bounded import ReadLine
    from holdfast.store.local.layout import Home

LEDGER_NAME = "erased.jsonl"
GOING = ".erasing-"
_DATABASE = re.compile(r"[a-z]+\.db(?:-journal|-wal|-shm)?")
_LARGEST_INTENT_BYTES = 16 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024
_BEGINNING = b'{"seq":'


# Tombstones


def tombstones(home: Home) -> list[Tombstone]:
    """Return what was erased in this home, also where removing it is not finished."""
    found = _recorded(home)
    known = {each.uid for each in found if each.seq is None}
    for folder in being_erased(home):
        pending = _tombstone_of(home.files, folder)
        if pending is not None and pending.uid not in known:
            found.append(pending)
    return found


def _recorded(home: Home) -> list[Tombstone]:
    found: list[Tombstone] = []
    with suppress(FileNotFoundError), BoundedReader(home.files, home.root / LEDGER_NAME) as reader:
        for line in lines(reader.chunks()):
            with suppress(msgspec.DecodeError, UnicodeDecodeError):  # torn by a crash
                found.append(msgspec.json.decode(line.data or b"", type=Tombstone))
    return found


def check_not_erased(home: Home, journal: Journal) -> None:
    """Refuse to bring back a session that was erased here, or one that has an erased entry.

    Raises:
        UsageError: says what was erased, and when.
    """
    header = journal.header.body if journal.header is not None else None
    if not isinstance(header, Header) or not header.uid:
        return
    ours = [each for each in tombstones(home) if each.uid == header.uid]
    for each in ours:
        if each.seq is None:
            raise UsageError(
                f"Session {each.session} was erased here at {each.at}, so this copy was rejected."
            )
        entry = journal.find(each.seq)
        if entry is not None and not is_erased(entry) and entry.type != "gap":
            raise UsageError(
                f"Entry {each.seq} of session {each.session} was erased here at {each.at}, but "
                "this copy still contains it. The copy was rejected."
            )


def record(home: Home, tombstone: Tombstone) -> None:
    """Add a tombstone to those of the home, durably, unless it is there."""
    files, path = home.files, home.root / LEDGER_NAME
    known = {(each.uid, each.seq) for each in _recorded(home)}
    if (tombstone.uid, tombstone.seq) in known:
        return
    try:
        descriptor = files.open_append(path, create=True)
    except FileExistsError:
        descriptor = files.open_append(path)
    try:
        # A newline first: a crash may have torn the last line.
        files.write_all(descriptor, b"\n" + msgspec.json.encode(tombstone) + b"\n")
        files.sync(descriptor)
    finally:
        files.close(descriptor)
    files.sync_folder(home.root)


def _tombstone_of(files: Files, folder: Path) -> Tombstone | None:
    """Return the tombstone of the session in a folder; ``None`` if its header is gone."""
    try:
        with Journal(files, folder) as journal:
            header = journal.header.body if journal.header is not None else None
    except (OSError, DamagedJournal):
        return None
    if not isinstance(header, Header):
        return None
    return Tombstone(header.session, header.uid, timestamp(), header.key)


# A whole session


def erase_session(home: Home, session_id: str) -> None:
    """Remove a session for good, and what the trash has under its id.

    Raises:
        SessionLocked: a writer has it open; nothing was changed.
    """
    files, folder = home.files, home.folder(session_id)
    files.make_folders(home.trash)
    if is_real_folder(files, folder):
        lock = Lock.acquire(files, folder, __version__)
        try:
            _set_aside(home, folder)
            files.sync_folder(folder.parent)
        finally:
            lock.release()
    for entry in files.folders(home.trash):
        if entry.name.partition(".")[0] == session_id and entry.is_dir(follow_symlinks=False):
            _set_aside(home, Path(entry.path))
    finish_sessions(home)


def _set_aside(home: Home, folder: Path) -> None:
    home.files.rename(folder, home.trash / f"{GOING}{new_uid()}")
    home.files.sync_folder(home.trash)


def being_erased(home: Home) -> list[Path]:
    """Return the folders of sessions that are being erased."""
    return [
        Path(entry.path)
        for entry in home.files.folders(home.trash)
        if entry.name.startswith(GOING) and entry.is_dir(follow_symlinks=False)
    ]


def finish_sessions(home: Home) -> None:
    """Finish erasing the sessions whose folders were set aside."""
    for folder in being_erased(home):
        finish_session(home, folder)


def finish_session(home: Home, folder: Path) -> None:
    """Record that a session was erased, and remove its folder."""
    tombstone = _tombstone_of(home.files, folder)
    if tombstone is not None:
        record(home, tombstone)
    discard_caches(home)
    home.files.sync_folder(home.root)
    with suppress(FileNotFoundError):  # another process was at it
        home.files.remove_tree(folder)  # last: as long as it is there this is not finished
    home.files.sync_folder(home.trash)


def discard_caches(home: Home) -> None:
    """Remove the caches: they are made again from what is there."""
    for name in home.files.names(home.root):
        if _DATABASE.fullmatch(name):
            home.files.unlink(home.root / name)


# One entry


def begin(files: Files, folder: Path, erasure: Erasure) -> None:
    """Note durably what is about to be erased, so that the next opening finishes it."""
    files.publish(folder / ERASING_NAME, msgspec.json.encode(erasure))


def unfinished(files: Files, folder: Path) -> Erasure | None:
    """Return the erasure that was begun in a session and not finished."""
    try:
        data = files.read_small(folder / ERASING_NAME, _LARGEST_INTENT_BYTES)
        return msgspec.json.decode(data or b"", type=Erasure)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def finish(home: Home, folder: Path, header: Header, merged: int, erasure: Erasure) -> None:
    """Remove an entry from everything but the journal, which does not have it any more.

    ``merged`` is the number of the last file that was merged into the journal.
    """
    files = home.files
    tombstone = Tombstone(
        header.session, header.uid, timestamp(), header.key, erasure.seq, erasure.sum
    )
    record(home, tombstone)
    for name in files.names(folder):
        is_merged = 2 <= segment_number(name) <= merged
        if is_merged or name == INDEX_NAME or RUNS_NAME.fullmatch(name):  # hashes of ids
            files.unlink(folder / name)
    for below in (folder, *(folder / name for name in (ARCHIVE_NAME, BLOBS_NAME, DAMAGED_NAME))):
        if is_real_folder(files, below):
            for name in files.names(below):
                # What never got its name may have the entry; so may what repair set aside.
                if name.startswith(".") or below.name == DAMAGED_NAME:
                    files.unlink(below / name)
            if below.name == ARCHIVE_NAME:
                for name in files.names(below):
                    _rewrite_archive(files, below / name, erasure.seq)
            files.sync_folder(below)
    gone = unnamed(files, folder, erasure.blobs, except_in=ERASING_NAME)
    for path in gone:
        files.unlink(path)
    if gone:
        files.sync_folder(folder / BLOBS_NAME)
    discard_caches(home)
    files.sync_folder(home.root)
    files.unlink(folder / ERASING_NAME)
    files.sync_folder(folder)


def _rewrite_archive(files: Files, path: Path, seq: int) -> None:
    """Put a copy without an entry, and without marks, in an archive's place, if it has them."""
    temporary = path.with_name(f".{path.name}.{new_name()}")
    descriptor = files.open_append(temporary, create=True)
    try:
        with BoundedReader(files, path) as reader:
            content = lines(unpacked(reader.chunks(), "gzip"))
            changed = _compress(files, descriptor, _without(content, seq))
        files.sync(descriptor)
    except BaseException:
        files.unlink(temporary)
        raise
    finally:
        files.close(descriptor)
    if changed:
        files.rename(temporary, path)
    else:
        files.unlink(temporary)


def _without(content: Iterable[ReadLine], seq: int) -> Iterator[tuple[bytes, bool, bool]]:
    """Yield lines, whether each begins a file, and whether it stands for one that was left out."""
    chain: bytes | None = b""
    try:
        for line in content:
            data = line.data or b""
            entry = parse(data, None, 0, 1)
            if entry is None:
                yield b"", False, True  # not an entry: it could be what is left of this one
                chain = None
                # The first line of a file stands behind a torn end of the file before it.
                entry = parse(data[max(0, data.rfind(_BEGINNING)) :], None, 0, 1)
            if entry is None:
                continue
            begins = isinstance(entry.body, Header)
            if entry.seq == seq and not begins and entry.type != "gap":
                gap = _gap(entry, ERASED, chain)
            elif entry.type == "mark":
                gap = _gap(entry, "omission", chain)
            else:
                yield entry.line, begins, False
                chain = chain_after(entry)
                continue
            yield gap, False, True
            chain = chain_after(entry)
    except (BrokenPacking, TooMuch):
        yield b"", False, True  # what cannot be unpacked cannot be looked through


def _gap(entry: Entry, reason: str, chain: bytes | None) -> bytes:
    after = (chain_after(entry) or b"").decode(errors="replace")
    gap = Gap(reason, 0, 0, len(entry.line) + 1, None, None, after)
    parent = entry.parent if reason == ERASED else NO_PARENT_FIELD
    return seal(entry.seq, timestamp(), "gap", encode_body(gap)[0], chain or b"", parent)


def _compress(files: Files, target: int, content: Iterator[tuple[bytes, bool, bool]]) -> bool:
    """Write lines, each file as one member; return whether any was left out."""
    changed = False
    compressor = zlib.compressobj(1, wbits=31)
    waiting: list[bytes] = []
    size = 0
    is_first = True
    for line, begins, left_out in content:
        changed = changed or left_out
        if begins and not is_first:
            waiting.append(compressor.flush())
            compressor = zlib.compressobj(1, wbits=31)
        is_first = False
        if line:
            waiting.append(compressor.compress(line + b"\n"))
            size += len(waiting[-1])
        if size > _CHUNK_BYTES:
            files.write_all(target, b"".join(waiting))
            waiting, size = [], 0
    waiting.append(compressor.flush())
    files.write_all(target, b"".join(waiting))
    return changed
