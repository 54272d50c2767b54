"""The user's files: the one module of the runtime that reads and changes them.

Confinement: a path is resolved first, symbolic links and ``..`` included, and must then be inside
the workspace or a folder that is allowed. It is opened component by component from that root
without following any link, so that a link put there in between leads nowhere.

A file is replaced atomically: temporary file beside it, sync, rename, sync of the folder. Mode and
owner are kept where this process may; a symbolic link stays and its target is replaced. A file
with several hard links is replaced under this one name: the other names keep the old content.
Extended attributes are not carried over. Everything here blocks: call it in a thread.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from holdfast.files import Files
from holdfast.model.ids import new_name
from holdfast.runtime.tools.base import Refusal

LARGEST_FILE_BYTES = 64 * 1024 * 1024
_files = Files()
# A folder on the way needs no permission to list it; where there is no such flag it does.
_FOLDER = os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW | getattr(os, "O_PATH", os.O_RDONLY)
_MOST_LINKS = 40  # as the system follows
_SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID


class WorkspacePath(Struct, frozen=True):
    """A resolved path: components below a root. ``shown`` is how the model knows it."""

    root: str
    parts: tuple[str, ...]
    shown: str

    @property
    def path(self) -> str:
        """The absolute path."""
        return os.path.join(self.root, *self.parts)

    def child(self, name: str) -> WorkspacePath:
        """Return the place of something in this folder, which must not be a symbolic link."""
        shown = name if self.shown == "." else f"{self.shown}/{name}"
        return WorkspacePath(self.root, (*self.parts, name), shown)


class Content(Struct, frozen=True):
    """What a file held when it was read, and what tells whether it was changed since."""

    data: bytes
    mark: tuple[int, ...]

    @property
    def digest(self) -> str:
        """The SHA-256 of the bytes."""
        return digest(self.data)


class Name(Struct, frozen=True):
    """An entry of a folder; a symbolic link is neither folder nor file."""

    name: str
    is_folder: bool
    is_file: bool


def digest(data: bytes) -> str:
    """Return the SHA-256 of bytes: the name that a blob of them has."""
    return sha256(data).hexdigest()


class Workspace:
    """A folder that paths cannot leave, and others beside it that are allowed."""

    def __init__(self, root: Path, allowed: Sequence[Path] = ()) -> None:
        self.root = os.path.realpath(root)
        self.roots = [self.root, *(os.path.realpath(each) for each in allowed)]

    def locate(self, name: str) -> WorkspacePath:
        """Resolve a path as a model gives it: relative to the workspace, or absolute.

        Raises:
            Refusal: it leads out of every folder that may be used, or is no path at all.
        """
        try:
            path = os.path.realpath(os.path.join(self.root, name))
            os.fsencode(path)
            if _is_uncertain(os.path.join(self.root, name)):
                raise Refusal(f"{name} cannot be judged: it leads through /proc, or is too long.")
        except ValueError:  # a NUL, or a character that no file name can have
            raise Refusal(f"{name!a} is not a path.") from None
        for root in self.roots:
            below = _below(path, root)
            if below is not None:
                shown = "/".join(below) if root == self.root else path
                return WorkspacePath(root, below, shown or ".")
        raise Refusal(
            f"{name} is outside the workspace ({self.root}), and no permission covers it."
        )

    # Reading

    def read(self, place: WorkspacePath, limit_bytes: int = LARGEST_FILE_BYTES) -> Content:
        """Read a whole file.

        Raises:
            Refusal: it is not there, not a file, or too large.
            OSError: it cannot be read.
        """
        content = self.find(place, limit_bytes)
        if content is None:
            raise Refusal(f"There is no file {place.shown}.")
        return content

    def find(self, place: WorkspacePath, limit_bytes: int = LARGEST_FILE_BYTES) -> Content | None:
        """Read a whole file as ``read`` does; ``None`` if there is none."""
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            with _parent(place) as folder:
                descriptor = os.open(_name(place), flags, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _explained(error, place) from None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
                raise Refusal(f"{place.shown} is {kind}.")
            if status.st_size > limit_bytes:
                raise Refusal(
                    f"{place.shown} has {status.st_size:,} bytes, more than the {limit_bytes:,} "
                    "that are read at once; look at parts of it with bash."
                )
            return Content(_files.read_at(descriptor, status.st_size, 0), _mark(status))
        finally:
            os.close(descriptor)

    def is_folder(self, place: WorkspacePath) -> bool:
        """Tell whether there is a folder."""
        try:
            with _folder(place):
                return True
        except OSError:
            return False

    def names(self, place: WorkspacePath) -> list[Name]:
        """Return what is in a folder, sorted; nothing if it cannot be listed."""
        try:
            with _folder(place) as folder:
                listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        except OSError:
            return []
        try:
            with os.scandir(listed) as entries:
                return sorted(map(_named, entries), key=lambda each: each.name)
        finally:
            os.close(listed)

    # Changing

    def replace_file(self, place: WorkspacePath, data: bytes, before: Content | None) -> None:
        """Make a file's content ``data``; ``before`` is what it was known to hold.

        Folders on the way are made.

        Raises:
            Refusal: it is no longer what ``before`` says; nothing was changed.
            OSError: it could not be written; the old content is whole.
        """
        name = _name(place)
        with _parent(place, make=True) as folder:
            temporary = f".holdfast-{new_name()}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            # A new file gets the mode that the user's mask says; an old one's is set below.
            mode = 0o666 if before is None else 0o600
            descriptor = os.open(temporary, flags, mode, dir_fd=folder)
            try:
                try:
                    _files.write_all(descriptor, data)
                    _keep_owner_and_mode(descriptor, folder, name)
                    _files.sync(descriptor)
                finally:
                    os.close(descriptor)
                if _mark_of(folder, name) != (before.mark if before else None):
                    raise Refusal(f"{place.shown} was changed by another program just now.")
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            _sync_folder(folder)

    def remove_file(self, place: WorkspacePath, before: Content) -> None:
        """Remove a file that is still what ``before`` says.

        Raises:
            Refusal: it is not; nothing was changed.
        """
        with _parent(place) as folder:
            if _mark_of(folder, _name(place)) != before.mark:
                raise Refusal(f"{place.shown} was changed by another program just now.")
            os.unlink(_name(place), dir_fd=folder)
            _sync_folder(folder)


def _is_uncertain(path: str) -> bool:
    """Tell whether a command could open another file by this path than the agent resolves.

    Links below ``/proc`` lead each process to its own files. ``realpath`` takes a link whose full
    path is too long for the system to be a file, but a command follows it by a short path.
    """
    place, rest, links = "/", path.split("/")[::-1], 0
    while rest and links <= _MOST_LINKS:
        name = rest.pop()
        if name in {"", "."}:
            continue
        if name == "..":
            place = os.path.dirname(place)
            continue
        parent, place = place, os.path.join(place, name)
        if f"{place}/".startswith("/proc/"):
            return True
        try:
            target = os.readlink(place)
        except OSError as error:  # mostly EINVAL: it is not a link
            if error.errno == errno.ENAMETOOLONG:
                return True
        else:
            links += 1
            place = "/" if target.startswith("/") else parent
            rest += target.split("/")[::-1]
    return False


def _below(path: str, root: str) -> tuple[str, ...] | None:
    """Return the components of a path below a root, ``None`` if it is not below it."""
    prefix = root if root.endswith("/") else f"{root}/"
    if path != root and not path.startswith(prefix):
        return None
    return tuple(part for part in path[len(prefix) :].split("/") if part)


def _name(place: WorkspacePath) -> str:
    if not place.parts:
        raise Refusal(f"{place.shown} is a folder.")
    return place.parts[-1]


@contextmanager
def _parent(place: WorkspacePath, *, make: bool = False) -> Iterator[int]:
    """Open the folder that a place is in."""
    _name(place)
    with _folder(WorkspacePath(place.root, place.parts[:-1], place.shown), make=make) as folder:
        yield folder


@contextmanager
def _folder(place: WorkspacePath, *, make: bool = False) -> Iterator[int]:
    """Open a folder, one component after the other, following no link."""
    folder = os.open(place.root, _FOLDER)
    try:
        for part in place.parts:
            if make:
                _make_folder(part, folder)
            below = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


def _make_folder(name: str, folder: int) -> None:
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        return
    _sync_folder(folder)


def _sync_folder(folder: int) -> None:
    # One that was opened for its path alone cannot be synced.
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _keep_owner_and_mode(descriptor: int, folder: int, name: str) -> None:
    try:
        old = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    new = os.fstat(descriptor)
    mode = stat.S_IMODE(old.st_mode)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except OSError:
            mode &= ~_SPECIAL_BITS  # they would lend our own identity instead of the owner's
    os.fchmod(descriptor, mode)


def _mark(status: os.stat_result) -> tuple[int, ...]:
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def _mark_of(folder: int, name: str) -> tuple[int, ...] | None:
    try:
        return _mark(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return None


def _named(entry: os.DirEntry[str]) -> Name:
    is_folder = entry.is_dir(follow_symlinks=False)
    return Name(entry.name, is_folder, entry.is_file(follow_symlinks=False))


def _explained(error: OSError, place: WorkspacePath) -> Exception:
    """Return what to raise for an error on the way to a file."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return Refusal(
            f"{place.shown} cannot be reached: a part of the path is a link or not a folder."
        )
    return OSError(error.errno, error.strerror, place.shown)
