"""Sessions as folders of files: the default backend."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack
from weakref import WeakSet

import msgspec

from holdfast.errors import (
    DamagedJournal,
    SessionExists,
    SessionLocked,
    SessionNotFound,
    UsageError,
)
from holdfast.journal.appender import Place
from holdfast.journal.lock import Lock, probe
from holdfast.journal.names import segment_name
from holdfast.journal.numbering import Cursor
from holdfast.journal.reader import Journal
from holdfast.journal.repair import examine, lowest_unused_seq, set_aside
from holdfast.model.codec import encode_body
from holdfast.model.entry import FORMAT, Entry, ForkedFrom, Header, Meta, Unknown
from holdfast.model.ids import (
    SESSION_ID,
    check_part,
    is_keyed,
    key_session_id,
    new_session_id,
    new_uid,
)
from holdfast.model.state import State
from holdfast.store.blobs import BLOBS_NAME, blobs_of
from holdfast.store.branch import walk
from holdfast.store.contract import (
    DAMAGED,
    Compression,
    Deleted,
    Leftovers,
    Migration,
    Page,
    Recovery,
    Report,
    Summary,
    stamp,
)
from holdfast.store.home import Home, discard_folder
from holdfast.store.leftovers import leftovers, size_of
from holdfast.store.listing import folder_named, page_of, projects_named
from holdfast.store.opening import interrupted_streams, read_state
from holdfast.store.packing import is_packed, pack_all, unpack_all, unpack_folder
from holdfast.store.receiving import Receiving
from holdfast.store.recorder import Recorder
from holdfast.store.refusals import os_errors
from holdfast.store.rewrite import Copy, kept_by_fork
from holdfast.store.search import Hit
from holdfast.store.session import Session
from holdfast.store.staging import Staging
from holdfast.store.trash import (
    deleted,
    deleted_ids,
    erase,
    finish_erasing,
    half_erased,
    move_to_trash,
    restore,
)
from holdfast.store.verify import verify
from holdfast.version import __version__

if TYPE_CHECKING:
    import os
    from types import TracebackType
    from typing import Self

    from holdfast.journal.files import Files
    from holdfast.journal.repair import Tail
    from holdfast.store.batch import Batch
    from holdfast.store.checkup import Checkup
    from holdfast.store.conditions import Where
    from holdfast.store.documents import Activity

    Activities = list[Activity]

_TEMPORARY = re.compile(r"\.(?:journal(?:\.\d+)?|live)\.jsonl\.[a-z2-9]{8}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ABANDONED_AFTER_NS = 3600 * 1_000_000_000

Mode = Literal["write", "read"]
Moment = datetime | timedelta | float
Hits = list[Hit]
Trash = list[Deleted]  # ``list`` is a method of the store
Migrate = Callable[..., Migration]


class LocalStore:
    """All sessions below one home folder. Any number of processes may use it at once."""

    def __init__(
        self, files: Files, root: Path, *, force: bool = False, migration: Migrate | None = None
    ) -> None:
        self._home = Home(files, root, force=force)
        self._migration = migration
        self._open: WeakSet[Session] = WeakSet()

    @property
    def path(self) -> Path:
        """The home folder."""
        return self._home.root

    # Making and opening

    def create(
        self,
        *,
        workspace: str | os.PathLike[str] | None = None,
        session_id: str | None = None,
        **meta: Any,
    ) -> Session:
        """Return a new session. Nothing is on disk before its first append.

        Args:
            workspace: the folder the session is about; its git project is recorded with it.
            session_id: an id of your own in the usual shape; a fresh one if not given.
            meta: facts such as provider, model, title, tags.
        """
        if session_id is None:
            session_id = new_session_id()
        elif not SESSION_ID.fullmatch(check_part(session_id)) or is_keyed(session_id):
            raise UsageError(f"{session_id!r} is not of the shape 20261115-194012-k3v9q2ab.")
        elif self._home.has(session_id):
            raise SessionExists(f"Session {session_id} exists already; open it instead.")
        return self._new(session_id, None, workspace, meta)

    def _new(
        self,
        session_id: str,
        key: str | None,
        workspace: str | os.PathLike[str] | None,
        meta: dict[str, Any],
    ) -> Session:
        if workspace is not None:
            from holdfast.store.project import workspace_path  # noqa: PLC0415  subprocess is slow

            meta = {"workspace": workspace_path(workspace), **meta}
        header = Header(FORMAT, session_id, new_uid(), key)
        meta = _with_project(meta)
        encode_body(Meta(meta))  # what cannot be stored is refused now, not at the first append
        recorder = Recorder(self._home, header, State(), first_meta=lambda: meta)
        return self._opened(Session(self._home, session_id, recorder=recorder, new_meta=meta))

    def open(self, id: str | os.PathLike[str], mode: Mode = "write") -> Session:
        """Open a session by id, a unique part of one, or path.

        ``mode="write"`` takes the lock, repairs the end of the journal if a crash tore it, and
        keeps what was being streamed; ``session.recovery`` says what was done. ``mode="read"``
        changes nothing, works beside a writer, and is a snapshot of this moment. A session of a
        newer format is opened read-only.

        Raises:
            SessionNotFound: there is none.
            SessionLocked: somebody else is writing to it; says who.
            DamagedJournal: nothing in it can be read.
        """
        _check_mode(mode)
        return self._open_folder(self._resolved(id), mode)

    def _resolved(self, id: str | os.PathLike[str]) -> Path:
        with os_errors(f"{self.path} cannot be searched for it", self.path):
            return self._home.resolve(id)

    def session(self, key: str, mode: Mode = "write", **meta: Any) -> Session:
        """Open the session of a caller's own key, or return a new one for it."""
        _check_mode(mode)
        session_id = key_session_id(key)
        if self._home.has(session_id):
            return self._open_folder(self._home.folder(session_id), mode, key)
        if mode == "read":
            raise SessionNotFound(f"There is no session with the key {key!r}.")
        return self._new(session_id, key, meta.pop("workspace", None), meta)

    def _open_folder(self, folder: Path, mode: Mode, key: str | None = None) -> Session:
        with os_errors(f"{folder} cannot be opened", folder):
            if mode == "read":
                return self._open_read(folder, key)
            return self._open_write(folder, key)

    def _open_read(self, folder: Path, key: str | None) -> Session:
        journal = Journal(self._home.files, folder)
        try:
            return self._opened(self._read_session(journal, key))
        except BaseException:
            journal.close()
            raise

    def _read_session(self, journal: Journal, key: str | None) -> Session:
        folder = journal.folder
        journal.check_readable()
        header = _header(journal, key)
        journal.last.end = examine(journal).end
        for segment in journal.segments:
            with suppress(OSError):  # what we show, no power cut takes back; but show it
                self._home.files.sync(segment.descriptor)
        opened = read_state(journal)
        if header.format > FORMAT:  # also if a mark hides the header from the fold
            opened.state.unsupported = f"format {header.format}"
        held = probe(self._home.files, folder) is not None
        recovery = Recovery(
            damage=opened.damage,
            interrupted=[] if held else interrupted_streams(journal),
            edited=opened.edited,
            unverified=opened.unverified,
            files=len(journal.segments),
        )
        return Session(
            self._home, folder.name, journal=journal, state=opened.state, recovery=recovery
        )

    def _open_write(self, folder: Path, key: str | None) -> Session:
        files = self._home.files
        self._home.check_local(folder)
        with Journal(files, folder) as journal:  # before a lock file is made for nothing
            journal.check_readable()
        lock = Lock.acquire(files, folder, __version__)
        try:
            return self._open_locked(folder, lock, key)
        except BaseException:
            lock.release()
            raise

    def _open_locked(self, folder: Path, lock: Lock, key: str | None) -> Session:
        files = self._home.files
        with Journal(files, folder) as journal:
            if unpack_all(journal):
                return self._open_locked(folder, lock, key)
            journal.check_readable()
            header = _header(journal, key)
            tail = examine(journal)
            journal.last.end = tail.end
            opened = read_state(journal)
            if header.format > FORMAT or opened.state.unsupported is not None:
                lock.release()
                return self._open_read(folder, key)
            aside = [set_aside(files, folder, journal.last, tail)] if tail.torn_bytes else []
            next_seq = max(tail.next_seq, lowest_unused_seq(files, folder))
            recovery = Recovery(
                set_aside=aside,
                damage=opened.damage,
                interrupted=interrupted_streams(journal),
                edited=opened.edited,
                unverified=opened.unverified,
                newline_added=tail.newline_missing,
                files=len(journal.segments),
            )
            place = _place(files, journal, lock, tail)
        cursor = Cursor(
            tail.last_seq, next_seq, tail.chain, opened.state.head, opened.since_mark_bytes
        )
        recorder = Recorder(
            self._home,
            header,
            opened.state,
            place=place,
            cursor=cursor,
            damage=opened.damage,
        )
        recorder.recover(recovery.interrupted)
        return self._opened(Session(self._home, folder.name, recorder=recorder, recovery=recovery))

    def _opened(self, session: Session) -> Session:
        session.attach(forget=self._open.discard, fork=self._fork)
        self._open.add(session)
        return session

    def _fork(self, source: Session, journal: Journal, at: int | None) -> Session:
        branch = list(walk(journal, at, []))
        # A head that cannot be read is like any parent that cannot: the walk found what stands in.
        if at not in (None, source.state.head) and not (branch and branch[0].seq == at):
            raise UsageError(f"There is no message or checkpoint numbered {at} to fork at.")
        numbers = {entry.seq for entry in branch}
        labels = {name: to for name, to in source.state.labels.items() if to in numbers}
        head = next((entry.seq for entry in branch if entry.type != "turn"), None)
        header = Header(FORMAT, new_session_id(), new_uid(), forked_from=ForkedFrom(source.id, at))
        copy = Copy(
            journal,
            header,
            kept_by_fork(numbers),
            lambda state: msgspec.structs.replace(state, head=head, labels=labels),
        )
        blobs = journal.folder / BLOBS_NAME
        names = {name for entry in branch for name in blobs_of(entry.body)}
        # A name that is no hash comes from somebody else and could lead anywhere.
        links = [blobs / name for name in sorted(names) if _SHA256.fullmatch(name)]
        with os_errors(f"{source.id} cannot be forked", self._home.root):
            place = self._home.make_session(header.session, copy.chunks(), [], links)
        self._home.files.close(place.descriptor)
        place.lock.release()
        return self.open(header.session)

    def stage(self, session_id: str, *, started: str, **header: Any) -> Staging:
        """Return a session to be filled with a conversation that took place elsewhere.

        Nobody sees it before ``publish``; then it is there whole and durable. If that never
        happens, nothing is left of it.

        Args:
            session_id: its id, in the usual shape.
            started: when it began, as times stand in entries.
            header: further fields of its header.
        """
        return Staging(self._home, Header(FORMAT, session_id, new_uid(), **header), started)

    def receive(self, session_id: str) -> Receiving:
        """Return a session to be copied from elsewhere, file by file.

        Nobody sees it before ``publish``; if that never happens, nothing is left of it.
        """
        return Receiving(self._home, session_id)

    def batch(self) -> Batch:
        """Return the store as it will be: what is staged there is published all at once.

        Raises:
            StorageError: somebody else has one open.
        """
        from holdfast.store.batch import Batch  # noqa: PLC0415  it is made of this class

        return Batch(self._home)

    def migrate(
        self,
        path: str | os.PathLike[str],
        *,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Migration:
        """Take over the sessions of a legacy store for good: its files are renamed ``….migrated``.

        All sessions are staged, synced and published before the first file is renamed. What cannot
        be read is left, and reported. If this store cannot be written, everything stays as it was.
        The same call again, after a crash for example, goes on from there.

        Args:
            path: a folder of sessions, or one file.
            dry_run: only tell what would be done.
            progress: called with bytes read and bytes to read.

        Raises:
            UsageError: there is nothing of that name, or it is this store itself.
            StorageError: the target failed; says why.
        """
        if self._migration is None:
            raise UsageError("This store cannot migrate: open it with holdfast.open_store().")
        return self._migration(self, path, dry_run=dry_run, progress=progress)

    def has_unfinished_batch(self) -> bool:
        """Tell whether a batch was published whose process died before it was done."""
        from holdfast.store.batch import is_unfinished  # noqa: PLC0415  as above

        with os_errors(f"{self.path} cannot be read", self.path):
            return is_unfinished(self._home)

    def scratch(self) -> Path:
        """Make a folder for what has to be on disk for a while and is no session.

        Whoever asked for it removes it; ``cleanup`` removes what was forgotten.
        """
        with os_errors(f"{self.path} cannot be written", self.path):
            return self._home.make_folder()

    def find(self, id: str | os.PathLike[str]) -> Path:
        """Return the folder of a session by id, a unique part of one, or path; opens nothing.

        Raises:
            SessionNotFound: there is none.
        """
        return self._resolved(id)

    # Many sessions

    def ids(self) -> set[str]:
        """Return the ids of all sessions that are there, without opening any."""
        with os_errors(f"{self.path} cannot be listed", self.path):
            return {entry.name for entry in self._home.session_folders()}

    def deleted_ids(self) -> set[str]:
        """Return the ids of all sessions in the trash."""
        with os_errors(f"{self.path} cannot be listed", self.path):
            return deleted_ids(self._home)

    def list(
        self,
        *,
        workspace: str | os.PathLike[str] | None = None,
        project: str | os.PathLike[str] | None = None,
        limit: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Summary]:
        """Return summaries, last updated first. Every session on disk is in it, damaged or not.

        Args:
            workspace: only sessions of this folder.
            project: only sessions of this git project, wherever its folder was: an identity as
                recorded, or a folder of the project.
            limit: at most so many.
            since: updated at this time or later.
            until: updated before this time.
            progress: called with sessions read and sessions to read, while the index is rebuilt.
        """
        if limit is not None and (not isinstance(limit, int) or limit < 0):
            raise UsageError(f"limit is a number of sessions, not {limit!r}.")
        with os_errors(f"{self.path} cannot be listed", self.path):
            from holdfast.store.index import Index  # noqa: PLC0415  sqlite3 costs 5 ms

            return Index(self._home).summaries(
                workspace=folder_named(workspace),
                projects=projects_named(project),
                limit=limit,
                since=None if since is None else stamp(since),
                until=None if until is None else stamp(until),
                progress=progress,
            )

    def page(
        self,
        *,
        workspace: str | os.PathLike[str] | None = None,
        project: str | os.PathLike[str] | None = None,
        limit: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Page:
        """Return summaries as ``list`` does, with how many there are that it leaves out."""
        return page_of(
            self._home,
            workspace=workspace,
            project=project,
            limit=limit,
            since=since,
            until=until,
        )

    def search(
        self,
        text: str,
        *,
        limit: int = 50,
        order: Literal["newest", "rank"] = "newest",
        substring: bool | None = None,
        once: bool = False,
        progress: Callable[[int, int], None] | None = None,
        **where: Unpack[Where],
    ) -> Hits:
        """Return messages and titles that have all words of ``text``, regardless of case.

        A phrase in double quotes has to occur as it is. Whole words come before the beginnings of
        words. The index is brought up to date first; what it cannot take is read from the files.

        Args:
            text: words, and phrases in double quotes. There are no operators.
            limit: at most so many.
            order: sessions that were updated last first, or what is most about the words first.
            substring: also what is inside of words, which means reading all files; if not given,
                only when nothing is found otherwise.
            once: of each session only the first message.
            progress: called with what is done and what there is to do: bytes while the index grows,
                then sessions while files are read.
            where: conditions; see ``Where`` in ``holdfast.store.conditions``.
        """
        if not isinstance(limit, int) or limit < 0:
            raise UsageError("limit is a number of results, 0 or more.")
        if order not in ("newest", "rank"):
            raise UsageError(f"order is 'newest' or 'rank', not {order!r}.")
        with os_errors(f"{self.path} cannot be searched", self.path):
            # SQLite costs 5 ms.
            from holdfast.store.conditions import conditions  # noqa: PLC0415  as above
            from holdfast.store.finding import Asked, Search  # noqa: PLC0415  as above
            from holdfast.store.textindex import TextIndex  # noqa: PLC0415  as above
            from holdfast.store.wanted import Wanted  # noqa: PLC0415  as above

            asked = Asked(
                Wanted(text),
                conditions(where),
                limit,
                order == "newest",
                substring,
                once,
                progress,
            )
            return TextIndex(self._home).ask(Search(self._home, asked).run, progress)

    def activity(self, *, progress: Callable[[int, int], None] | None = None) -> Activities:
        """Return what happened in all sessions, by quarters of an hour, oldest first.

        ``progress`` is called with bytes read and bytes to read, while the index grows.
        """
        with os_errors(f"{self.path} cannot be read", self.path):
            from holdfast.store.activity import activities  # noqa: PLC0415  SQLite costs 5 ms
            from holdfast.store.textindex import TextIndex  # noqa: PLC0415  as above

            return TextIndex(self._home).ask(partial(activities, self._home), progress)

    def delete(self, id: str | os.PathLike[str]) -> str:
        """Move a session to the trash and return its id; ``restore`` brings it back.

        Raises:
            SessionLocked: somebody is writing to it.
        """
        folder = self._resolved(id)
        if not self._home.owns(folder):
            raise UsageError(f"{folder} is not a session of {self.path}; delete it by hand.")
        with os_errors(f"{folder} cannot be deleted", folder):
            move_to_trash(self._home, folder)
        return folder.name

    def restore(self, id: str) -> str:
        """Bring a deleted session back and return its id."""
        with os_errors(f"{id} cannot be restored", self.path):
            return restore(self._home, id)

    def deleted(self) -> Trash:
        """Return what is in the trash, last deleted first."""
        with os_errors(f"{self.path} cannot be listed", self.path):
            return deleted(self._home)

    def erase(self, gone: Deleted) -> None:
        """Remove a deleted session for good; nothing brings it back.

        Raises:
            UsageError: it is not in the trash.
        """
        with os_errors(f"{gone.path} cannot be removed", self.path):
            erase(self._home, gone)

    def half_erased(self, *, remove: bool = False) -> Leftovers:
        """Count what crashes left of sessions that were being erased; with ``remove`` remove it."""
        with os_errors(f"{self._home.trash} cannot be emptied", self._home.trash):
            found = half_erased(self._home)
            size_bytes = sum(size_of(self._home.files, folder) for folder in found)
            if remove:
                finish_erasing(self._home)
            return Leftovers(len(found), size_bytes)

    def size_bytes(self, session: str | Deleted) -> int:
        """Return how much room a session takes, with everything in its folder."""
        folder = Path(session.path) if isinstance(session, Deleted) else self._resolved(session)
        with os_errors(f"{folder} cannot be read", folder):
            return size_of(self._home.files, folder)

    def leftovers(self, id: str, *, remove: bool = False) -> Leftovers:
        """Count the blobs of a session that nothing names, and with ``remove`` remove them.

        Blobs that are younger than an hour stay, and all blobs of a session that is damaged.

        Raises:
            SessionLocked: somebody is writing to it.
        """
        folder = self._resolved(id)
        with os_errors(f"{folder} cannot be searched", folder):
            return leftovers(self._home.files, folder, remove=remove)

    def cleanup(self, older_than: Moment) -> int:
        """Move sessions that were last updated before a time to the trash; return how many.

        ``older_than`` is an age (``timedelta``, or seconds) or a point in time. Sessions that are
        being written, or that are damaged, stay.
        """
        limit = _point_in_time(older_than)
        moved = 0
        with os_errors(f"{self.path} cannot be cleaned up", self.path):
            for summary in self.list(until=limit):
                if summary.state != DAMAGED:
                    with suppress(SessionLocked, FileNotFoundError):
                        move_to_trash(self._home, self._home.folder(summary.id))
                        moved += 1
            self._discard_abandoned()
        return moved

    def _discard_abandoned(self) -> None:
        """Remove what was left of sessions whose making was cut off before any acknowledgement."""
        for folder in self._home.abandoned(time.time_ns() - _ABANDONED_AFTER_NS):
            if probe(self._home.files, folder) is None:
                discard_folder(self._home.files, folder)

    def verify(
        self,
        id: str | os.PathLike[str],
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> Report:
        """Read a whole session and report every problem; changes nothing."""
        folder = self._resolved(id)
        with os_errors(f"{folder} cannot be read", folder):
            return verify(self._home.files, folder, progress)

    def compress(self, id: str | os.PathLike[str]) -> Compression:
        """Compress the journal of a session that is not in use; it stays listed and searchable.

        It can be read as before, and is unpacked when it is opened for writing.

        Raises:
            SessionLocked: somebody is writing to it.
            StorageError: there is no package for zstd, or it cannot be written; it is as it was.
        """
        folder = self._resolved(id)
        with os_errors(f"{folder} cannot be compressed", folder):
            return pack_all(self._home.files, folder)

    def is_compressed(self, id: str | os.PathLike[str]) -> bool:
        """Tell whether the whole journal of a session is compressed."""
        folder = self._resolved(id)
        with os_errors(f"{folder} cannot be read", folder):
            return is_packed(self._home.files, folder)

    def decompress(self, id: str | os.PathLike[str]) -> Compression:
        """Unpack the journal of a session, as opening it for writing does."""
        folder = self._resolved(id)
        with os_errors(f"{folder} cannot be unpacked", folder):
            return unpack_folder(self._home.files, folder)

    def checkup(
        self, *, fix: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> Checkup:
        """Return what goes through everything there is and yields what is wrong, one by one.

        Args:
            fix: do something about it, where something can be done; nothing is lost by that.
            progress: called with bytes read and bytes to read.
        """
        from holdfast.store.checkup import Checkup  # noqa: PLC0415  few need it

        return Checkup(self._home, self.open, fix=fix, progress=progress)

    # Closing

    def close(self) -> None:
        """Close every session that was opened here; an error of one does not keep the others."""
        with ExitStack() as stack:
            for session in list(self._open):
                stack.callback(session.close)

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    async def __aenter__(self) -> Self:
        """Return the store."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Close without blocking the event loop."""
        import asyncio  # noqa: PLC0415  whoever is here has it

        await asyncio.to_thread(self.close)


def _check_mode(mode: str) -> None:
    if mode not in ("write", "read"):
        raise UsageError(f"mode is 'write' or 'read', not {mode!r}.")


def _point_in_time(older_than: Moment) -> datetime:
    """Return the time before which a session is old."""
    if isinstance(older_than, datetime):
        return older_than
    try:
        age = older_than if isinstance(older_than, timedelta) else timedelta(seconds=older_than)
        return datetime.now(UTC) - age
    except (TypeError, ValueError, OverflowError):
        raise UsageError(
            f"{older_than!r} is neither a time nor an age (a timedelta, or seconds) within reach."
        ) from None


def _place(files: Files, journal: Journal, lock: Lock, tail: Tail) -> Place:
    """Open the journal's last file for appending, and remove what crashes left beside it."""
    folder, last = journal.folder, journal.last
    for name in files.names(folder):
        if _TEMPORARY.fullmatch(name):  # never got its name
            files.unlink(folder / name)
    for number in range(2, journal.segments[0].number + 1):
        files.unlink(folder / segment_name(number))  # merged by a compaction
    descriptor = files.open_append(last.path)
    try:
        # What the last writer had written, made or renamed and not synced is relied on from now.
        files.sync(descriptor)
        for made in (folder, folder.parent, folder.parent.parent):
            files.sync_folder(made)
    except OSError:
        files.close(descriptor)
        raise
    lock.note_durable(last.inode, tail.end)
    return Place(
        folder,
        lock,
        last.path,
        descriptor,
        last.inode,
        last.number,
        tail.end,
        tail.newline_missing,
    )


def _with_project(meta: dict[str, Any]) -> dict[str, Any]:
    """Return what a new session records about itself, its project included."""
    workspace = meta.get("workspace")
    if isinstance(workspace, str) and "project" not in meta:
        from holdfast.store.project import project_of  # noqa: PLC0415  subprocess is slow

        project = project_of(workspace)
        if project is not None:
            return {**meta, "project": project}
    return meta


def _header(journal: Journal, key: str | None) -> Header:
    """Return the journal's header, or what it must have said if it cannot be read."""
    header = journal.header.body if journal.header is not None else None
    if not isinstance(header, Header):
        return Header(_declared_format(journal), journal.folder.name, "", key)
    if key is not None and header.key != key:
        raise DamagedJournal(journal.segments[0].path, 0, f"the session of key {header.key!r}")
    return header


def _declared_format(journal: Journal) -> int:
    """Return the format that a header of an unknown shape declares."""
    first = next(journal.records(), None)
    body = first.body if isinstance(first, Entry) else None
    fields = body.fields if isinstance(body, Unknown) else None
    declared = fields.get("format") if fields else None
    return declared if isinstance(declared, int) and declared > FORMAT else FORMAT
