"""Whether a cache of ours is a database that can be read, and has what it says it has.

Looking leaves no trace. A database that nobody has open is read as if it could not change; then
SQLite makes no files beside it. Where such files are, somebody writes or has died writing, and they
belong to what is read.
"""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from holdfast.store.search.text_index import DOCUMENT_BITS, NAME, VERSION

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.files import Files

BESIDE = ("-journal", "-wal", "-shm")
"""How the names of files end that SQLite keeps beside a database."""

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_RANGE = f"BETWEEN number << {DOCUMENT_BITS} AND (number + 1 << {DOCUMENT_BITS}) - 1"
_LACKING = (
    "SELECT count(*) FROM sessions WHERE "  # noqa: S608  only our own words
    f"documents != (SELECT count(*) FROM documents WHERE id {_RANGE}) OR "
    f"documents != (SELECT count(*) FROM texts_docsize WHERE id {_RANGE})"
)


def problem_of(files: Files, path: Path) -> str | None:
    """Return what is wrong with a database, ``None`` if nothing is or somebody is writing to it."""
    file, *beside = before = _found(files, path)
    if file is not None and not file.is_regular:
        return "not a regular file"  # SQLite would wait at a pipe
    is_still = not any(beside)
    problem = _problem(path, "immutable=1" if is_still else "mode=ro")
    if problem is not None and is_still and _found(files, path) != before:
        return None  # somebody has begun to write: it was not what it was taken for
    return problem


class _File(NamedTuple):
    """What changes when a file is written to; that it was read is no change."""

    is_regular: bool
    inode: int
    size: int
    modified_ns: int


def _found(files: Files, path: Path) -> list[_File | None]:
    found: list[_File | None] = []
    for suffix in ("", *BESIDE):
        try:
            status = files.status_of(f"{path}{suffix}")
        except OSError:
            found.append(None)
        else:
            regular = stat.S_ISREG(status.st_mode)
            found.append(_File(regular, status.st_ino, status.st_size, status.st_mtime_ns))
    return found


def _problem(path: Path, how: str) -> str | None:
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True)) as connection:
            (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if said == "ok":
                return _lacking(connection) if path.name == NAME else None
    except sqlite3.Error as error:
        busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY
        return None if busy else str(error)
    return str(said)


def _lacking(connection: sqlite3.Connection) -> str | None:
    """Tell whether the full-text index has lost some of what it has noted for its sessions."""
    if connection.execute("PRAGMA user_version").fetchone() != (VERSION,):
        return None  # it is made anew when it is next used
    (sessions,) = connection.execute(_LACKING).fetchone()
    return (
        f"messages are missing of {sessions} session{'s' * (sessions != 1)}" if sessions else None
    )
