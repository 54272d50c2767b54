"""The cache behind search: SQLite's full-text index over all sessions. Delete it at any time.

The files are the truth. Before each look they are compared with what was read of them, as the list
does; what has changed is read again, and of a journal that only grew, only what is new (see
``indexer``). The index says where to look; what is found is read from its file.

The texts themselves are not kept here, so that the index is a third of their size. SQLite cannot
take out of such an index what it is not told again: documents that are gone are left out, and once
they are more than half of it the index is made anew.

Another version of the tables means another index. A document's id is made of its session's number
and its place in that session, so the documents of a session are one range. ``texts`` holds no
texts, only where their words are; ``facets`` are the numbers of names, written ``n1``. ``upto``,
``crc`` and ``tail`` say how much of a journal was read, and whether that part is unchanged;
``memory`` is the reader's. ``waste`` counts documents that are gone.
"""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing, suppress
from pathlib import Path
from struct import Struct as Packing
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct

from holdfast.store.local.layout import JOURNAL_NAME

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from holdfast.files import Files
    from holdfast.store.local.layout import Home

NAME = "search.db"
VERSION = 2
DOCUMENT_BITS = 32
_TABLES = ("sessions", "documents", "names", "activity", "waste", "texts")
NEVER = b""  # a fingerprint that no file has
_PRINT = Packing("4q")
_pack = _PRINT.pack
ONE_FILE_BYTES = _PRINT.size
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
_SCHEMA = """
    CREATE TABLE sessions (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        fingerprint BLOB NOT NULL DEFAULT x'',
        files TEXT NOT NULL,
        inode INTEGER NOT NULL DEFAULT 0,
        upto INTEGER NOT NULL DEFAULT 0,
        crc INTEGER NOT NULL DEFAULT 0,
        tail BLOB NOT NULL DEFAULT x'',
        documents INTEGER NOT NULL DEFAULT 0,
        updated TEXT NOT NULL DEFAULT '',
        memory BLOB NOT NULL,
        facts BLOB
    );
    CREATE INDEX fingerprints ON sessions (id, fingerprint);
    CREATE INDEX newest ON sessions (updated, id);
    CREATE TABLE documents (
        id INTEGER PRIMARY KEY,
        seq INTEGER NOT NULL,
        file INTEGER NOT NULL,
        offset INTEGER NOT NULL,
        length INTEGER NOT NULL,
        at TEXT NOT NULL,
        tool INTEGER,
        model INTEGER
    );
    CREATE TABLE names (
        number INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        name BLOB NOT NULL,
        UNIQUE (kind, name)
    );
    CREATE TABLE activity (
        session INTEGER NOT NULL,
        at TEXT NOT NULL,
        model INTEGER NOT NULL,
        requests NOT NULL,
        input NOT NULL,
        output NOT NULL,
        cache_read NOT NULL,
        cache_write NOT NULL,
        cost_usd NOT NULL,
        unpriced NOT NULL,
        messages NOT NULL,
        prompts NOT NULL,
        turns NOT NULL,
        PRIMARY KEY (session, at, model)
    ) WITHOUT ROWID;
    CREATE TABLE waste (documents INTEGER NOT NULL);
    INSERT INTO waste VALUES (0);
    CREATE VIRTUAL TABLE texts USING fts5 (
        text, facets, content = '', tokenize = 'unicode61 remove_diacritics 0'
    );
"""
_Answer = TypeVar("_Answer")


class Stale(Struct):
    """A session of which the index does not have everything."""

    id: str
    folder: Path
    size_bytes: int = 0
    number: int | None = None


class IndexChanged(Exception):
    """Another process has written to the index: what is left to do has to be looked up again."""


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
            from holdfast.store.search.indexer import Indexer  # noqa: PLC0415  rarely needed

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


def fingerprint(files: Files, folder: str | Path, names: str) -> bytes:
    """Return what tells one state of a session's files from another."""
    return b"".join(printed(files.status_of(f"{folder}/{name}")) for name in names.split("/"))


def printed(status: os.stat_result) -> bytes:
    """Return what tells one state of a file from another."""
    return _pack(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def data_version(connection: sqlite3.Connection) -> int:
    """Return a number that changes when somebody else writes."""
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)


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
    for name in _TABLES:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
    for statement in _SCHEMA.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _is_wasteful(connection: sqlite3.Connection) -> bool:
    (waste,) = connection.execute("SELECT documents FROM waste").fetchone()
    if waste <= _MOST_WASTE:
        return False
    (live,) = connection.execute("SELECT total(documents) FROM sessions").fetchone()
    return bool(waste > live)
