"""Sessions that are published together, and what has to be done once they are.

    sessions/.batch/lock         one batch at a time
    sessions/.batch/<id>/        staged: whole and durable, seen by nobody
    sessions/.batch/then.json    all are published; what is still to be done

A batch is a store as it will be: what is staged in it can be opened through it, and through nothing
else. If publishing fails everything is taken back. A process that dies leaves what was staged to
the next batch, which removes it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import SessionExists, SessionLocked, StorageError
from holdfast.model.ids import SESSION_ID, new_uid
from holdfast.store.local.backend import FileBackend
from holdfast.store.local.layout import (
    JOURNAL_NAME,
    Home,
    is_real_folder,
    os_errors,
)
from holdfast.store.local.lock import LOCK_NAME, Lock
from holdfast.store.store import Store
from holdfast.version import __version__

if TYPE_CHECKING:
    import os
    from collections.abc import Container

    from holdfast.files import Files

BATCH_NAME = ".batch"
THEN_NAME = "then.json"
_TRY_AGAIN = 75


class Ahead(Home):
    """The home as it will be: sessions that are staged stand beside those that are there."""

    def __init__(self, home: Home, aside: Path) -> None:
        super().__init__(home.files, home.root, force=True)  # where it is was looked at before
        self._aside = aside

    def folder(self, session_id: str) -> Path:
        """Return the folder of a session with a valid id, staged or not."""
        staged = self._aside / session_id
        return staged if is_real_folder(self.files, staged) else super().folder(session_id)

    def session_folders(self, known: Container[str] = ()) -> list[os.DirEntry[str]]:
        """Return everything that stands where sessions stand, or will, and is named like one."""
        staged = self.files.folders(self._aside)
        return super().session_folders(known) + [
            entry for entry in staged if SESSION_ID.fullmatch(entry.name)
        ]

    def make_folder(self) -> Path:
        """Make a folder for a session that is being staged."""
        making = self._aside / new_uid()
        self.files.make_folder(making)
        return making

    def publish(self, folder: Path, session_id: str) -> Path:
        """Rename a folder to where its session waits, durably; return the place.

        Raises:
            SessionExists: there is such a session, staged or not.
        """
        if self.has(session_id):
            raise SessionExists(f"Session {session_id} already exists. Nothing was changed.")
        place = self._aside / session_id
        self.files.rename(folder, place)
        self.files.sync_folder(self._aside)
        return place


class Batch(Store):
    """A store as it will be. Used as a context manager; what was not published leaves no trace."""

    def __init__(self, home: Home) -> None:
        self.files: Files = home.files
        self._target = home
        self._aside = home.sessions / BATCH_NAME
        self._lock: Lock | None = None
        super().__init__(FileBackend(Ahead(home, self._aside)))
        with os_errors(f"{home.root} cannot be written", home.root):
            home.prepare()
            self.files.make_real_folder(self._aside)
            try:
                self._lock = Lock.acquire(self.files, self._aside, __version__)
            except SessionLocked as error:
                busy = StorageError(
                    f"Sessions are being moved into {home.root} already, by {error.holder}: wait "
                    "until that is done."
                )
                busy.exit_code = _TRY_AGAIN
                raise busy from None
            try:
                self._sweep()
            except BaseException:
                self._lock.release()
                raise

    def _sweep(self) -> None:
        """Remove what was staged and is not published: by this batch, or by one that died."""
        for entry in self.files.folders(self._aside):
            if entry.is_dir(follow_symlinks=False):
                self.files.remove_tree(Path(entry.path))
            elif entry.name not in (LOCK_NAME, THEN_NAME):
                self.files.unlink(Path(entry.path))

    def publish(self, then: bytes) -> set[str]:
        """Give every staged session its place, durably, and note what is to be done ``then``.

        All of it is done, or nothing. Returns which have their place; one that somebody else has
        made meanwhile has not.

        Raises:
            StorageError: it cannot be written. What had its place already was taken back, unless
                somebody has gone on with it since.
        """
        published: set[str] = set()
        with os_errors(f"{self._target.root} cannot be written", self._target.root):
            staged = [
                entry
                for entry in self.files.folders(self._aside)
                if SESSION_ID.fullmatch(entry.name)
            ]
            marks = {entry.name: self._mark(Path(entry.path)) for entry in staged}
            try:
                for session_id in sorted(marks):
                    with suppress(SessionExists):
                        self._target.publish(self._aside / session_id, session_id)
                        published.add(session_id)
                self.files.sync_folder(self._target.sessions)
                self.files.publish(self._aside / THEN_NAME, then)
            except BaseException:
                self.forget()
                for session_id, mark in marks.items():
                    self._take_back(session_id, mark)
                raise
        return published

    def _mark(self, folder: Path) -> tuple[int, int]:
        """Return what tells whether this is the session that was staged, as it was staged."""
        journal = self.files.status_of(folder / JOURNAL_NAME)
        return journal.st_ino, journal.st_size

    def _take_back(self, session_id: str, mark: tuple[int, int]) -> None:
        place = self._target.folder(session_id)
        with suppress(OSError, SessionLocked):  # then it stays: the next attempt finds it there
            if self._mark(place) != mark:
                return  # not ours, or somebody has gone on with it
            lock = Lock.acquire(self.files, place, __version__)
            try:
                if self._mark(place) == mark:
                    self.files.rename(place, self._aside / session_id)
                    self.files.sync_folder(place.parent)
            finally:
                lock.release()

    def settle(self, session_ids: set[str]) -> None:
        """Make the places of sessions that are there durable: somebody is about to rely on them."""
        with os_errors(f"{self._target.root} cannot be written", self._target.root):
            there = [each for each in session_ids if self._target.has(each)]
            folders = {self._target.folder(session_id).parent for session_id in there}
            for folder in sorted(folders):
                self.files.sync_folder(folder)
            self.files.sync_folder(self._target.sessions)

    @property
    def then(self) -> bytes | None:
        """What is to be done after a batch that was published, by this one or one that died."""
        with os_errors(f"{self._aside} cannot be read", self._aside):
            if self.files.exists(self._aside / THEN_NAME):
                return self.files.read_whole(self._aside / THEN_NAME)
        return None

    def forget(self) -> None:
        """Note that it was done."""
        with suppress(OSError):  # whoever finds it sees that there is nothing left to do
            self.files.unlink(self._aside / THEN_NAME)
            self.files.sync_folder(self._aside)

    def close(self) -> None:
        """Close every session that was opened here, and leave nothing of what was not published."""
        try:
            super().close()
        finally:
            lock, self._lock = self._lock, None
            if lock is not None:
                with suppress(OSError):  # the next batch tries again
                    self._sweep()
                lock.release()


def is_unfinished(home: Home) -> bool:
    """Tell whether there is something left to do after a batch that was published."""
    return home.files.exists(home.sessions / BATCH_NAME / THEN_NAME)
