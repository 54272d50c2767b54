"""Foreign SQLite databases: read without a trace, and without trust.

Even a reader leaves traces beside a database that has a write-ahead log, and without that log it
misses what was written last. So a database with a log is copied, and the copy is read. One without
is opened in place, as a file that does not change: SQLite then takes no lock and writes nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from holdfast.errors import ImportRejected
from holdfast.files import Files

_LARGEST_VALUE_BYTES = 64 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024
_STEPS_AT_ONCE = 1_000_000
_MOST_STEPS = 4_000_000_000  # of SQLite's virtual machine: minutes
_TRIES = 3
_LOGS = ("-wal", "-journal")


class Databases:
    """The database that is being read, and its copy if it needed one. One at a time is kept."""

    def __init__(self, files: Files, scratch: Callable[[], Path] | None = None) -> None:
        self._files = files
        self._scratch = scratch
        self._state: Any = None
        self._connection: sqlite3.Connection | None = None
        self._folder: Path | None = None

    def connection(self, path: Path) -> sqlite3.Connection:
        """Return a connection to read from; closed when another database is asked for.

        Raises:
            ImportRejected: it cannot be opened, or is no database.
        """
        state = (str(path), self._status(path), [self._status(each) for each in _logs(path)])
        if self._connection is None or state != self._state:
            self.close()
            self._connection = self._open(path)
            self._state = state
        return self._connection

    def _open(self, path: Path) -> sqlite3.Connection:
        if self._status(path) is None:
            raise ImportRejected(path, None, "it is empty, or not a regular file")
        logs = [each for each in _logs(path) if self._status(each)]
        where = path
        if logs and self._scratch is not None:
            where = self._copied(path, logs, self._scratch())
        option = "mode=ro&immutable=1" if where is path else "mode=rw"
        try:
            connection = sqlite3.connect(
                f"file:{quote(str(where.absolute()))}?{option}", uri=True, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise ImportRejected(path, None, f"it cannot be opened ({error})") from error
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE_BYTES)
        connection.text_factory = _text
        connection.set_progress_handler(_Steps(), _STEPS_AT_ONCE)
        with suppress(sqlite3.Error):  # what is no database says so when it is read
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA query_only = ON")
        return connection

    def _copied(self, path: Path, logs: list[Path], folder: Path) -> Path:
        """Copy a database with its logs, as they were at one moment."""
        self._folder = folder
        for _ in range(_TRIES):
            before = [self._status(path), *[self._mark(log) for log in logs]]
            for each in (path, *logs):
                self._copy(each, folder / each.name)
            if before == [self._status(path), *[self._mark(log) for log in logs]]:
                return folder / path.name
        self.close()
        raise ImportRejected(path, None, "another program keeps writing to it; try again later")

    def _copy(self, path: Path, target: Path) -> None:
        files = self._files
        files.unlink(target)
        try:
            source = files.open_read(path)
        except OSError as error:
            raise ImportRejected(path, None, f"it cannot be read ({error.strerror})") from error
        try:
            with closing(_Descriptor(files, files.open_append(target, create=True))) as copy:
                offset = 0
                while chunk := files.read_at(source, _CHUNK_BYTES, offset):
                    files.write_all(copy.number, chunk)
                    offset += len(chunk)
        finally:
            files.close(source)

    def _status(self, path: Path) -> tuple[int, int, int] | None:
        """Return what tells whether a file has changed; nothing if it is empty or none."""
        try:
            status = self._files.status_of(path)
        except OSError:
            return None
        regular = path.is_file() and not path.is_symlink()
        if not regular or not status.st_size:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _mark(self, log: Path) -> bytes:
        """Return the beginning of a log: it changes when the log starts anew."""
        with suppress(OSError):
            descriptor = self._files.open_read(log)
            try:
                return self._files.read_at(descriptor, 32, 0)
            finally:
                self._files.close(descriptor)
        return b""

    def close(self) -> None:
        """Let go of everything, and leave nothing."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._folder is not None:
            folder, self._folder = self._folder, None
            self._files.remove_tree(folder)
        self._state = None


class _Steps:
    """Ends a query that takes more steps than reading a database of any honest size does.

    A schema may make each row expensive, and nothing in the file's size tells.
    """

    def __init__(self) -> None:
        self._done = 0

    def __call__(self) -> bool:
        self._done += _STEPS_AT_ONCE
        return self._done > _MOST_STEPS


class _Descriptor:
    def __init__(self, files: Files, number: int) -> None:
        self._files = files
        self.number = number

    def close(self) -> None:
        self._files.close(self.number)


def tables(connection: sqlite3.Connection) -> set[str]:
    """Return the names of all tables; a view is none, and could be anything."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return {row[0] for row in found if isinstance(row[0], str)}


def columns(connection: sqlite3.Connection, table: str) -> set[str]:
    """Return the names of a table's columns."""
    with suppress(sqlite3.Error):
        found = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
        return {row[0] for row in found if isinstance(row[0], str)}
    return set()


def rows(connection: sqlite3.Connection, query: str, *values: Any) -> Iterator[dict[str, Any]]:
    """Yield what a query finds, a row at a time."""
    with closing(connection.cursor()) as cursor:
        try:
            cursor.execute(query, values)
        except UnicodeDecodeError as error:
            raise sqlite3.DatabaseError("a column's name is not text") from error
        names = [each[0] for each in cursor.description]
        for row in cursor:
            yield dict(zip(names, row, strict=True))


def _logs(path: Path) -> list[Path]:
    return [path.with_name(path.name + ending) for ending in _LOGS]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
