"""File systems for mutants: they leave a sync out, or make it before there is anything to sync."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.files import Files


class Unsynced:
    """Does as another file system does, but syncs no file."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def __getattr__(self, name: str) -> Any:
        """Do all else as it is done."""
        return getattr(self._files, name)

    def sync(self, descriptor: int) -> None:
        """Do nothing."""


class SyncedTooEarly(Unsynced):
    """Syncs a new file when it is made, and not after it was written."""

    def open_append(self, path: Path, *, create: bool = False) -> int:
        """Open a file; sync it now."""
        descriptor = self._files.open_append(path, create=create)
        self._files.sync(descriptor)
        return descriptor
