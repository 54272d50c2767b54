"""The folder that holds everything: where sessions are, how one is found, how one is made.

    sessions/2026-11/<id>/    sessions, by month
    sessions/keyed/key-…/     sessions named by a caller's own key
    sessions/.new-<uid>/      sessions that are being made; never listed
    trash/<id>.<uid>/         deleted sessions
    index.db                  cache
    origin.key                signs where sessions came from; see ``provenance``

Ids from outside are matched against an allow-list before they become part of a path, and no
symbolic link is followed below ``sessions``.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import contextmanager, suppress
from errno import EEXIST, ENAMETOOLONG, ENOENT, ENOTDIR, ENOTEMPTY
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from holdfast.errors import (
    DiskFull,
    SessionExists,
    SessionNotFound,
    StorageError,
    UsageError,
    WriteFailed,
)
from holdfast.files import NO_ROOM, PASSING
from holdfast.model.ids import SESSION_ID, check_part, folder_of, new_uid, only_match
from holdfast.store.local.sparse_copy import copy_file
from holdfast.version import __version__

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from holdfast.files import Files
    from holdfast.store.local.lock import AppendTarget
    from holdfast.store.local.provenance import Origin, OriginKey

_CONTINUATION = re.compile(r"journal\.([1-9][0-9]{0,8})\.jsonl")

JOURNAL_NAME = "journal.jsonl"
DAMAGED_NAME = "damaged"
ARCHIVE_NAME = "archive"
LIVE_NAME = "live.jsonl"
ERASING_NAME = "erasing.json"


def segment_name(number: int) -> str:
    """Return the name of the ``number``-th journal file of a session."""
    return JOURNAL_NAME if number == 1 else f"journal.{number}.jsonl"


def segment_number(name: str) -> int:
    """Return the number of the continuation file of that name; 0 for any other name."""
    found = _CONTINUATION.fullmatch(name)
    return int(found[1]) if found else 0


KEY_NAME = "origin.key"
NEW_PREFIX = ".new-"
"""How the names of folders begin in which sessions are being made."""

MACHINE_ID_PATHS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_LARGEST_ID_BYTES = 4096
_MOST_SHOWN_CHARACTERS = 200
_NOT_THERE = frozenset({ENOENT, ENOTDIR, ENAMETOOLONG})  # nothing can have a name too long
_TAKEN = frozenset({EEXIST, ENOTEMPTY, ENOTDIR})  # what rename says of another folder, or a file


class Home:
    """The layout on disk. Making or reading anything is done by others, through ``files``."""

    def __init__(self, files: Files, root: Path, *, force: bool) -> None:
        self.files = files
        self.root = root
        self.sessions = root / "sessions"
        self.trash = root / "trash"
        self.index = root / "index.db"
        self._force = force
        self._synced = False
        self._origin_key: OriginKey | None = None

    @property
    def origin_key(self) -> OriginKey:
        """The key that signs where sessions came from."""
        if self._origin_key is None:
            from holdfast.store.local.provenance import OriginKey  # noqa: PLC0415  hashlib costs 3 ms

            self._origin_key = OriginKey(self.files, self.root)
        return self._origin_key

    def whose(self) -> int:
        """Return a number that is another one with another key, machine or user.

        For caches of what ``provenance`` says: they do not hold where it would say something else.
        It is quick to tell and proves nothing.
        """
        described = b"%s:%d" % (machine_id(self.files), os.getuid())
        with suppress(OSError):
            status = self.files.status_of(self.root / KEY_NAME)
            described += b":%d:%d" % (status.st_ino, status.st_mtime_ns)
        return crc32(described) & 0x7FFFFFFF

    def folder(self, session_id: str) -> Path:
        """Return the folder of a session with a valid id."""
        return self.sessions / folder_of(session_id) / session_id

    def has(self, session_id: str) -> bool:
        """Tell whether there is a session of that id.

        Raises:
            OSError: it cannot be told. A new session in its place would hide what was said in it.
        """
        folder = self.folder(session_id)
        return is_real_folder(self.files, folder.parent) and is_real_folder(self.files, folder)

    def session_folders(self, known: Container[str] = ()) -> list[os.DirEntry[str]]:
        """Return everything that stands where sessions stand and is named like one.

        Names in ``known`` are known to be ids and not looked at again.
        """
        found: list[os.DirEntry[str]] = []
        for group in self.files.folders(self.sessions):
            if not group.name.startswith(".") and group.is_dir(follow_symlinks=False):
                found += [
                    entry
                    for entry in self.files.folders(Path(group.path))
                    if entry.name in known or SESSION_ID.fullmatch(entry.name)
                ]
        return found

    def resolve(self, wanted: str | os.PathLike[str]) -> Path:
        """Find the folder of a session by id, a unique part of one, or path.

        A string is a path only if it names a place inside this home; a ``Path`` may be anywhere.

        Raises:
            UsageError: not something that could name a session, or it names several.
            SessionNotFound: there is none.
        """
        if isinstance(wanted, os.PathLike):
            return self._anywhere(Path(wanted).absolute())
        if isinstance(wanted, str) and wanted.startswith(f"{self.sessions}{os.sep}"):
            return self._inside(Path(wanted), wanted)
        part = check_part(wanted)
        if SESSION_ID.fullmatch(part):
            return self._existing(part, part)
        found = only_match(part, (entry.name for entry in self.session_folders()))
        return self._existing(found, part)

    def _inside(self, path: Path, shown: str) -> Path:
        folder = path.parent if path.name == JOURNAL_NAME else path
        if not SESSION_ID.fullmatch(folder.name):
            raise UsageError(f"{shown[:_MOST_SHOWN_CHARACTERS]!r} is not the path of a session.")
        return self._existing(folder.name, shown)

    def _existing(self, session_id: str, shown: str) -> Path:
        if not self.has(session_id):
            raise _not_found(shown)
        return self.folder(session_id)

    def _anywhere(self, path: Path) -> Path:
        folder = path.parent if path.name == JOURNAL_NAME else path
        if not is_real_folder(self.files, folder):
            raise _not_found(str(path))
        return folder

    def owns(self, folder: Path) -> bool:
        """Tell whether a session folder stands where this home keeps the session of its name."""
        return (
            SESSION_ID.fullmatch(folder.name) is not None
            and self.has(folder.name)
            and folder.samefile(self.folder(folder.name))
        )

    def check_local(self, folder: Path) -> None:
        """Raise if locks and syncs cannot be relied on where ``folder`` is; unless forced to."""
        kind = self.files.network_file_system(folder)
        if kind is None:
            return
        if not self._force:
            raise UsageError(
                f"{folder} is on a {kind} file system, where locks and syncs cannot be relied "
                "on: set HOLDFAST_HOME to a local folder, or open the store with force=True."
            )
        # A signal may break off what is sent over a network. Where writing and syncing are one
        # call the interpreter would make it again, and what was written would be there twice.
        self.files.in_one = False

    def prepare(self) -> None:
        """Make the folder of sessions and the home's key, durably, if they are not there.

        Raises:
            UsageError: it would be on a file system that cannot be relied on.
            WriteFailed: it is not ours to write.
        """
        try:
            there = self.sessions
            while not there.is_dir():
                there = there.parent
            self.check_local(there.resolve())
            self.files.make_folders(self.sessions)
            self.origin_key.make()
            if not self._synced:  # whoever made these may have died before syncing their names
                for above in self.root.parents[1:]:
                    with suppress(OSError):  # not ours to open, hence not made by us
                        self.files.sync_folder(above)
                self.files.sync_folder(self.root.parent)
                self.files.sync_folder(self.root)
                self._synced = True
        except PermissionError as error:
            raise WriteFailed(
                f"{self.root} cannot be written ({error.strerror}): set HOLDFAST_HOME to a folder "
                "of your own, or mend its permissions",
                None,
            ) from error

    def make_folder(self) -> Path:
        """Make a folder for a session that is being made; it has a name that nobody looks at."""
        self.prepare()
        making = self.sessions / f"{NEW_PREFIX}{new_uid()}"
        self.files.make_folder(making)
        return making

    def make_session(
        self,
        session_id: str,
        chunks: Iterable[bytes],
        payloads: list[bytes],
        links: list[Path],
        origin: Origin | None = None,
    ) -> AppendTarget:
        """Make a session with its first lines; it is there whole and durable, or not at all.

        Everything is written and synced under a name that nobody looks at and then renamed.
        ``origin`` says which of its entries are foreign; without it all of them are ours.
        """
        # Who only looks for sessions has no use for them.
        from holdfast.store.local.blobs import BLOBS_NAME, Blobs  # noqa: PLC0415  as told
        from holdfast.store.local.lock import AppendTarget, Lock  # noqa: PLC0415  as told
        from holdfast.store.local.provenance import Origin, write_new  # noqa: PLC0415  as told

        files, making = self.files, self.make_folder()
        lock = Lock.acquire(files, making, __version__)
        descriptor = -1
        try:
            blobs = Blobs(files, making)
            for payload in payloads:
                blobs.write(payload)
            link_all(files, links, making / BLOBS_NAME)
            write_new(files, making, self.origin_key, origin or Origin(session_id))
            descriptor = files.open_append(making / JOURNAL_NAME, create=True)
            for chunk in chunks:
                files.write_all(descriptor, chunk)
            files.sync(descriptor)
            files.sync_folder(making)
            folder = self.publish(making, session_id)
            files.sync_folder(self.sessions)
            status = files.status(descriptor)
        except BaseException as error:
            renamed = self._is_in_place(session_id, descriptor)
            with suppress(OSError):
                if not renamed:
                    files.remove_tree(making)
                elif not isinstance(error, OSError) or error.errno in PASSING:
                    # The caller will try again, and must not find its own leavings. After a failed
                    # sync it cannot, and what is there is better kept.
                    files.remove_tree(self.folder(session_id))
            if descriptor >= 0:
                files.close(descriptor)
            lock.release()
            raise
        path = folder / JOURNAL_NAME
        return AppendTarget(folder, lock, path, descriptor, status.st_ino, 1, status.st_size)

    def _is_in_place(self, session_id: str, descriptor: int) -> bool:
        """Tell whether the journal of the session of that id is the one we have open."""
        try:
            there = self.files.status_of(self.folder(session_id) / JOURNAL_NAME)
            return os.path.samestat(there, self.files.status(descriptor))
        except OSError:
            return False

    def publish(self, folder: Path, session_id: str) -> Path:
        """Rename a folder to where the session of that id stands, durably; return the place.

        Raises:
            SessionExists: the place is taken.
        """
        place = self.folder(session_id)
        self.files.make_folders(place.parent)
        if not is_real_folder(self.files, place.parent):
            raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), str(place.parent))
        try:
            self.files.rename(folder, place)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            raise SessionExists(
                f"Session {session_id} already exists. Nothing was changed."
            ) from None
        self.files.sync_folder(place.parent)
        return place

    def abandoned(self, older_than_ns: int) -> Iterator[Path]:
        """Yield folders of sessions that were being made when their process died."""
        for entry in self.files.folders(self.sessions):
            if entry.name.startswith(NEW_PREFIX) and entry.is_dir(follow_symlinks=False):
                with suppress(FileNotFoundError):  # finished, or discarded by somebody else
                    if entry.stat(follow_symlinks=False).st_mtime_ns < older_than_ns:
                        yield Path(entry.path)


def link_all(files: Files, sources: list[Path], folder: Path) -> None:
    """Give files a second name in a new ``folder``, copying where a link cannot be made."""
    if not sources:
        return
    files.make_real_folder(folder)
    for source in sources:
        try:
            files.link(source, folder / source.name)
        except FileNotFoundError:
            continue  # the original lost it; the reference stays one
        except OSError:
            copy_file(files, source, folder / source.name)
    files.sync_folder(folder)


def _not_found(shown: str) -> SessionNotFound:
    return SessionNotFound(
        f"There is no session {shown[:_MOST_SHOWN_CHARACTERS]!r}: it may be in another home or in "
        "the trash."
    )


def is_real_folder(files: Files, folder: Path) -> bool:
    """Tell whether a path is a folder; a symbolic link to one is not.

    Raises:
        OSError: it cannot be told. It may well be there.
    """
    try:
        return stat.S_ISDIR(files.status_of(folder).st_mode)
    except ValueError:  # a name with a NUL in it
        return False
    except OSError as error:
        if error.errno not in _NOT_THERE:
            raise
        return False


def machine_id(files: Files) -> bytes:
    """Return the system's id of this machine, empty where it has none."""
    for path in MACHINE_ID_PATHS:
        with suppress(OSError):
            real = Path(os.path.realpath(path))  # some systems have a link there
            found = files.read_small(real, _LARGEST_ID_BYTES)
            if found and found.strip():
                return found.strip()
    return b""


@contextmanager
def os_errors(what: str, where: Path) -> Iterator[None]:
    """Turn what the operating system says in a ``with`` block into an error of ours."""
    try:
        yield
    except FileNotFoundError:
        raise SessionNotFound(
            f"{where} has no journal: it is not a session, or was just deleted."
        ) from None
    except OSError as error:
        if error.errno in NO_ROOM:
            raise DiskFull(where, ()) from error
        raise StorageError(f"{what}: {error}.") from error
    except ImportError as error:  # a module that is imported late needs descriptors, too
        raise StorageError(f"{what}: {error}.") from error
