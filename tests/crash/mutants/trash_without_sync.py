"""Deleting syncs no folder: after a power cut a deleted session is back."""

from __future__ import annotations

from pathlib import Path

from holdfast.model.ids import new_uid
from holdfast.store.local import trash
from holdfast.store.local.layout import Home
from holdfast.store.local.lock import Lock
from holdfast.version import __version__

CAUGHT_BY = ("B",)
VARIANT = "moved"


def apply() -> None:
    def move(home: Home, folder: Path) -> Path:
        lock = Lock.acquire(home.files, folder, __version__)
        try:
            home.files.make_folders(home.trash)
            target = home.trash / f"{folder.name}.{new_uid()}"
            home.files.rename(folder, target)
        finally:
            lock.release()
        return target

    trash.move_to_trash = move  # the defect itself
