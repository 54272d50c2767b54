"""The folder that holds everything: where sessions are, how one is found, how one is made.

    sessions/2026-11/<id>/    sessions, by month
    sessions/keyed/key-…/     sessions named by a caller's own key
    sessions/.new-<uid>/      sessions that are being made; never listed
    trash/<id>.<uid>/         deleted sessions
    index.db                  cache

Ids from outside are matched against an allow-list before they become part of a path, and no
symbolic link is followed below ``sessions``.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import SessionExists, SessionNotFound, UsageError, WriteFailed
from holdfast.journal.lock import Lock
from holdfast.journal.reader import JOURNAL_NAME
from holdfast.journal.writer import Place
from holdfast.model.ids import SESSION_ID, check_part, folder_of, new_uid
from holdfast.store.blobs import BLOBS_NAME, Blobs
from holdfast.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.journal.files import Files

_NEW_PREFIX = ".new-"
_MOST_SHOWN_CANDIDATES = 5


def default_home() -> Path:
    """Return the home folder: ``HOLDFAST_HOME``, else below the user's state folder."""
    given = os.environ.get("HOLDFAST_HOME")
    if given:
        return Path(given)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "holdfast"


class Home:
    """The layout on disk. Making or reading anything is done by others, through ``files``."""

    def __init__(self, files: Files, root: Path, *, force: bool) -> None:
        self.files = files
        self.root = root
        self.sessions = root / "sessions"
        self.trash = root / "trash"
        self.index = root / "index.db"
        self._force = force

    def folder(self, session_id: str) -> Path:
        """Return the folder of a session with a valid id."""
        return self.sessions / folder_of(session_id) / session_id

    def has(self, session_id: str) -> bool:
        """Tell whether there is a session of that id."""
        return _is_real_folder(self.files, self.folder(session_id))

    def session_folders(self) -> Iterator[os.DirEntry[str]]:
        """Yield everything that stands where sessions stand and is named like one."""
        for group in self.files.folders(self.sessions):
            if not group.name.startswith(".") and group.is_dir(follow_symlinks=False):
                for entry in self.files.folders(Path(group.path)):
                    if SESSION_ID.fullmatch(entry.name):
                        yield entry

    def resolve(self, wanted: str | os.PathLike[str]) -> Path:
        """Find the folder of a session by id, a unique part of one, or path.

        A string is a path only if it names a place inside this home; a ``Path`` may be anywhere.

        Raises:
            UsageError: not something that could name a session, or it names several.
            SessionNotFound: there is none.
        """
        if isinstance(wanted, os.PathLike):
            return self._checked(Path(wanted), str(wanted))
        if isinstance(wanted, str) and wanted.startswith(f"{self.sessions}{os.sep}"):
            return self._inside(Path(wanted), wanted)
        part = check_part(wanted)
        if SESSION_ID.fullmatch(part):
            return self._checked(self.folder(part), part)
        found = sorted(entry.name for entry in self.session_folders() if part in entry.name)
        if not found:
            raise SessionNotFound(f"No session has {part!r} in its id; list() shows all there are.")
        if len(found) > 1:
            shown = ", ".join(found[:_MOST_SHOWN_CANDIDATES])
            more = len(found) - _MOST_SHOWN_CANDIDATES
            raise UsageError(
                f"{part!r} is part of {len(found)} session ids: {shown}"
                f"{f' and {more} more' if more > 0 else ''}. Use a longer part."
            )
        return self._checked(self.folder(found[0]), part)

    def _inside(self, path: Path, shown: str) -> Path:
        folder = path.parent if path.name == JOURNAL_NAME else path
        if "\0" in shown or not SESSION_ID.fullmatch(folder.name):
            raise UsageError(f"{shown!r} is not the path of a session.")
        return self._checked(self.folder(folder.name), shown)

    def _checked(self, path: Path, shown: str) -> Path:
        folder = path.parent if path.name == JOURNAL_NAME else path
        if not _is_real_folder(self.files, folder):
            raise SessionNotFound(
                f"There is no session {shown!r}: it may be in another home or in the trash."
            )
        return folder

    def check_writable(self) -> None:
        """Make the home folder; raise if locks and syncs cannot be relied on there."""
        try:
            self.files.make_folders(self.sessions)
            kind = None if self._force else self.files.network_file_system(self.sessions)
        except PermissionError as error:
            raise WriteFailed(
                f"{self.root} cannot be written ({error.strerror}): set HOLDFAST_HOME to a folder "
                "of your own, or mend its permissions",
                None,
            ) from error
        if kind is not None:
            raise UsageError(
                f"{self.root} is on a {kind} file system, where locks and syncs cannot be relied "
                "on: set HOLDFAST_HOME to a local folder, or open the store with force=True."
            )

    def make_session(
        self, session_id: str, chunks: Iterable[bytes], payloads: list[bytes], links: list[Path]
    ) -> Place:
        """Make a session with its first lines; it is there whole and durable, or not at all.

        Everything is written and synced under a name that nobody looks at and then renamed.
        """
        self.check_writable()
        files, uid = self.files, new_uid()
        making = self.sessions / f"{_NEW_PREFIX}{uid}"
        files.make_folder(making)
        lock = Lock.acquire(files, making, __version__)
        descriptor = -1
        try:
            blobs = Blobs(files, making)
            for payload in payloads:
                blobs.write(payload)
            link_all(files, links, making / BLOBS_NAME)
            descriptor = files.open_append(making / JOURNAL_NAME, create=True)
            for chunk in chunks:
                files.write_all(descriptor, chunk)
            files.sync(descriptor)
            files.sync_folder(making)
            folder = self.folder(session_id)
            if files.make_folder(folder.parent):
                files.sync_folder(self.sessions)
            self._publish(making, folder)
        except BaseException:
            if descriptor >= 0:
                files.close(descriptor)
            lock.release()
            with suppress(OSError):
                discard_folder(files, making)
            raise
        files.sync_folder(folder.parent)
        files.sync_folder(self.sessions)
        inode = files.status(descriptor).st_ino
        return Place(folder, lock, folder / JOURNAL_NAME, descriptor, inode, 1)

    def _publish(self, making: Path, folder: Path) -> None:
        try:
            self.files.rename(making, folder)
        except (FileExistsError, NotADirectoryError):
            taken = True
        except OSError:
            taken = self.has(folder.name)
            if not taken:
                raise
        else:
            return
        if taken:
            raise SessionExists(
                f"Session {folder.name} exists already; nothing was appended. Open it instead."
            )

    def abandoned(self, older_than_ns: int) -> Iterator[Path]:
        """Yield folders of sessions that were being made when their process died."""
        for entry in self.files.folders(self.sessions):
            if (
                entry.name.startswith(_NEW_PREFIX)
                and entry.stat(follow_symlinks=False).st_mtime_ns < older_than_ns
            ):
                yield Path(entry.path)


def link_all(files: Files, sources: list[Path], folder: Path) -> None:
    """Give files a second name in ``folder``, copying where a link cannot be made."""
    if not sources:
        return
    if files.make_folder(folder):
        files.sync_folder(folder.parent)
    for source in sources:
        try:
            files.link(source, folder / source.name)
        except FileExistsError:
            continue
        except FileNotFoundError:
            continue  # the original lost it; the reference stays one
        except OSError:
            files.publish(folder / source.name, files.read_whole(source))
    files.sync_folder(folder)


def discard_folder(files: Files, folder: Path) -> None:
    """Remove a folder that was never a session, with all that is in it."""
    for entry in list(files.folders(folder)):
        if entry.is_dir(follow_symlinks=False):
            discard_folder(files, Path(entry.path))
        else:
            files.unlink(Path(entry.path))
    files.remove_folder(folder)


def _is_real_folder(files: Files, folder: Path) -> bool:
    try:
        return stat.S_ISDIR(files.status_of(folder).st_mode)
    except (OSError, ValueError):
        return False
