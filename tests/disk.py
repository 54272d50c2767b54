"""The disk as tests see it: everything below a folder, and a file system that saves time."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from holdfast.files import Files


def snapshot(folder: Path) -> dict[str, tuple[int, int, int, bytes | str]]:
    """Return all that is below a folder: type and mode, inode, time of change, content.

    Two equal snapshots mean that nothing was written, made, removed, renamed or touched.
    """
    found = {}
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.lstat()
        content: bytes | str = b""
        if stat.S_ISREG(status.st_mode):
            content = path.read_bytes()
        elif stat.S_ISLNK(status.st_mode):
            content = os.readlink(path)
        name = str(path.relative_to(folder))
        found[name] = (status.st_mode, status.st_ino, status.st_mtime_ns, content)
    return found


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder that belongs to a session, but for the lock."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


class FakeUnsyncedFiles(Files):
    """Does everything but sync: for tests that look at bytes a thousand times over."""

    def sync(self, descriptor: int) -> None:
        pass

    def sync_folder(self, folder: Path) -> None:
        pass


class FakeQuickFiles(FakeUnsyncedFiles):
    """Leaves out all that costs time and changes no byte."""

    def reserve(self, descriptor: int, offset: int, length: int) -> bool:
        return False

    def network_file_system(self, path: Path) -> str | None:
        return None
