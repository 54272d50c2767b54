"""Every file-system call of the store: the one place that knows about syncing, and the test seam.

``Files`` is passed down from ``open_store``. Tests subclass it to make any call fail, tear, lie or
stop the process; nothing else in the store touches the file system for writing (the linter sees
to it). Everything is created 0600 or 0700 and no symbolic link is followed in the last component.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import sys
from pathlib import Path

from holdfast.model.ids import new_name

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors that mean: there is no space now, there may be later."""

PASSING = NO_ROOM | {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""Errors that say nothing about the file: what cannot be written now can be written later."""

_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE
_DSYNC: int = getattr(os, "RWF_DSYNC", 0)  # Linux: a write that is synced when it returns
# What an old kernel, or a filter of system calls, says to a call that it does not let through.
_UNHEARD_OF = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM})
_SEEK_HOLE: int | None = getattr(os, "SEEK_HOLE", None)
_F_FULLFSYNC = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone stops at the drive's cache

_NETWORK_FILE_SYSTEMS = frozenset(
    """
    9p acfs afs auristorfs beegfs ceph cifs coda cvfs drvfs fakeowner fhgfs gfs gfs2 glusterfs
    gpfs hgfs ibrix lustre mvfs ncpfs nfs nfs4 ocfs2 orangefs panfs prl_fs pvfs2 smb2 smb3 smbfs
    snfs vboxsf virtiofs vmhgfs wekafs
    """.split()  # noqa: SIM905  a list of names reads best as a list of names
)


class Files:
    """The file system, one method a call. Errors are the operating system's own ``OSError``."""

    in_one = bool(_DSYNC)
    """Whether ``append`` is one call: not where the system has none or might break it off."""

    def __init_subclass__(cls) -> None:
        """Have a stand-in that writes or syncs in its own way asked to do both."""
        super().__init_subclass__()
        own = cls.write is not Files.write or cls.sync is not Files.sync
        if own and "in_one" not in vars(cls):
            cls.in_one = False

    # Opening and reading

    def open_append(self, path: Path, *, create: bool = False) -> int:
        """Open for appending only; with ``create`` the file must not exist yet."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(path, flags | (os.O_CREAT | os.O_EXCL if create else 0), 0o600)

    def open_read(self, path: Path | str) -> int:
        """Open for reading. Does not wait, should somebody have put a pipe there."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)

    def open_regular(self, path: Path | str) -> int:
        """Open a regular file for reading. Does not wait, and follows no link.

        Raises:
            OSError: it is not there, or is a link, a pipe, a folder or a device.
        """
        descriptor = self.open_read(path)
        try:
            if stat.S_ISREG(self.status(descriptor).st_mode):
                return descriptor
        except BaseException:
            self.close(descriptor)
            raise
        self.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))

    def duplicate(self, descriptor: int) -> int:
        """Open what is open already a second time."""
        return os.dup(descriptor)

    def open_lock(self, path: Path) -> int:
        """Open a lock file, making it if it is not there."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""
        os.close(descriptor)

    def read_at(self, descriptor: int, size: int, offset: int) -> bytes:
        """Read exactly ``size`` bytes at ``offset``, fewer only where the file ends."""
        data = os.pread(descriptor, size, offset)
        if len(data) == size or not data:
            return data
        pieces = [data]
        while data and (size := size - len(data)):
            offset += len(data)
            data = os.pread(descriptor, size, offset)
            pieces.append(data)
        return b"".join(pieces)

    def holes(self, descriptor: int, size: int, least_bytes: int) -> list[tuple[int, int]]:
        """Return start and end of each hole of at least so many bytes, up to ``size``.

        A hole reads as NULs and takes no room. Nothing is returned where the system cannot tell.
        """
        found: list[tuple[int, int]] = []
        if _SEEK_HOLE is None:
            return found
        end = 0
        try:
            while end < size:
                start = os.lseek(descriptor, end, _SEEK_HOLE)
                try:
                    end = os.lseek(descriptor, start, os.SEEK_DATA)
                except OSError as error:
                    if error.errno != errno.ENXIO:
                        raise
                    end = size  # no data follows
                if min(end, size) - start >= least_bytes:
                    found.append((start, min(end, size)))
        except OSError:
            return []  # the file system does not tell, or the file was cut meanwhile
        return found

    def status(self, descriptor: int) -> os.stat_result:
        """Status of an open file."""
        return os.fstat(descriptor)

    def status_of(self, path: Path | str) -> os.stat_result:
        """Status of a path; a symbolic link is itself."""
        return os.stat(path, follow_symlinks=False)

    def exists(self, path: Path | str) -> bool:
        """Tell whether there is something of that name."""
        try:
            self.status_of(path)
        except FileNotFoundError:
            return False
        return True

    def names(self, folder: Path) -> list[str]:
        """Names in a folder, empty if there is no such folder."""
        try:
            return os.listdir(folder)
        except FileNotFoundError:
            return []

    def folders(self, folder: Path) -> list[os.DirEntry[str]]:
        """Entries of a folder, nothing if there is no such folder."""
        try:
            with os.scandir(folder) as entries:
                return list(entries)
        except FileNotFoundError:
            return []

    # Writing

    def write(self, descriptor: int, data: bytes) -> int:
        """Write once; the result may be short."""
        return os.write(descriptor, data)

    def append(self, descriptor: int, data: bytes, end: int) -> int:
        """Write once at ``end``, where the file ends, and make it survive a power cut.

        The result may be short. If syncing fails, what was written is there all the same: the size
        tells.
        """
        if self.in_one:
            try:
                return os.pwritev(descriptor, (data,), end, _DSYNC)
            except OSError as error:
                # Only the size proves that nothing was written, and that it may be tried again.
                if error.errno not in _UNHEARD_OF or self.status(descriptor).st_size != end:
                    raise
                self.in_one = False
        return self.append_in_two(descriptor, data)

    def append_in_two(self, descriptor: int, data: bytes) -> int:
        """Do as ``append``, with a sync of its own: a short write comes back at once, unsynced."""
        written = self.write(descriptor, data)
        if written == len(data):
            self.sync(descriptor)
        return written

    def write_at(self, descriptor: int, data: bytes, offset: int) -> int:
        """Write once at ``offset``."""
        return os.pwrite(descriptor, data, offset)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut an open file."""
        os.ftruncate(descriptor, size)

    def reserve(self, descriptor: int, offset: int, length: int) -> bool:
        """Set blocks aside beyond the end without changing the size; tell whether it worked."""
        if _fallocate is None:
            return False
        done: int = _fallocate(descriptor, _KEEP_SIZE, offset, length)
        return done == 0

    # Making things last

    def sync(self, descriptor: int) -> None:
        """Make a file's data, and the metadata needed to read it, survive a power cut."""
        if _F_FULLFSYNC is not None:
            fcntl.fcntl(descriptor, _F_FULLFSYNC)
        else:
            os.fdatasync(descriptor)

    def sync_folder(self, folder: Path) -> None:
        """Make a folder's entries survive a power cut."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    # Names

    def make_folder(self, folder: Path) -> bool:
        """Make one folder, 0700; tell whether it is new."""
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            return False
        return True

    def make_real_folder(self, folder: Path) -> bool:
        """Make one folder, 0700, unless it is there; tell whether it is new.

        Raises:
            NotADirectoryError: a symbolic link is in its place, or something else. What is written
                there would end up wherever the link leads.
        """
        if self.make_folder(folder):
            return True
        if not stat.S_ISDIR(self.status_of(folder).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
        return False

    def make_folders(self, folder: Path) -> None:
        """Make a folder and its ancestors, each new one's parent synced."""
        if not folder.parent.is_dir():
            self.make_folders(folder.parent)
        if self.make_folder(folder):
            self.sync_folder(folder.parent)

    def rename(self, source: Path, target: Path) -> None:
        """Rename; a target file is replaced, a target folder only if it is empty."""
        os.rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        """Make a second name of a file."""
        os.link(source, target, follow_symlinks=False)

    def unlink(self, path: Path) -> None:
        """Remove a name; fine if it is not there."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def remove_folder(self, folder: Path) -> None:
        """Remove an empty folder."""
        os.rmdir(folder)

    def remove_tree(self, folder: Path) -> None:
        """Remove a folder with everything in it; links are removed, not followed."""
        folders = [folder]
        for each in folders:  # it grows: folders in folders are not counted on to be few
            for entry in self.folders(each):
                path = each / entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                else:
                    self.unlink(path)
        for each in reversed(folders):
            self.remove_folder(each)

    def touch(self, path: Path) -> None:
        """Set a file's times to now."""
        os.utime(path, follow_symlinks=False)

    def set_mode(self, path: Path, mode: int) -> None:
        """Change who may do what with a file or folder that this user can read."""
        descriptor = self.open_read(path)
        try:
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)

    # Combinations

    def write_all(self, descriptor: int, data: bytes) -> None:
        """Write everything or raise."""
        view = memoryview(data)
        while view:
            written = self.write(descriptor, bytes(view))
            if written == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            view = view[written:]

    def publish(self, path: Path, data: bytes) -> None:
        """Write a whole file so that it is either absent or complete, and durable on return.

        Temporary file, sync, rename, folder sync; in this order, or a power cut can leave the name
        without the bytes.
        """
        temporary = path.with_name(f".{path.name}.{new_name()}")
        descriptor = self.open_append(temporary, create=True)
        try:
            try:
                self.write_all(descriptor, data)
                self.sync(descriptor)
            finally:
                self.close(descriptor)
            self.rename(temporary, path)
        except OSError:
            self.unlink(temporary)
            raise
        self.sync_folder(path.parent)

    def read_whole(self, path: Path) -> bytes:
        """Read a whole file."""
        descriptor = self.open_read(path)
        try:
            return self.read_at(descriptor, self.status(descriptor).st_size, 0)
        finally:
            self.close(descriptor)

    def read_small(self, path: Path | str, most_bytes: int) -> bytes | None:
        """Return the content of a regular file, ``None`` if it has more bytes than that.

        Raises:
            OSError: as ``open_regular``.
        """
        descriptor = self.open_regular(path)
        try:
            if self.status(descriptor).st_size > most_bytes:
                return None  # a file with holes claims a size without taking the room
            data = self.read_at(descriptor, most_bytes + 1, 0)
        finally:
            self.close(descriptor)
        return data if len(data) <= most_bytes else None

    def network_file_system(self, path: Path) -> str | None:
        """Return the type of the file system if it is a network or FUSE one, else ``None``.

        Locks and syncs cannot be relied on there. Where the system does not tell (not Linux), the
        answer is ``None``.
        """
        device = self.status_of(path).st_dev
        wanted = f"{os.major(device)}:{os.minor(device)}"
        try:
            with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as table:
                for line in table:
                    fields = line.split()
                    if fields[2] == wanted:
                        kind = fields[fields.index("-", 6) + 1]
                        if kind in _NETWORK_FILE_SYSTEMS or kind.startswith("fuse"):
                            return kind
        except OSError:
            return None
        return None


def default_home() -> Path:
    """Return the folder of Holdfast's files: ``HOLDFAST_HOME``, else in the user's state folder."""
    given = os.environ.get("HOLDFAST_HOME")
    if given:
        return Path(given)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "holdfast"


def _find_fallocate() -> ctypes._NamedFuncPointer | None:
    # os.posix_fallocate would change the file's size, and where the file system cannot reserve it
    # writes zeros instead.
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    function = getattr(libc, "fallocate64", None) or getattr(libc, "fallocate", None)
    if function is not None:
        function.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    return function


_fallocate = _find_fallocate()
