"""Sessions as folders of files: the default backend.

The store makes sessions and opens them, and closes with itself whatever of them is still open.
Nothing is on disk before the first append to a session.

How a folder becomes an open session is told in ``opening``; what can be done with sessions that
need not be open, in ``collection``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakSet

from holdfast.errors import SessionExists, SessionNotFound, UsageError
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
from holdfast.store.arguments import stored_facts, with_project
from holdfast.store.collection import Collection
from holdfast.store.contract import Migration
from holdfast.store.fork import fork
from holdfast.store.home import Home
from holdfast.store.opening import open_to_read, open_to_write
from holdfast.store.receiving import Receiving
from holdfast.store.recorder import Recorder
from holdfast.store.refusals import os_errors
from holdfast.store.session import Session
from holdfast.store.staging import Staging

if TYPE_CHECKING:
    import os
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from holdfast.journal.files import Files
    from holdfast.journal.reader import Journal
    from holdfast.store.batch import Batch
    from holdfast.store.checkup import Checkup

Mode = Literal["write", "read"]
Migrate = Callable[..., Migration]


class LocalStore(Collection):
    """All sessions below one home folder. Any number of processes may use it at once."""

    def __init__(
        self, files: Files, root: Path, *, force: bool = False, migration: Migrate | None = None
    ) -> None:
        super().__init__(Home(files, root, force=force))
        self._migration = migration
        self._open: WeakSet[Session] = WeakSet()

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
        elif self._has(session_id):
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
            meta = with_project({"workspace": workspace, **meta}, {})
        header = Header(FORMAT, session_id, new_uid(), key)
        # What cannot be stored is refused now, not at the first append.
        facts = stored_facts(meta)
        with os_errors(f"{self.path} cannot be searched for {session_id}", self.path):
            recorder = Recorder(self._home, header, State(), first_meta=lambda: facts)
        return self._opened(Session(self._home, session_id, recorder=recorder, new_meta=facts))

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

    def session(self, key: str, mode: Mode = "write", **meta: Any) -> Session:
        """Open the session of a caller's own key, or return a new one for it."""
        _check_mode(mode)
        session_id = key_session_id(key)
        if self._has(session_id):
            return self._open_folder(self._home.folder(session_id), mode, key)
        if mode == "read":
            raise SessionNotFound(f"There is no session with the key {key!r}.")
        return self._new(session_id, key, meta.pop("workspace", None), meta)

    def _has(self, session_id: str) -> bool:
        with os_errors(f"{self.path} cannot be searched for {session_id}", self.path):
            return self._home.has(session_id)

    def _open_folder(self, folder: Path, mode: Mode, key: str | None = None) -> Session:
        with os_errors(f"{folder} cannot be opened", folder):
            open_folder = open_to_read if mode == "read" else open_to_write
            return self._opened(open_folder(self._home, folder, key))

    def _opened(self, session: Session) -> Session:
        session.attach(forget=self._open.discard, fork=self._fork)
        self._open.add(session)
        return session

    def _fork(self, source: Session, journal: Journal, at: int | None) -> Session:
        return self.open(fork(self._home, source, journal, at))

    # What was made elsewhere

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

    # The whole store

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
