"""One writer: ``flock`` on a file that is never removed, and what that writer tells the others.

The lock file has two lines. The first, of fixed width and rewritten in place after a sync, says how
far the journal is durable. The second says who holds the lock. Neither is itself synced: a
value that survives a crash is an old one, and an old durable offset only makes readers sync for
themselves.

Whether somebody holds the lock is decided by ``flock`` alone, never by a process id: the kernel
frees it at the very moment the holder dies.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from typing import TYPE_CHECKING
from weakref import WeakSet
from zlib import crc32

import msgspec
from msgspec import Struct

from holdfast.errors import SessionLocked, UsageError
from holdfast.journal.format import timestamp
from holdfast.model.lock_holder import Holder

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.files import Files

LOCK_NAME = "lock"
_PATIENCE_SECONDS = 0.25  # long enough to outlast a reader's probe
_RETRY_SECONDS = 0.01
_DURABLE_WIDTH = 96
_HOLDER_WIDTH = 416


class Durable(Struct, frozen=True):
    """How far a journal is known to be durable: bytes of which file."""

    inode: int
    size: int
    sum: str


# Made at import: msgspec looks a type up when it is first used, and two threads that do so at the
# same time crash the process (0.22).
_DURABLE = msgspec.json.Decoder(Durable)
_HOLDER = msgspec.json.Decoder(Holder)


def _checksum(inode: int, size: int) -> int:
    """Return what tells a whole record from one caught half written."""
    return crc32(b"%d:%d" % (inode, size))


class Lock:
    """The writer's hold on a session folder. Made by ``acquire`` only."""

    _descriptor = -1

    def __init__(self, files: Files, descriptor: int) -> None:
        self.held = True
        self._files = files
        self._descriptor = descriptor
        _held.add(self)

    @classmethod
    def acquire(cls, files: Files, folder: Path, version: str) -> Lock:
        """Take the lock, trying for a quarter of a second.

        Raises:
            SessionLocked: somebody else has it; says who.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            descriptor = files.open_lock(folder / LOCK_NAME)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = _read_holder(files, descriptor)
                files.close(descriptor)
                if time.monotonic() >= deadline:
                    raise SessionLocked(folder.name, holder) from None
                time.sleep(_RETRY_SECONDS)
                continue
            except OSError:  # a file system without locks
                files.close(descriptor)
                raise
            # The folder may have been moved away (to the trash, say) between open and flock; then
            # this is a lock on something that no longer has the name.
            if _same_file(files, descriptor, folder / LOCK_NAME):
                break
            files.close(descriptor)
        lock = cls(files, descriptor)
        lock._introduce(version)
        return lock

    def _introduce(self, version: str) -> None:
        holder = Holder(os.getpid(), socket.gethostname(), timestamp(), version)
        text = msgspec.json.encode(holder).ljust(_HOLDER_WIDTH - 1) + b"\n"
        # What the last holder noted stays until the next sync: it tells a batch that was damaged
        # from one that was never whole.
        if read_durable(self._files, self._descriptor) is None:
            self.note_durable(0, 0)
        self._tell(text, _DURABLE_WIDTH)

    def note_durable(self, inode: int, size: int) -> None:
        """Tell readers that ``size`` bytes of the journal file ``inode`` are durable."""
        record = b'{"inode":%d,"size":%d,"sum":"%08x"}' % (inode, size, _checksum(inode, size))
        self._tell(b"%-95b\n" % record, 0)

    def _tell(self, text: bytes, offset: int) -> None:
        # What stands in the file only informs and saves readers a sync. A full disk must not keep
        # anybody from opening or appending.
        try:
            self._files.write_at(self._descriptor, text, offset)
        except OSError:
            return

    def check_ours(self) -> None:
        """Raise ``UsageError`` in a process that was forked from the holder: it let go."""
        if not self.held:
            raise UsageError(
                "This session was opened before a fork and belongs to the parent process: "
                "open it again in the child process."
            )

    def is_in_place(self, folder: Path) -> bool:
        """Tell whether others who want the lock would find this file."""
        return _same_file(self._files, self._descriptor, folder / LOCK_NAME)

    def release(self) -> None:
        """Let go. Closing the descriptor is what frees the lock."""
        self.held = False
        # First forgotten, then closed: an interrupt in between must not have it closed again, when
        # the number may be another file's.
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._files.close(descriptor)
        _held.discard(self)

    def __del__(self) -> None:
        """Let go if the holder was lost on its way to whoever would have released it."""
        self.release()

    def _leave_to_parent(self) -> None:
        # A child that kept the descriptor open would keep the lock after the parent's death.
        self.held = False
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


_held: WeakSet[Lock] = WeakSet()


def _drop_all_in_child() -> None:
    for lock in list(_held):
        lock._leave_to_parent()  # noqa: SLF001  same module


os.register_at_fork(after_in_child=_drop_all_in_child)


def holder_of(files: Files, folder: Path) -> Holder | None:
    """Return who holds the session's lock, ``None`` if nobody does.

    Takes a shared lock for an instant; writers are patient enough not to notice.
    """
    try:
        descriptor = files.open_read(f"{folder}/{LOCK_NAME}")
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_holder(files, descriptor)
    finally:
        files.close(descriptor)
    return None


def read_durable(files: Files, descriptor: int) -> Durable | None:
    """Read how far the journal is durable from an open lock file; ``None`` if it does not say."""
    try:
        durable = _DURABLE.decode(files.read_at(descriptor, _DURABLE_WIDTH, 0))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    whole = durable.sum == f"{_checksum(durable.inode, durable.size):08x}"
    return durable if whole else None


def durable_size(files: Files, folder: Path, inode: int) -> int:
    """Return how many bytes of a journal file its writer is known to have synced."""
    try:
        descriptor = files.open_read(folder / LOCK_NAME)
    except OSError:
        return 0
    try:
        durable = read_durable(files, descriptor)
    except OSError:
        return 0
    finally:
        files.close(descriptor)
    return durable.size if durable is not None and durable.inode == inode else 0


def _read_holder(files: Files, descriptor: int) -> Holder:
    text = files.read_at(descriptor, _HOLDER_WIDTH, _DURABLE_WIDTH)
    try:
        return _HOLDER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Holder()


def _same_file(files: Files, descriptor: int, path: Path) -> bool:
    try:
        there = files.status_of(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, files.status(descriptor))


class AppendTarget(Struct, frozen=True):
    """Where a writer appends: an open file of a locked folder, durable up to ``end``."""

    folder: Path
    lock: Lock
    path: Path
    descriptor: int
    inode: int
    segment: int
    end: int
    newline_missing: bool = False
