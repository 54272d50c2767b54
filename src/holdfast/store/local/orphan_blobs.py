"""Blobs that nothing names any more: what a crash left between a blob and its entry.

A blob counts as named if its name stands anywhere in any other file of the session: in the journal
and its continuations, in what compactions archived, in what repair set aside, in a running stream.
Whatever the line means, or whether it can be read as one, makes no difference; so a kind of entry
that is invented tomorrow is safe too. Where a file cannot be read to its end, or the journal has
damage that may have held a name, everything stays.

A blob is written before the entry that names it. So the lock is taken, and whatever is younger
than an hour is left alone.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import StorageError
from holdfast.journal.bounded import BoundedReader, BrokenPacking, TooMuch, unpacked
from holdfast.journal.damage import Damage
from holdfast.store.local.blobs import BLOBS_NAME
from holdfast.store.local.compressed import MAGIC, CompressedFile
from holdfast.store.local.layout import is_real_folder
from holdfast.store.local.lock import LOCK_NAME, Lock
from holdfast.store.local.reader import Journal
from holdfast.store.local.repair import inspect_tail
from holdfast.store.types import Leftovers
from holdfast.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.files import Files

_NAME_CHARACTERS = 64
_DIGITS = re.compile(rb"[0-9a-f]{64,}")
_MOST_NAMES = 10_000_000  # looked up in one file
_BLOB = re.compile(r"[0-9a-f]{64}|\.[0-9a-f]{64}\.[a-z2-9]{8}")  # or what never got its name
_PACKED = (".zst", ".xz", ".bz2")
_YOUNG_NS = 3600 * 1_000_000_000


def leftovers(files: Files, folder: Path, *, remove: bool) -> Leftovers:
    """Count the blobs of a session that nothing names, and with ``remove`` remove them.

    Raises:
        SessionLocked: somebody is writing to it.
    """
    before_ns = time.time_ns() - _YOUNG_NS
    if not any(_old_blobs(files, folder, before_ns)):
        return Leftovers()
    lock = Lock.acquire(files, folder, __version__)
    try:
        old = dict(_old_blobs(files, folder, before_ns))
        kept = _doubt(files, folder)
        if kept is None:
            kept = _without_named(files, folder, old)
        if kept is not None:
            return Leftovers(kept=kept)
        if remove and old:
            for path in old:
                files.unlink(path)
            files.sync_folder(folder / BLOBS_NAME)
        return Leftovers(len(old), sum(old.values()))
    finally:
        lock.release()


def unnamed(files: Files, folder: Path, names: Iterable[str], except_in: str) -> list[Path]:
    """Return the blobs among ``names`` that no file of a session names but ``except_in``.

    Raises:
        StorageError: a file cannot be read, so that it cannot be told.
    """
    paths = {folder / BLOBS_NAME / name: 0 for name in names if _BLOB.fullmatch(name)}
    if not paths:
        return []
    kept = _without_named(files, folder, paths, except_in)
    if kept is not None:
        raise StorageError(f"The blobs of {folder} cannot be removed: {kept}.")
    return sorted(paths)


def size_of(files: Files, folder: Path) -> int:
    """Return the size of all files in a folder; a second name of a file counts like the first."""
    total = 0
    folders = [folder]
    for each in folders:  # it grows: there may be more folders in folders than calls in calls
        for entry in files.folders(each):
            if entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))
            else:
                with suppress(FileNotFoundError):  # removed while we look
                    total += entry.stat(follow_symlinks=False).st_size
    return total


def _old_blobs(files: Files, folder: Path, before_ns: int) -> Iterator[tuple[Path, int]]:
    if not is_real_folder(files, folder / BLOBS_NAME):
        return  # what a link leads to is not ours to remove
    for entry in files.folders(folder / BLOBS_NAME):
        if _BLOB.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
            status = entry.stat(follow_symlinks=False)
            if status.st_mtime_ns < before_ns:
                yield Path(entry.path), status.st_size


def _doubt(files: Files, folder: Path) -> str | None:
    """Return why names may be missing from a journal, ``None`` if it is whole."""
    with Journal(files, folder) as journal:
        journal.check_readable()
        journal.last.end = inspect_tail(journal).end
        if any(isinstance(record, Damage) for record in journal.records()):
            return "its journal is damaged"
    return None


def _without_named(
    files: Files, folder: Path, old: dict[Path, int], except_in: str = ""
) -> str | None:
    """Take out of ``old`` what is named; return what could not be read, if anything."""
    by_name = {path.name.encode(): path for path in old}
    for path in _others(files, folder):
        if path.name == except_in:
            continue
        if path.name.endswith(_PACKED):
            return f"{path.name} cannot be searched"
        try:
            for name in _names(files, path):
                named = by_name.pop(name, None)
                if named is not None:
                    del old[named]
        except (OSError, BrokenPacking, TooMuch) as error:
            return f"{path.name} cannot be read ({error})"
    return None


def _others(files: Files, folder: Path) -> Iterator[Path]:
    """Yield every file of a session that is not a blob."""
    folders = [folder]
    for each in folders:
        for entry in files.folders(each):
            if entry.name in (BLOBS_NAME, LOCK_NAME):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))
            else:
                yield Path(entry.path)


def _names(files: Files, path: Path) -> Iterator[bytes]:
    """Yield everything that may be the name of a blob; one may begin within another."""
    rest, left = b"", _MOST_NAMES
    for chunk in _chunks(files, path):
        whole = rest + chunk
        for found in _DIGITS.finditer(whole):
            digits = found[0]
            left -= len(digits)
            if left < 0:
                raise TooMuch("it has too many possible names of blobs")
            for start in range(len(digits) - _NAME_CHARACTERS + 1):
                yield digits[start : start + _NAME_CHARACTERS]
        rest = whole[1 - _NAME_CHARACTERS :]


def _chunks(files: Files, path: Path) -> Iterator[bytes]:
    with BoundedReader(files, path) as reader:
        if files.read_at(reader.descriptor, len(MAGIC), 0) == MAGIC:  # a journal, compressed
            yield from CompressedFile(files, reader.descriptor).pieces()
        elif path.suffix == ".gz":
            yield from unpacked(reader.chunks(), "gzip")
        else:
            yield from reader.chunks()
