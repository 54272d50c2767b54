"""Originals that are not needed any more get another name. None is ever removed or overwritten."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct, field

from holdfast.journal.files import Files

SUFFIX = ".migrated"


class Original(Struct):
    """A file as it was before it was read, and the sessions that it has become."""

    path: str
    inode: int = 0
    size_bytes: int = 0
    modified_ns: int = 0
    sessions: list[str] = field(default_factory=list)
    agent: str | None = None

    def is_unchanged(self, status: os.stat_result) -> bool:
        """Tell whether nobody has written to it since."""
        there = (status.st_ino, status.st_size, status.st_mtime_ns)
        return there == (self.inode, self.size_bytes, self.modified_ns)


def rename_all(files: Files, originals: list[Original]) -> tuple[dict[str, str], dict[str, str]]:
    """Rename what has not changed; return new names, and why others keep theirs."""
    names: dict[str, str] = {}
    refused: dict[str, str] = {}
    for original in originals:
        try:
            name = _renamed(files, original)
        except FileNotFoundError:
            continue  # a migration that died had done it
        except OSError as error:
            refused[original.path] = f"could not be renamed ({error.strerror})"
            continue
        if name is None:
            refused[original.path] = "was written to meanwhile and keeps its name: migrate it again"
        else:
            names[original.path] = name
    for folder in sorted({Path(path).parent for path in names}):
        try:
            files.sync_folder(folder)
        except OSError as error:
            for path in names:
                if Path(path).parent == folder:
                    refused[path] = f"was renamed, but that may not last ({error.strerror})"
    return names, refused


def _renamed(files: Files, original: Original) -> str | None:
    """Rename one file; ``None`` if somebody has written to it."""
    path = Path(original.path)
    if not original.is_unchanged(files.status_of(path)):
        return None
    target = _free_name(files, path)
    files.rename(path, target)
    if not original.is_unchanged(files.status_of(target)):
        files.rename(target, path)  # its agent has it open: it would write where nobody looks
        return None
    return str(target)


def _free_name(files: Files, path: Path) -> Path:
    target, number = path.with_name(path.name + SUFFIX), 1
    while files.exists(target):
        number += 1
        target = path.with_name(f"{path.name}{SUFFIX}.{number}")
    return target
