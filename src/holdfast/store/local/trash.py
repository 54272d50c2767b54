"""Deletion that can be undone: a session folder is moved, never removed.

The writer's lock is taken first, so nobody's running session disappears under them. The name in
the trash carries a unique part: a key may be used, deleted and used again.
"""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import DamagedJournal, SessionLocked, SessionNotFound, UsageError
from holdfast.model.ids import SESSION_ID, check_part, new_uid
from holdfast.store.local.erasure import GOING, being_erased, check_not_erased, finish_session
from holdfast.store.local.lock import Lock, holder_of
from holdfast.store.local.reader import Journal
from holdfast.store.types import DAMAGED, Deleted, stamp
from holdfast.version import __version__

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from holdfast.store.local.layout import Home


_GOING = ".going-"


def move_to_trash(home: Home, folder: Path) -> Path:
    """Move a session to the trash; return where it is now.

    Raises:
        SessionLocked: somebody is writing to it.
    """
    lock = Lock.acquire(home.files, folder, __version__)
    try:
        home.files.make_folders(home.trash)
        target = home.trash / f"{folder.name}.{new_uid()}"
        home.files.rename(folder, target)
        try:
            # First where it is now: a power cut may leave it in both places, never in none.
            home.files.sync_folder(home.trash)
            home.files.sync_folder(folder.parent)
        except OSError:
            home.files.rename(target, folder)  # whoever is told that it failed finds it there
            raise
    finally:
        lock.release()
    return target


def restore(home: Home, wanted: str) -> str:
    """Bring the last deleted session of that id (or unique part) back; return its id."""
    part = check_part(wanted)
    found = [entry for entry in _deleted(home) if part in _id_of(entry)]
    ids = {_id_of(entry) for entry in found}
    if len(ids) != 1:
        what = "No session" if not ids else f"More than one session ({len(ids)})"
        raise SessionNotFound(f"{what} with {part!r} in its id is in the trash.")
    (session_id,) = ids
    # ctime changes with the rename into the trash: the last deleted one comes back.
    newest = max(found, key=lambda entry: entry.stat(follow_symlinks=False).st_ctime_ns)
    with suppress(DamagedJournal), Journal(home.files, Path(newest.path)) as journal:
        check_not_erased(home, journal)
    home.publish(Path(newest.path), session_id)
    home.files.sync_folder(home.trash)
    return session_id


def deleted(home: Home) -> list[Deleted]:
    """Return what is in the trash, last deleted first."""
    found = []
    for entry in _deleted(home):
        with suppress(FileNotFoundError):  # restored a moment ago
            status = entry.stat(follow_symlinks=False)
            at = datetime.fromtimestamp(status.st_ctime_ns / 1e9, UTC)
            found.append(Deleted(_id_of(entry), entry.path, stamp(at)))
    return sorted(found, key=lambda each: (each.at, each.id), reverse=True)


def erase(home: Home, gone: Deleted) -> None:
    """Remove a deleted session for good.

    Raises:
        UsageError: it is not in the trash.
    """
    if all(each.path != gone.path for each in _deleted(home)):
        raise UsageError(f"{gone.path} is not in the trash.")
    # First out of sight: half a session is never listed, nor restored.
    home.files.rename(Path(gone.path), home.trash / f"{_GOING}{new_uid()}")
    home.files.sync_folder(home.trash)
    finish_erasing(home)


def half_erased(home: Home) -> list[Path]:
    """Return what is left of sessions whose removal for good was cut off by a crash."""
    return being_erased(home) + [
        Path(entry.path)
        for entry in home.files.folders(home.trash)
        if entry.name.startswith(_GOING) and entry.is_dir(follow_symlinks=False)
    ]


def finish_erasing(home: Home) -> None:
    """Remove what is left of sessions that were to be removed for good."""
    for folder in half_erased(home):
        finish_removing(home, folder)


def finish_removing(home: Home, folder: Path) -> None:
    """Remove what is left of one of them."""
    if folder.name.startswith(GOING):
        finish_session(home, folder)
        return
    with suppress(FileNotFoundError):  # somebody else was at it
        home.files.remove_tree(folder)


def deleted_ids(home: Home) -> set[str]:
    """Return the ids of all sessions in the trash."""
    return {_id_of(entry) for entry in _deleted(home)}


def _deleted(home: Home) -> Iterator[os.DirEntry[str]]:
    for entry in home.files.folders(home.trash):
        if SESSION_ID.fullmatch(_id_of(entry)) and entry.is_dir(follow_symlinks=False):
            yield entry


def _id_of(entry: os.DirEntry[str]) -> str:
    return entry.name.partition(".")[0]


if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.store.local.layout import Home
    from holdfast.store.types import Summary

_ABANDONED_AFTER_NS = 3600 * 1_000_000_000


def move_all_to_trash(home: Home, summaries: Iterable[Summary]) -> int:
    """Move sessions to the trash, except those that are damaged or in use; return how many."""
    moved = 0
    for summary in summaries:
        if summary.state != DAMAGED:
            with suppress(SessionLocked, FileNotFoundError):
                move_to_trash(home, home.folder(summary.id))
                moved += 1
    return moved


def discard_abandoned(home: Home) -> None:
    """Remove what was left of sessions whose making was cut off before any acknowledgement."""
    for folder in home.abandoned(time.time_ns() - _ABANDONED_AFTER_NS):
        if holder_of(home.files, folder) is None:
            home.files.remove_tree(folder)
