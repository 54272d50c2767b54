"""Restoring syncs no folder: after a power cut a restored session is in the trash."""

from __future__ import annotations

from pathlib import Path

from holdfast.store.local import trash
from holdfast.store.local.layout import Home
from holdfast.store.local.trash import deleted

CAUGHT_BY = ("B",)
VARIANT = "moved"


def apply() -> None:
    def restore(home: Home, wanted: str) -> str:
        found = next(each for each in deleted(home) if wanted in each.id)
        home.files.rename(Path(found.path), home.folder(found.id))
        return found.id

    trash.restore = restore  # the defect itself
