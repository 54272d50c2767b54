"""Programs that this package itself starts: found by absolute path, outside the workspace.

A folder of the workspace may be on ``PATH`` (``node_modules/.bin``, an empty entry, a link), and a
file named ``bash`` or ``git`` in it is not the program that is meant. So entries of ``PATH`` that
are relative, or lead into a folder that is to be avoided, are not used. The repository around such
a folder is avoided with it. The system's own folders always count: a workspace may be ``/``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_SYSTEM_FOLDERS = ("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin")
Folder = str | os.PathLike[str]


def find_program(name: str, avoid: Iterable[Folder]) -> str | None:
    """Return the absolute path of a program outside of folders, ``None`` if there is none."""
    avoided = _with_repositories(avoid)
    for folder in _entries(avoided):
        file = f"{folder}/{name}"
        if Path(file).is_file() and os.access(file, os.X_OK):
            real = os.path.realpath(file)
            if _is_systems_own(_parent(real)) or not _is_inside(real, avoided):
                return file
    return None


def path_outside(avoid: Iterable[Folder]) -> str:
    """Return ``PATH`` without the entries that are relative or lead into these folders."""
    return os.pathsep.join(_entries(_with_repositories(avoid)))


def current_folder() -> list[str]:
    """Return the folder that this process is in, to be avoided; nothing if it was removed."""
    try:
        return [os.getcwd()]  # noqa: PTH109  a path as text
    except OSError:
        return []


def _entries(avoided: list[str]) -> tuple[str, ...]:
    """Return the folders of ``PATH`` that may be used; the system's own if none is left."""
    found: dict[str, None] = {}
    for entry in os.environ.get("PATH", "").split(os.pathsep):
        if entry.startswith("/"):
            real = os.path.realpath(entry)
            if _is_systems_own(real) or not _is_inside(real, avoided):
                found[entry] = None
    return tuple(found) or _SYSTEM_FOLDERS


def _is_systems_own(real: str) -> bool:
    return any(real == os.path.realpath(folder) for folder in _SYSTEM_FOLDERS)


def _with_repositories(folders: Iterable[Folder]) -> list[str]:
    """Return the real paths of folders, and of the git repositories that they are in."""
    found: list[str] = []
    for folder in folders:
        above = os.path.realpath(os.fspath(folder))
        found.append(above)
        while above != "/":
            if os.path.lexists(f"{above}/.git"):
                found.append(above)
            above = _parent(above)
    return found


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _is_inside(path: str, folders: Iterable[str]) -> bool:
    return any(f"{path}/".startswith(f"{folder.rstrip('/')}/") for folder in folders)
