"""All sessions of one store, on any medium.

The store makes sessions and opens them, and closes with itself whatever of them is still open.
Nothing is stored before the first append to a session. What can be done with sessions that need not
be open (list, search, delete, verify) is asked of the medium, behind ``backend``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload
from weakref import WeakSet

from holdfast.errors import SessionExists, SessionLocked, SessionNotFound, UsageError
from holdfast.model.entry import FORMAT, Header
from holdfast.model.ids import (
    SESSION_ID,
    check_part,
    is_keyed,
    key_session_id,
    new_session_id,
    new_uid,
)
from holdfast.model.state import State
from holdfast.store.catalog.list_query import list_query
from holdfast.store.read.copies import Relatives
from holdfast.store.session import Session
from holdfast.store.types import (
    Compression,
    Deleted,
    Erased,
    ForkOptions,
    Hit,
    Leftovers,
    Migration,
    Page,
    Provenance,
    Report,
    Summary,
    Tombstone,
)
from holdfast.store.validation import Moment, point_in_time, stored_facts, with_project
from holdfast.store.write.fork import fork
from holdfast.store.write.recorder import Recorder

if TYPE_CHECKING:
    import os
    from types import TracebackType
    from typing import Self

    from holdfast.model.lock_holder import Holder
    from holdfast.store.backend import (
        Backend,
        FolderWork,
        Log,
        LogWriter,
        Opened,
        ReceivedFiles,
        Ref,
        StagedSession,
        StoreLock,
    )
    from holdfast.store.doctor.checkup import Checkup
    from holdfast.store.local.bulk_publish import Batch
    from holdfast.store.search.documents import Activity
    from holdfast.store.search.query import FilterArgs
    from holdfast.store.write.erase import Erasure

    Activities = list[Activity]

Mode = Literal["write", "read"]
Migrate = Callable[..., Migration]
Hits = list[Hit]
Trash = list[Deleted]  # ``list`` is a method of the store
Tombstones = list[Tombstone]
Ids = list[str]


class Store:
    """All sessions of one store. Any number of processes may use it at once."""

    def __init__(self, backend: Backend, *, migration: Migrate | None = None) -> None:
        self._backend = backend
        self._migration = migration
        self._writing: set[Session] = set()  # until they are closed, whether referred to or not
        self._reading: WeakSet[Session] = WeakSet()

    def __repr__(self) -> str:
        """Return where the store is."""
        return f"<Store at {self.location}>"

    @property
    def path(self) -> Path:
        """The home folder.

        Raises:
            UsageError: the store is not in a folder.
        """
        return _folder(self._backend.location)

    @property
    def location(self) -> str:
        """Where the store is, for messages: a folder, or a URL."""
        return str(self._backend.location)

    @property
    def local_folder(self) -> Path:
        """A folder of this machine for sockets, locks and logs of runners; it may not exist yet.

        The home folder, if the store is in one; a temporary folder, if it is in memory.
        """
        return self._backend.local_folder

    @property
    def is_shared(self) -> bool:
        """Whether other processes can open the same sessions."""
        return self._backend.is_shared

    @property
    def _folder_work(self) -> FolderWork:
        work = self._backend.folder_work
        if work is None:
            raise UsageError(f"Only a store in a folder can do this, not {self.location}.")
        return work

    def find(self, id: str | os.PathLike[str]) -> Path:
        """Return the folder of a session by id, a unique part of one, or path; opens nothing.

        Raises:
            SessionNotFound: there is none.
        """
        return _folder(self._resolved(id).location)

    def _resolved(self, id: str | os.PathLike[str]) -> Ref:
        with self._backend.errors("cannot be searched for this session"):
            return self._backend.resolve(id)

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
            raise UsageError(
                f"{session_id!r} is not a session id: use one such as 20261115-194012-k3v9q2ab."
            )
        elif self._has(session_id):
            raise SessionExists(f"Session {session_id} already exists. Open it instead.")
        return self._new(session_id, None, workspace, meta)

    def _new(
        self,
        session_id: str,
        key: str | None,
        workspace: str | os.PathLike[str] | None,
        meta: dict[str, Any],
    ) -> Session:
        if workspace is not None:
            meta = with_project({"workspace": workspace, **meta}, {})
        header = Header(FORMAT, session_id, new_uid(), key)
        # What cannot be stored is refused now, not at the first append.
        facts = stored_facts(meta)
        backend = self._backend
        with backend.errors(f"cannot be searched for {session_id}"):
            ref, writer = backend.ref(session_id), backend.create(header)

        def open_existing() -> Opened:
            with backend.errors("cannot be opened", ref):
                return backend.open(ref, key, write=True)

        recorder = Recorder(
            writer,
            header,
            State(),
            first_meta=lambda: facts,
            open_existing=open_existing if key is not None else None,
        )
        return self._opened(Session(backend, ref, recorder=recorder, new_meta=facts))

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
        return self._open_ref(self._resolved(id), mode)

    def session(self, key: str, mode: Mode = "write", **meta: Any) -> Session:
        """Open the session of a caller's own key, or return a new one for it."""
        _check_mode(mode)
        session_id = key_session_id(key)
        if self._has(session_id):
            return self._open_ref(self._backend.ref(session_id), mode, key)
        if mode == "read":
            raise SessionNotFound(f"There is no session with the key {key!r}.")
        return self._new(session_id, key, meta.pop("workspace", None), meta)

    def _has(self, session_id: str) -> bool:
        with self._backend.errors(f"cannot be searched for {session_id}"):
            return self._backend.has(session_id)

    def _open_ref(self, ref: Ref, mode: Mode, key: str | None = None) -> Session:
        backend = self._backend
        with backend.errors("cannot be opened", ref):
            opened = backend.open(ref, key, write=mode == "write")
            recovery = opened.recovery
            if opened.writer is None:
                session = Session(
                    backend, ref, log=opened.log, state=opened.state, recovery=recovery
                )
            else:
                recorder = _recorder(opened, opened.writer)
                session = Session(backend, ref, recorder=recorder, recovery=recovery)
        return self._opened(session)

    def _opened(self, session: Session) -> Session:
        opened = self._reading if session.read_only else self._writing
        session.attach(forget=opened.discard, fork=self._fork, erase_copies=self._erase_copies)
        opened.add(session)
        return session

    def _fork(self, source: Session, ref: Ref, log: Log, options: ForkOptions) -> Session:
        if options.key is not None and self._has(key_session_id(options.key)):
            raise SessionExists(
                f"There is already a session with the key {options.key!r}. Open it instead."
            )
        return self.open(fork(self._backend, source, ref, log, options))

    # What there is

    def ids(self) -> set[str]:
        """Return the ids of all sessions that are there, without opening any."""
        with self._backend.errors("cannot be listed"):
            return self._backend.ids()

    def __contains__(self, key: str) -> bool:
        """Tell whether there is a session of a caller's own key; opens nothing."""
        return self._has(key_session_id(key))

    def list(
        self,
        *,
        workspace: str | os.PathLike[str] | None = None,
        project: str | os.PathLike[str] | None = None,
        limit: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        key_prefix: str | None = None,
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
            key_prefix: only sessions of keys that start with this, such as ``telegram:``; ``""``
                is every session that has a key.
            progress: called with sessions read and sessions to read, while the index is rebuilt.
        """
        if limit is not None and (not isinstance(limit, int) or limit < 0):
            raise UsageError(f"limit must be a number of sessions, not {limit!r}.")
        query = list_query(workspace, project, limit, since, until, key_prefix)
        return self._backend.catalog.summaries(query, progress)

    def page(
        self,
        *,
        workspace: str | os.PathLike[str] | None = None,
        project: str | os.PathLike[str] | None = None,
        limit: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        key_prefix: str | None = None,
    ) -> Page:
        """Return summaries as ``list`` does, with how many there are that it leaves out."""
        query = list_query(workspace, project, limit, since, until, key_prefix)
        return self._backend.catalog.page(query)

    def search(
        self,
        text: str,
        *,
        limit: int = 50,
        order: Literal["newest", "rank"] = "newest",
        substring: bool | None = None,
        once: bool = False,
        progress: Callable[[int, int], None] | None = None,
        **where: Unpack[FilterArgs],
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
            where: conditions; see ``FilterArgs`` in ``holdfast.store.search.query``.
        """
        if not isinstance(limit, int) or limit < 0:
            raise UsageError("limit must be a number of results, 0 or more.")
        if order not in ("newest", "rank"):
            raise UsageError(f"order must be 'newest' or 'rank', not {order!r}.")
        with self._backend.errors("cannot be searched"):  # an import needs descriptors, too
            from holdfast.store.search.query import Query, conditions  # noqa: PLC0415  few search
            from holdfast.store.search.scan import SearchRequest  # noqa: PLC0415  as above

        request = SearchRequest(
            Query(text), conditions(where), limit, order == "newest", substring, once, progress
        )
        return self._backend.catalog.search(request)

    def activity(self, *, progress: Callable[[int, int], None] | None = None) -> Activities:
        """Return what happened in all sessions, by quarters of an hour, oldest first.

        ``progress`` is called with bytes read and bytes to read, while the index grows.
        """
        return self._backend.catalog.activity(progress)

    # What is deleted

    @overload
    def delete(self, id: str | os.PathLike[str], *, erase: Literal[False] = False) -> str: ...

    @overload
    def delete(
        self, id: str | os.PathLike[str], *, erase: Literal[True], everywhere: bool = False
    ) -> Erased: ...

    def delete(
        self, id: str | os.PathLike[str], *, erase: bool = False, everywhere: bool = False
    ) -> str | Erased:
        """Move a session to the trash and return its id; ``restore`` brings it back.

        With ``erase`` it is removed for good, with all that the trash has under its id: no file of
        the store has its bytes any more. A tombstone with its key and uid stays, and a copy of it
        is neither imported nor restored. Its forks are named in the result; with ``everywhere``
        they are erased, too. The key may be used again.

        Raises:
            SessionLocked: somebody is writing to it.
        """
        if everywhere and not erase:
            raise UsageError("everywhere=True only works with erase=True. Nothing was deleted.")
        if erase:
            return self._erase_session(id, everywhere=everywhere)
        ref = self._owned(id)
        self._backend.trash.move(ref)
        return ref.id

    def _owned(self, id: str | os.PathLike[str]) -> Ref:
        ref = self._resolved(id)
        with self._backend.errors("cannot be deleted", ref):
            if not self._backend.owns(ref):
                where = self._backend.location
                raise UsageError(f"{ref.location} is not a session of {where}; delete it by hand.")
        return ref

    def _erase_session(self, id: str | os.PathLike[str], *, everywhere: bool) -> Erased:
        try:
            ref = self._owned(id)
        except SessionNotFound:
            if id not in self.deleted_ids():
                raise
            ref = self._backend.ref(str(id))
        forks = Relatives(self._backend).forks_of(ref.id)
        self._backend.trash.erase(ref)
        also, copies = self._erase_each(forks) if everywhere else ([], forks)
        return Erased(ref.id, None, also, copies)

    def _erase_each(self, session_ids: Ids) -> tuple[Ids, Ids]:
        """Erase sessions; return those that were, and those that are in use."""
        erased: Ids = []
        in_use: Ids = []
        for each in session_ids:
            try:
                self._backend.trash.erase(self._backend.ref(each))
                erased.append(each)
            except SessionLocked:
                in_use.append(each)
        return erased, in_use

    def _erase_copies(self, id: str, erasure: Erasure, everywhere: bool) -> tuple[Ids, Ids]:  # noqa: FBT001  a callback
        """Look for copies of an entry that was erased; return where it is erased, and where not."""
        with self._backend.errors("cannot be searched for copies"):
            relatives = Relatives(self._backend)
            found = relatives.with_entry(id, erasure.seq, erasure.sum)
        if not everywhere:
            return [], found
        also: Ids = []
        for each in found:
            with suppress(SessionLocked):
                if self._has(each):
                    with self.open(each) as session:
                        session.erase(erasure.seq)
                for gone in relatives.gone.get(each, ()):
                    self._backend.trash.purge(gone)
                also.append(each)
        return also, [each for each in found if each not in also]

    def tombstones(self) -> Tombstones:
        """Return what was erased here for good: sessions, and entries of sessions."""
        return self._backend.trash.tombstones()

    def restore(self, id: str) -> str:
        """Bring a deleted session back and return its id."""
        return self._backend.trash.restore(id)

    def deleted(self) -> Trash:
        """Return what is in the trash, last deleted first."""
        return self._backend.trash.deleted()

    def deleted_ids(self) -> set[str]:
        """Return the ids of all sessions in the trash."""
        return {gone.id for gone in self._backend.trash.deleted()}

    def erase(self, gone: Deleted) -> None:
        """Remove a deleted session for good; nothing brings it back.

        Raises:
            UsageError: it is not in the trash.
        """
        self._backend.trash.purge(gone)

    def half_erased(self, *, remove: bool = False) -> Leftovers:
        """Count what crashes left of sessions that were being erased; with ``remove`` remove it."""
        return self._backend.trash.partial_purges(remove=remove)

    def cleanup(self, older_than: Moment) -> int:
        """Move sessions that were last updated before a time to the trash; return how many.

        ``older_than`` is an age (``timedelta``, or seconds) or a point in time. Sessions that are
        being written, or that are damaged, stay.
        """
        return self._backend.trash.cleanup(point_in_time(older_than))

    # What one session takes, and whether it is sound

    def size_bytes(self, session: str | Deleted) -> int:
        """Return how much room a session takes, with everything in its folder."""
        found = session if isinstance(session, Deleted) else self._resolved(session)
        return self._backend.maintenance.size_bytes(found)

    def holder(self, id: str | os.PathLike[str]) -> Holder | None:
        """Return who is writing to a session, ``None`` if no one is."""
        return self._backend.maintenance.holder(self._resolved(id))

    def leftovers(self, id: str, *, remove: bool = False) -> Leftovers:
        """Count the blobs of a session that nothing names, and with ``remove`` remove them.

        Blobs that are younger than an hour stay, and all blobs of a session that is damaged.

        Raises:
            SessionLocked: somebody is writing to it.
        """
        return self._folder_work.leftovers(self._resolved(id), remove=remove)

    def compress(self, id: str | os.PathLike[str]) -> Compression:
        """Compress the journal of a session that is not in use; it stays listed and searchable.

        It can be read as before, and is unpacked when it is opened for writing.

        Raises:
            SessionLocked: somebody is writing to it.
            StorageError: there is no package for zstd, or it cannot be written; it is as it was.
        """
        return self._folder_work.compress(self._resolved(id))

    def is_compressed(self, id: str | os.PathLike[str]) -> bool:
        """Tell whether the whole journal of a session is compressed."""
        return self._folder_work.is_compressed(self._resolved(id))

    def decompress(self, id: str | os.PathLike[str]) -> Compression:
        """Unpack the journal of a session, as opening it for writing does."""
        return self._folder_work.decompress(self._resolved(id))

    def verify(
        self,
        id: str | os.PathLike[str],
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> Report:
        """Read a whole session and report every problem; changes nothing."""
        return self._backend.maintenance.verify(self._resolved(id), progress)

    # What was made elsewhere

    def stage(
        self, session_id: str, *, started: str, source: str = "a program", **header: Any
    ) -> StagedSession:
        """Return a session to be filled with a conversation that took place elsewhere.

        Nobody sees it before ``publish``; then it is there whole and durable. If that never
        happens, nothing is left of it.

        Args:
            session_id: its id, in the usual shape.
            started: when it began, as times stand in entries.
            source: where it comes from, for people; recorded as its origin.
            header: further fields of its header.
        """
        made = Header(FORMAT, session_id, new_uid(), **header)
        return self._backend.stage(made, started, source)

    def receive(self, session_id: str, source: str = "a program") -> ReceivedFiles:
        """Return a session to be copied from elsewhere, file by file.

        Nobody sees it before ``publish``; if that never happens, nothing is left of it.
        ``source`` is recorded as its origin.
        """
        return self._folder_work.receive(session_id, source)

    # Where sessions came from

    def provenance(self, id: str | os.PathLike[str]) -> Provenance:
        """Return which entries of a session were received from elsewhere, and how."""
        return self._backend.provenance(self._resolved(id))

    def accept(self, id: str | os.PathLike[str], *, upto: int | None = None) -> Provenance:
        """Accept for good what a session received from elsewhere up to now; return what it was.

        From then on its entries count like those written here. What it receives later does not.
        With ``upto`` only entries up to that number are accepted: those that the user was shown.

        Raises:
            DiskFull: it cannot be recorded; nothing was accepted.
        """
        ref = self._resolved(id)
        with self._open_ref(ref, "read") as session:
            last_seq = session.seq if upto is None else upto
        return self._backend.accept(ref, last_seq)

    def batch(self) -> Batch:
        """Return the store as it will be: what is staged there is published all at once.

        Raises:
            StorageError: somebody else has one open.
        """
        return self._folder_work.batch()

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
        return self._folder_work.has_unfinished_batch()

    def lock(self, name: str) -> StoreLock:
        """Take the lock of that name for something that only one process may do at a time.

        Raises:
            SessionLocked: another process holds it; says which.
        """
        return self._folder_work.lock(name)

    def scratch(self) -> Path:
        """Make a folder for what has to be on disk for a while and is no session.

        Whoever asked for it removes it; ``cleanup`` removes what was forgotten.
        """
        return self._folder_work.scratch()

    # The whole store

    def checkup(
        self, *, fix: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> Checkup:
        """Return what goes through everything there is and yields what is wrong, one by one.

        Args:
            fix: do something about it, where something can be done; nothing is lost by that.
            progress: called with bytes read and bytes to read.
        """
        return self._folder_work.checkup(self.open, progress, fix=fix)

    def close(self) -> None:
        """Close every session that was opened here, also those that no variable refers to.

        An error of one session does not keep the others from being closed.
        """
        with ExitStack() as stack:
            for session in [*self._writing, *self._reading]:
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


def _folder(location: Path | str) -> Path:
    if not isinstance(location, Path):
        raise UsageError(f"{location} is not a folder.")
    return location


def _check_mode(mode: str) -> None:
    if mode not in ("write", "read"):
        raise UsageError(f"mode must be 'write' or 'read', not {mode!r}.")


def _recorder(opened: Opened, writer: LogWriter) -> Recorder:
    """Return the writing side of a session that was opened; streams of a crash become messages."""
    try:
        damage = opened.recovery.damage
        recorder = Recorder(writer, opened.header, opened.state, damage=damage)
        recorder.recover(opened.recovery.interrupted)
        writer.begin_own(recorder.next_seq - 1)
    except BaseException:
        writer.release()
        raise
    return recorder


LocalStore = Store
"""The name that ``Store`` had before there were other media."""
