"""Sessions that nobody has used for long take less room: their journals are packed.

One file at a time goes from one form to the other, and either form is the whole truth, so it does
not matter where a crash ends it. The lock is held throughout.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holdfast.model.ids import new_name
from holdfast.store.local.compressed import pack, unpack
from holdfast.store.local.layout import DAMAGED_NAME
from holdfast.store.local.lock import Lock
from holdfast.store.local.reader import Journal
from holdfast.store.local.sparse_copy import copy_file
from holdfast.store.types import Compression
from holdfast.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.files import Files


def pack_all(files: Files, folder: Path) -> Compression:
    """Pack every journal file of a session that is not packed.

    Raises:
        DamagedJournal: nothing in it can be read.
        SessionLocked: somebody is writing to it.
        OSError: it could not be done; what was packed before stays so, and nothing is lost.
    """
    with Journal(files, folder) as journal:  # before a lock file is made for nothing
        journal.check_readable()
    lock = Lock.acquire(files, folder, __version__)
    try:
        with Journal(files, folder) as journal:
            before, after = journal.size_bytes, 0
            for segment in journal.segments:
                if segment.packed is None:
                    after += pack(files, segment.path)[1]
                else:
                    after += files.status(segment.descriptor).st_size
        return Compression(before, after)
    finally:
        lock.release()


def is_packed(files: Files, folder: Path) -> bool:
    """Tell whether there is nothing left to pack."""
    with Journal(files, folder) as journal:
        return all(segment.packed is not None for segment in journal.segments)


def unpack_folder(files: Files, folder: Path) -> Compression:
    """Unpack every journal file of a session; raises as ``pack_all`` does."""
    with Journal(files, folder):
        pass
    lock = Lock.acquire(files, folder, __version__)
    try:
        with Journal(files, folder) as journal:
            before = sum(files.status(each.descriptor).st_size for each in journal.segments)
            unpack_all(journal)
            return Compression(before, journal.size_bytes)
    finally:
        lock.release()


def unpack_all(journal: Journal) -> bool:
    """Unpack the files of an open journal in their places; tell whether there were any.

    The caller holds the lock, and opens the journal again. Of a file that is damaged the packed one
    is kept in ``damaged/``.
    """
    packed = [segment for segment in journal.segments if segment.packed is not None]
    for segment in packed:
        unpack(journal.files, segment.path, partial(_keep, journal.files, segment.path))
    return bool(packed)


def _keep(files: Files, path: Path) -> None:
    """Give a packed journal that is damaged a second name, or copy it, before it is replaced."""
    folder = path.parent / DAMAGED_NAME
    files.make_real_folder(folder)
    files.sync_folder(path.parent)
    kept = folder / f"{path.name}.{new_name()}.zst"
    try:
        files.link(path, kept)
    except OSError:
        copy_file(files, path, kept)
    files.sync_folder(folder)
