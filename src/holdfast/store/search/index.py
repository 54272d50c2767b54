"""The cache behind search: SQLite's full-text index over all sessions. Delete it at any time.

The files are the truth. Before each look they are compared with what was read of them, as the list
does; what has changed is read again, and of a journal that only grew, only what is new (see
``indexer``). The index says where to look; what is found is read from its file.

The texts themselves are not kept here, so that the index is a third of their size. SQLite cannot
take out of such an index what it is not told again: documents that are gone are left out, and once
they are more than half of it the index is made anew.
"""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from holdfast.store.local.layout import JOURNAL_NAME
from holdfast.store.search.indexer import (
    NEVER,
    ONE_FILE_BYTES,
    IndexChanged,
    Indexer,
    Stale,
    data_version,
    fingerprint,
    printed,
)
from holdfast.store.search.schema import SCHEMA, TABLES, VERSION

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from holdfast.store.local.layout import Home

NAME = "search.db"
_BUSY_SECONDS = 2.0
_CACHE_KIB = 16 * 1024
_MOST_WASTE = 10_000
_TRIES = 3
NOT_NOW = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_PERM,
    }
)
_Answer = TypeVar("_Answer")


class TextIndex:
    """The index of one home."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._path = home.root / NAME

    def ask(
        self,
        look: Callable[[sqlite3.Connection | None, list[Stale]], _Answer],
        progress: Callable[[int, int], None] | None = None,
    ) -> _Answer:
        """Bring the index up to date and look into it.

        ``look`` is also given the sessions that the index does not have as they are now, because
        somebody else keeps it busy or there is no room; if it cannot be used at all, that is every
        session, and there is no connection.
        """
        for _ in range(_TRIES):
            try:
                with closing(self._connected()) as connection:
                    left = self._brought_up(connection, progress)
                    return look(connection, left)
            except sqlite3.Error as error:
                if _is_not_now(error):
                    break
                self._discard()
            except (msgspec.MsgspecError, UnicodeDecodeError):
                self._discard()
        return look(None, self._everything())

    def _connected(self) -> sqlite3.Connection:
        files = self._home.files
        # Made here, because SQLite would let others read it.
        with suppress(OSError):  # it is there; or there is no home yet, or not ours to write
            files.close(files.open_append(self._path, create=True))
        try:
            usable = stat.S_ISREG(files.status_of(self._path).st_mode)
        except OSError:
            usable = False
        if not usable:
            raise _unusable()
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            _prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _discard(self) -> None:
        for suffix in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):
                self._home.files.unlink(Path(f"{self._path}{suffix}"))

    # Keeping in step

    def _brought_up(
        self, connection: sqlite3.Connection, progress: Callable[[int, int], None] | None
    ) -> list[Stale]:
        while True:
            seen = data_version(connection)
            stale, gone = self._changed(connection)
            if not stale and not gone:
                return []
            try:
                Indexer(self._home.files, connection, seen, progress).run(stale, gone)
            except IndexChanged:
                continue
            except sqlite3.Error as error:
                if not _is_not_now(error):
                    raise
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                return stale
            if not _is_wasteful(connection):
                return []
            connection.execute("BEGIN IMMEDIATE")
            _make_anew(connection)
            connection.execute("COMMIT")

    def _changed(self, connection: sqlite3.Connection) -> tuple[list[Stale], list[int]]:
        """Return the sessions to be read, and the numbers of those that are gone."""
        known: dict[str, bytes] = dict(connection.execute("SELECT id, fingerprint FROM sessions"))
        there = known.copy()
        stale: list[Stale] = []
        status_of = self._home.files.status_of
        for entry in self._home.session_folders(known):
            name = entry.name
            before = known.pop(name, NEVER)
            try:
                status = status_of(f"{entry.path}/{JOURNAL_NAME}")
                if not entry.is_dir(follow_symlinks=False):
                    raise NotADirectoryError
            except OSError:  # there is nothing to be read
                if name in there:
                    known[name] = before
                continue
            if before != printed(status) and not self._is_same(connection, entry, before):
                number = _number(connection, name) if name in there else None
                stale.append(Stale(name, Path(entry.path), status.st_size, number))
        return stale, [_number(connection, name) for name in known]

    def _is_same(
        self, connection: sqlite3.Connection, entry: os.DirEntry[str], before: bytes
    ) -> bool:
        """Look at all files of a session that has several."""
        if len(before) <= ONE_FILE_BYTES:
            return False
        (names,) = connection.execute(
            "SELECT files FROM sessions WHERE id = ?", (entry.name,)
        ).fetchone()
        with suppress(OSError):
            return before == fingerprint(self._home.files, entry.path, names)
        return False

    def _everything(self) -> list[Stale]:
        return [
            Stale(entry.name, Path(entry.path))
            for entry in self._home.session_folders()
            if entry.is_dir(follow_symlinks=False)
        ]


def _number(connection: sqlite3.Connection, session_id: str) -> int:
    (number,) = connection.execute(
        "SELECT number FROM sessions WHERE id = ?", (session_id,)
    ).fetchone()
    return int(number)


def _unusable() -> sqlite3.Error:
    error = sqlite3.OperationalError("there is no place for an index")
    error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
    return error


def _is_not_now(error: sqlite3.Error) -> bool:
    """Tell whether the index is busy, or there is no room; else it is broken."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in NOT_NOW


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    if _version(connection) != VERSION:
        # Readers go on while somebody writes. A power cut costs the last steps and nothing else.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        if _version(connection) != VERSION:  # nobody else has done it meanwhile
            _make_anew(connection)
        connection.execute("COMMIT")
    connection.execute("PRAGMA synchronous = NORMAL")


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _make_anew(connection: sqlite3.Connection) -> None:
    for name in TABLES:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
    for statement in SCHEMA.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _is_wasteful(connection: sqlite3.Connection) -> bool:
    (waste,) = connection.execute("SELECT documents FROM waste").fetchone()
    if waste <= _MOST_WASTE:
        return False
    (live,) = connection.execute("SELECT total(documents) FROM sessions").fetchone()
    return bool(waste > live)
