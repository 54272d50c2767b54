"""Deletion that can be undone: a session folder is moved, never removed.

The writer's lock is taken first, so nobody's running session disappears under them. The name in
the trash carries a unique part: a key may be used, deleted and used again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import SessionNotFound
from holdfast.journal.lock import Lock
from holdfast.model.ids import SESSION_ID, check_part, new_uid
from holdfast.version import __version__

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from holdfast.store.home import Home


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
    home.publish(Path(newest.path), session_id)
    home.files.sync_folder(home.trash)
    return session_id


def _deleted(home: Home) -> Iterator[os.DirEntry[str]]:
    for entry in home.files.folders(home.trash):
        if SESSION_ID.fullmatch(_id_of(entry)) and entry.is_dir(follow_symlinks=False):
            yield entry


def _id_of(entry: os.DirEntry[str]) -> str:
    return entry.name.partition(".")[0]
