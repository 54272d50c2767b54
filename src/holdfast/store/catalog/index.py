"""The cache behind listing: summaries in SQLite. It can be deleted at any time.

The files are the truth. A row counts only while inode, size and times of its journal are exactly
what they were when it was read, compared for equality, never for order. A row read within two
seconds of the journal's last change is read again next time, because a later change may carry the
same time stamp. What is on disk is listed whether or not it is in the cache or can be read; what
is only in the cache is not listed. One session, whatever is in it, never keeps the others from
being listed.

Writers never touch the index.

What the index keeps of one session, in values that SQLite takes and gives back.

Whatever another program wrote into a journal, a row either holds it unchanged or cannot be made:
making one raises before SQLite is asked.
"""

from __future__ import annotations

import sqlite3
import stat
import time
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from struct import Struct
from struct import error as StructError  # noqa: N812  a class, in lower case there
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import asdict

from holdfast.errors import DamagedJournal
from holdfast.files import Files, default_home
from holdfast.store.catalog.list_query import list_query
from holdfast.store.local.layout import (
    JOURNAL_NAME,
    LIVE_NAME,
    Home,
    os_errors,
    segment_name,
)
from holdfast.store.types import (
    CLEAN,
    DAMAGED,
    INTERRUPTED,
    RUNNING,
    Page,
    Summary,
    sort_time,
    stamp,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from holdfast.model.state import State
    from holdfast.store.local.reader import Journal

_VERSION = 5
_SETTLED_AFTER_NS = 2_000_000_000
_BUSY_SECONDS = 1.0
_SAVE_EVERY = 2000
_PRINT = Struct("Q3q")
_pack, _unpack = _PRINT.pack, _PRINT.unpack
_NEVER = b""  # a fingerprint that no file has
_SCHEMA = """
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        fingerprint BLOB NOT NULL,
        updated TEXT NOT NULL,
        workspace BLOB,
        project BLOB,
        key BLOB,
        turn_open INTEGER NOT NULL,
        has_live INTEGER NOT NULL,
        summary BLOB NOT NULL
    );
    CREATE INDEX fingerprints ON sessions (id, fingerprint);
    CREATE INDEX newest ON sessions (updated);
    CREATE INDEX keys ON sessions (key) WHERE key IS NOT NULL;
"""
_IN_MEMORY = ":memory:"
_NOT_NOW = frozenset(
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
_Seen = TypeVar("_Seen")


class _Where(NamedTuple):
    conditions: str
    values: list[Any]


class Index:
    """Summaries of all sessions of a home, refreshed from the files at each look."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def summaries(
        self,
        *,
        limit: int | None = None,
        workspace: str | None = None,
        projects: list[str] | None = None,
        since: str | None = None,
        until: str | None = None,
        key_prefix: str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Summary]:
        """Return summaries, last updated first."""
        where = _where(workspace, projects, since, until, key_prefix)
        return self._query(lambda connection: self._newest(connection, where, limit), progress)

    def page(
        self,
        *,
        limit: int | None,
        workspace: str | None = None,
        projects: list[str] | None = None,
        since: str | None = None,
        until: str | None = None,
        key_prefix: str | None = None,
    ) -> Page:
        """Return the same, and how many sessions there are beside."""
        place = _where(workspace, projects, key_prefix=key_prefix)
        both = _where(workspace, projects, since, until, key_prefix)

        def look(connection: sqlite3.Connection) -> Page:
            total = _count(connection, _where())
            placed = _count(connection, place) if place.values else total
            fitting = _count(connection, both) if both.values else total
            return Page(self._newest(connection, both, limit), fitting, placed, total)

        return self._query(look, None)

    def _newest(
        self, connection: sqlite3.Connection, where: _Where, limit: int | None
    ) -> list[Summary]:
        # Only our own words; values are bound.
        chosen = f"FROM sessions WHERE {where.conditions} ORDER BY updated DESC, id DESC LIMIT ?"
        values = [*where.values, -1 if limit is None else limit]
        query = f"SELECT summary, turn_open, has_live {chosen}"
        rows = connection.execute(query, values).fetchall()
        try:
            return [
                self._with_state(unpacked(data), turn_open=turn_open)
                if turn_open or has_live
                else unpacked(data)
                for data, turn_open, has_live in rows
            ]
        except Exception:  # noqa: BLE001  nothing that is in one row may hide the others
            query = f"SELECT id, summary, turn_open {chosen}"
            rows = connection.execute(query, values).fetchall()
        return [
            self._looked_at(connection, session_id, data, turn_open=turn_open)
            for session_id, data, turn_open in rows
        ]

    def _looked_at(
        self,
        connection: sqlite3.Connection,
        session_id: str,
        data: bytes,
        *,
        turn_open: bool,
    ) -> Summary:
        """Return what a row says; if that cannot be told, what the files say."""
        with suppress(Exception):
            return self._with_state(unpacked(data), turn_open=turn_open)
        folder = self._home.folder(session_id)
        row = self._examined(session_id, folder)
        self._save(connection, [row])
        try:
            return self._with_state(row.summary, turn_open=row.turn_open)
        except Exception as error:  # noqa: BLE001  as above
            return self._unforeseen(folder, error).summary

    def _query(
        self,
        look: Callable[[sqlite3.Connection], _Seen],
        progress: Callable[[int, int], None] | None,
    ) -> _Seen:
        """Refresh and look; if the cache is corrupt or cannot be used, do without it."""
        try:
            return self._ask(self._database(), look, progress)
        except sqlite3.Error as error:
            # Locked, full or read-only: somebody else needs it more. Anything else is corrupt.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _NOT_NOW:
                self._discard()
        return self._ask(_IN_MEMORY, look, progress)

    def _ask(
        self,
        database: str,
        look: Callable[[sqlite3.Connection], _Seen],
        progress: Callable[[int, int], None] | None,
    ) -> _Seen:
        with closing(sqlite3.connect(database, timeout=_BUSY_SECONDS)) as connection:
            _prepare(connection, self._home.whose())
            self._refresh(connection, progress)
            return look(connection)

    def _database(self) -> str:
        """Return the file to use; made here, because SQLite would let others read it."""
        files, path = self._home.files, self._home.index
        with suppress(OSError):  # it is there; or there is no home yet, or not ours to write
            files.close(files.open_append(path, create=True))
        with suppress(OSError):
            if stat.S_ISREG(files.status_of(path).st_mode):
                return str(path)
        return _IN_MEMORY

    def _discard(self) -> None:
        for suffix in ("", "-journal"):
            with suppress(OSError):
                self._home.files.unlink(Path(f"{self._home.index}{suffix}"))

    def _with_state(self, summary: Summary, *, turn_open: bool) -> Summary:
        """Tell running from interrupted, which only the lock and the live file know."""
        if summary.state != CLEAN:
            return summary
        from holdfast.store.local.lock import holder_of  # noqa: PLC0415  see _read

        folder = self._home.folder(summary.id)
        with suppress(OSError):  # deleted a moment ago, or nothing is streamed
            if turn_open or self._is_streaming(folder):
                held = holder_of(self._home.files, folder) is not None
                return msgspec.structs.replace(summary, state=RUNNING if held else INTERRUPTED)
        return summary

    def _is_streaming(self, folder: Path) -> bool:
        if self._home.files.status_of(f"{folder}/{LIVE_NAME}").st_size == 0:
            return False
        from holdfast.store.local.reader import Journal  # noqa: PLC0415  see _read
        from holdfast.store.read.resume import interrupted_streams  # noqa: PLC0415  as above

        with Journal(self._home.files, folder) as journal:
            return bool(interrupted_streams(journal))

    # Keeping in step

    def _refresh(
        self, connection: sqlite3.Connection, progress: Callable[[int, int], None] | None
    ) -> None:
        known: dict[str, bytes] = dict(connection.execute("SELECT id, fingerprint FROM sessions"))
        stale: list[tuple[str, str, bool]] = []
        status_of = self._home.files.status_of
        for entry in self._home.session_folders(known):
            fingerprint = known.pop(entry.name, None)
            is_folder = entry.is_dir(follow_symlinks=False)
            if fingerprint is not None and is_folder:
                try:
                    if _is_of(fingerprint, entry.path, status_of):
                        continue
                except (OSError, StructError):
                    pass
            stale.append((entry.name, entry.path, is_folder))
        if known:
            connection.executemany("DELETE FROM sessions WHERE id = ?", [(name,) for name in known])
        rows: list[SessionRow] = []
        for done, (name, path, is_folder) in enumerate(stale, 1):
            rows.append(self._examined(name, Path(path), is_folder=is_folder))
            if len(rows) >= _SAVE_EVERY:
                self._save(connection, rows)
                rows = []
            if progress is not None:
                progress(done, len(stale))
        self._save(connection, rows)

    def _examined(
        self, session_id: str, folder: Path, *, is_folder: bool | None = None
    ) -> SessionRow:
        try:
            if is_folder is None:  # not known: nobody has looked
                is_folder = self._home.has(session_id)
            return self._read(session_id, folder, is_folder=is_folder)
        except Exception as error:  # noqa: BLE001  nothing in one session may hide the others
            return self._unforeseen(folder, error)

    def _read(self, session_id: str, folder: Path, *, is_folder: bool) -> SessionRow:
        files, journal_path = self._home.files, folder / JOURNAL_NAME
        if not is_folder:
            return self._damaged(
                folder, [folder], "a symbolic link or a file, not a session folder"
            )
        # Most lists read nothing: these cost as much as asking ten thousand files whether they
        # have changed.
        from holdfast.store.local.provenance import provenance_of  # noqa: PLC0415  as told
        from holdfast.store.local.reader import Journal  # noqa: PLC0415  as told
        from holdfast.store.local.repair import inspect_tail  # noqa: PLC0415  as told
        from holdfast.store.read.resume import resume_state  # noqa: PLC0415  as told

        try:
            with Journal(files, folder) as journal:
                status = files.status(journal.segments[0].descriptor)
                journal.check_readable()
                tail = inspect_tail(journal)
                journal.last.end = tail.end
                opened = resume_state(journal)
                summary = _summary(session_id, opened.state, journal)
                if opened.damage:
                    places = ", ".join(str(piece.offset) for piece in opened.damage[:3])
                    problem = f"unreadable bytes at offset {places}"
                    summary = msgspec.structs.replace(summary, state=DAMAGED, problem=problem)
                # A session that claims a time in the future must not stay the newest.
                if summary.updated > stamp(datetime.now(UTC)):
                    written = datetime.fromtimestamp(min(status.st_mtime, time.time()), UTC)
                    summary = msgspec.structs.replace(summary, updated=stamp(written))
                if provenance_of(files, folder, self._home.origin_key).any_foreign:
                    summary = msgspec.structs.replace(summary, foreign=True)
                has_live = files.exists(f"{folder}/{LIVE_NAME}")
                statuses = [files.status(segment.descriptor) for segment in journal.segments]
                fingerprint = _journal_fingerprint(statuses, journal.segments[0].number)
        except DamagedJournal as error:
            return self._damaged(folder, [journal_path, folder], f"cannot be read: {error.kind}")
        except OSError as error:
            problem = f"cannot be read: {error.strerror}"
            return self._damaged(folder, [journal_path, folder], problem)
        newest_ns = max(each.st_mtime_ns for each in statuses)
        return row_of(
            summary,
            fingerprint if time.time_ns() - newest_ns > _SETTLED_AFTER_NS else _NEVER,
            turn_open=opened.state.turn_is_open,
            has_live=has_live,
        )

    def _unforeseen(self, folder: Path, error: Exception) -> SessionRow:
        # The error as code would write it: its message may quote what could not be held.
        return self._damaged(folder, [folder / JOURNAL_NAME, folder], f"cannot be read: {error!r}")

    def _damaged(self, folder: Path, dated_by: list[Path], problem: str) -> SessionRow:
        from holdfast.store.local.provenance import provenance_of  # noqa: PLC0415  see _read

        # Without a time it would come last in the list, and a limit would hide it.
        updated = ""
        for path in reversed(dated_by):
            with suppress(OSError, ValueError, OverflowError):  # a year that no datetime has
                status = self._home.files.status_of(path)
                updated = sort_time(stamp(datetime.fromtimestamp(status.st_mtime, UTC)))
        foreign = provenance_of(self._home.files, folder, self._home.origin_key).any_foreign
        summary = Summary(folder.name, DAMAGED, updated=updated, problem=problem, foreign=foreign)
        return row_of(summary, _NEVER, turn_open=False, has_live=False)

    def _save(self, connection: sqlite3.Connection, rows: list[SessionRow]) -> None:
        connection.executemany(
            "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [row.values for row in rows],
        )
        connection.commit()


def _where(
    workspace: str | None = None,
    projects: list[str] | None = None,
    since: str | None = None,
    until: str | None = None,
    key_prefix: str | None = None,
) -> _Where:
    """Return the conditions of a query."""
    conditions: list[str] = ["1"]
    values: list[Any] = []
    for condition, value in (
        ("workspace = ?", column(workspace)),
        ("updated >= ?", since),
        ("updated < ?", until),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    if projects is not None:
        conditions.append(f"project IN ({','.join('?' * len(projects))})")
        values += [column(project) for project in projects]
    if key_prefix is not None:
        first = key_prefix.encode("utf-8", "surrogatepass")
        # No byte of UTF-8 is 0xFF: every key with this prefix sorts before it. A range, not
        # ``substr``, so that SQLite uses its index.
        conditions.append("key IS NOT NULL AND key >= ? AND key < ?")
        values += [first, first + b"\xff"]
    return _Where(" AND ".join(conditions), values)


def _count(connection: sqlite3.Connection, where: _Where) -> int:
    query = f"SELECT COUNT(*) FROM sessions WHERE {where.conditions}"  # noqa: S608  only our own words; values are bound
    (number,) = connection.execute(query, where.values).fetchone()
    return int(number)


def _fingerprint(status: os.stat_result) -> bytes:
    """Return what tells one state of a file from another."""
    return _pack(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _journal_fingerprint(statuses: list[os.stat_result], first_number: int) -> bytes:
    """Return what tells one state of a journal from another: of each file, and of their numbers.

    For a journal of one file it has no number: most lists compare nothing else.
    """
    printed = b"".join(map(_fingerprint, statuses))
    return printed if len(statuses) == 1 else printed + _pack(first_number, 0, 0, 0)


def _is_of(fingerprint: bytes, folder: str, status_of: Callable[[str], os.stat_result]) -> bool:
    """Tell whether a fingerprint is that of the journal in a folder as it is now."""
    first = _fingerprint(status_of(f"{folder}/{JOURNAL_NAME}"))
    if len(fingerprint) <= len(first) or not fingerprint.startswith(first):
        return fingerprint == first
    count = len(fingerprint) // len(first) - 1
    (number, *_) = _unpack(fingerprint[-len(first) :])
    paths = [f"{folder}/{segment_name(number + place)}" for place in range(1, count + 1)]
    found = [first, *(_fingerprint(status_of(path)) for path in paths[:-1])]
    if b"".join(found) != fingerprint[: -len(first)]:
        return False
    try:
        status_of(paths[-1])
    except FileNotFoundError:
        return True
    return False  # it goes on in another file


def _prepare(connection: sqlite3.Connection, whose: int) -> None:
    """Make the tables, anew if they are another version's, machine's, user's or key's."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (made_by,) = connection.execute("PRAGMA application_id").fetchone()
    if (version, made_by) != (_VERSION, whose):
        connection.executescript("DROP TABLE IF EXISTS sessions;" + _SCHEMA)
        connection.execute(f"PRAGMA application_id = {whose}")
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    # A page that a power cut tore can look whole to SQLite, and hide or repeat a session.
    connection.execute("PRAGMA synchronous = FULL")


def _summary(session_id: str, state: State, journal: Journal) -> Summary:
    from holdfast.model.entry import Header  # noqa: PLC0415  see _read

    header = journal.header.body if journal.header is not None else None
    key = header.key if isinstance(header, Header) else None
    return Summary.of(session_id, state, key, journal.size_bytes)


def page_of_default_home(
    *,
    workspace: str | os.PathLike[str] | None = None,
    project: str | os.PathLike[str] | None = None,
    limit: int | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Page:
    """Return ``Store.page`` of the default home, without importing the rest of the store.

    That import takes longer than the list.
    """
    home = Home(Files(), default_home().absolute(), force=False)
    with os_errors(f"{home.root} cannot be listed", home.root):
        query = list_query(workspace, project, limit, since, until)
        return Index(home).page(**asdict(query))


_SUMMARY = msgspec.msgpack.Decoder(Summary)


class SessionRow(msgspec.Struct, frozen=True):
    """What the index knows of one session; ``values`` are its columns, in their order."""

    turn_open: bool
    has_live: bool
    summary: Summary
    values: tuple[Any, ...]


def row_of(summary: Summary, fingerprint: bytes, *, turn_open: bool, has_live: bool) -> SessionRow:
    """Return the row of a session whose journal had that fingerprint."""
    values = (
        summary.id,
        fingerprint,
        replace_surrogates(summary.updated),
        column(summary.workspace),
        column(summary.project),
        column(summary.key),
        turn_open,
        has_live,
        packed(summary),
    )
    return SessionRow(turn_open, has_live, summary, values)


def column(text: str | None) -> bytes | None:
    """Return text as it is compared: a path may have bytes that are not UTF-8."""
    return None if text is None else text.encode("utf-8", "surrogatepass")


def replace_surrogates(text: str) -> str:
    """Return text that SQLite takes: without halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def packed(summary: Summary) -> bytes:
    """Return a summary as bytes."""
    try:
        return msgspec.msgpack.encode(summary)
    except (UnicodeEncodeError, OverflowError):
        # A lone surrogate, or a number of more than 64 bits. The standard library's JSON holds
        # them, and unlike ours an infinite sum of costs beside them.
        import json  # noqa: PLC0415  few need it, and most lists have no time for it

        return json.dumps(msgspec.to_builtins(summary)).encode()


def unpacked(data: bytes) -> Summary:
    """Return the summary that was packed; what it raises if there is none in it may be anything."""
    if not data.startswith(b"{"):  # which no MessagePack object starts with
        return _SUMMARY.decode(data)
    import json  # noqa: PLC0415  as above

    return msgspec.convert(json.loads(data), Summary)
