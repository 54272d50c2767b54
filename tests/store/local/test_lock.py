"""One writer: who has the lock, who is told what, and when it is free again."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Callable
from pathlib import Path
from weakref import WeakSet

import pytest

from holdfast.errors import SessionLocked, UsageError
from holdfast.files import Files
from holdfast.journal.format import timestamp
from holdfast.model.lock_holder import Holder
from holdfast.store.local import lock as lock_module
from holdfast.store.local.lock import LOCK_NAME, Durable, Lock, holder_of, read_durable
from tests.fakes import FakeFiles
from tests.processes import running

REAL = Files()

HOLD = """
import pathlib
from holdfast.files import Files
from holdfast.store.local.lock import Lock
lock = Lock.acquire(Files(), pathlib.Path(sys.argv[2]), "7.8.9")
ready()
"""

FORK = """
import pathlib
from holdfast.files import Files
from holdfast.store.local.lock import Lock
folder = pathlib.Path(sys.argv[2])
lock = Lock.acquire(Files(), folder, "7.8.9")
lock.note_durable(11, 22)
before = (folder / "lock").read_bytes()
child = os.fork()
if child:
    os.waitpid(child, 0)
    sys.exit()
try:
    lock.check_ours()
except holdfast.UsageError:
    lock.note_durable(11, 99)
    lock.release()
    ready("ready" if (folder / "lock").read_bytes() == before else "written by the child")
    ready("alive")
else:
    ready("the child has the lock too")
"""


class FakeTime:
    """A clock that moves only when somebody sleeps."""

    def __init__(self, on_sleep: Callable[[], None] = lambda: None) -> None:
        self.now = 100.0
        self.on_sleep = on_sleep

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        self.on_sleep()


class FakeMovingFiles(Files):
    """Somebody moves the folder away just after its lock file was opened."""

    def __init__(self, folder: Path, away: Path, *, replaced: bool) -> None:
        self.folder = folder
        self.away = away
        self.replaced = replaced

    def open_lock(self, path: Path) -> int:
        descriptor = super().open_lock(path)
        if not self.away.exists():
            self.folder.rename(self.away)
            if self.replaced:
                self.folder.mkdir()
                (self.folder / LOCK_NAME).touch()
        return descriptor


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "20260102-030405-aaaabbbb"
    folder.mkdir()
    return folder


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    clock = FakeTime()
    monkeypatch.setattr(lock_module, "time", clock)
    return clock


def durable(folder: Path) -> Durable | None:
    descriptor = REAL.open_read(folder / LOCK_NAME)
    try:
        return read_durable(REAL, descriptor)
    finally:
        REAL.close(descriptor)


def noted(folder: Path) -> tuple[int, int]:
    found = durable(folder)
    assert found is not None
    return found.inode, found.size


def holder(folder: Path) -> Holder:
    found = holder_of(REAL, folder)
    assert found is not None
    return found


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_process_that_holds_the_lock_is_named_until_it_is_killed(folder, home):
    began = timestamp()
    with running(HOLD, home, folder) as process:
        told = holder(folder)
        assert (told.pid, told.host) == (process.pid, socket.gethostname())
        assert told.version == "7.8.9"
        assert began <= told.since <= timestamp()
        with pytest.raises(SessionLocked) as caught:
            Lock.acquire(REAL, folder, "1")
        assert caught.value.holder == told
        assert caught.value.session == folder.name
        process.kill()
        # Nobody tidied up: the file still names the dead process, and yet the lock is free.
        assert b'"pid":%d,' % process.pid in (folder / LOCK_NAME).read_bytes()
        assert holder_of(REAL, folder) is None
        Lock.acquire(REAL, folder, "1").release()


def test_a_forked_child_lets_go_and_cannot_keep_the_lock_beyond_its_parent(folder, home):
    with running(FORK, home, folder) as parent:
        assert holder(folder).pid == parent.pid
        parent.kill()
        assert holder_of(REAL, folder) is None
        Lock.acquire(REAL, folder, "1").release()
        assert parent.tell("the child still lives") == "alive"


def test_what_a_child_does_at_a_fork(folder, monkeypatch):
    monkeypatch.setattr(lock_module, "_held", WeakSet())
    held = Lock.acquire(REAL, folder, "1")
    released = Lock.acquire(REAL, folder.parent, "1")
    held.check_ours()
    released.release()
    before = open_descriptors()
    for _ in ("child", "grandchild"):
        lock_module._drop_all_in_child()
        assert open_descriptors() == before - 1
        with pytest.raises(UsageError, match="before a fork"):
            held.check_ours()
    held.release()
    assert open_descriptors() == before - 1


def test_the_lock_is_free_after_release_and_its_file_stays(folder):
    lock = Lock.acquire(REAL, folder, "1")
    inode = (folder / LOCK_NAME).stat().st_ino
    lock.release()
    lock.release()
    assert holder_of(REAL, folder) is None
    Lock.acquire(REAL, folder, "1").release()
    assert (folder / LOCK_NAME).stat().st_ino == inode


def test_giving_up_takes_a_quarter_of_a_second_and_leaves_nothing_open(folder, clock):
    lock = Lock.acquire(REAL, folder, "1")
    before, began = open_descriptors(), clock.now
    with pytest.raises(SessionLocked) as caught:
        Lock.acquire(REAL, folder, "2")
    assert 0.25 <= clock.now - began < 0.3
    assert caught.value.holder.version == "1"
    assert open_descriptors() == before
    lock.release()


def test_a_reader_that_probes_does_not_make_a_writer_fail(folder, clock):
    (folder / LOCK_NAME).touch()
    reader = REAL.open_read(folder / LOCK_NAME)
    fcntl.flock(reader, fcntl.LOCK_SH)
    clock.on_sleep = lambda: os.close(reader)
    lock = Lock.acquire(REAL, folder, "1")
    assert holder(folder).pid == os.getpid()
    lock.release()


def test_readers_that_probe_do_not_see_each_other(folder):
    (folder / LOCK_NAME).touch()
    reader = REAL.open_read(folder / LOCK_NAME)
    fcntl.flock(reader, fcntl.LOCK_SH)
    assert holder_of(REAL, folder) is None
    REAL.close(reader)


def test_probing_makes_no_lock_file_and_keeps_nothing_open(folder):
    before = open_descriptors()
    assert holder_of(REAL, folder) is None
    assert list(folder.iterdir()) == []
    lock = Lock.acquire(REAL, folder, "1")
    assert holder_of(REAL, folder) is not None
    lock.release()
    assert holder_of(REAL, folder) is None
    assert open_descriptors() == before


def test_a_lock_on_a_folder_that_was_moved_away_is_not_taken_for_the_new_one(folder, tmp_path):
    away = tmp_path / "away"
    lock = Lock.acquire(FakeMovingFiles(folder, away, replaced=True), folder, "1")
    assert holder_of(REAL, folder) is not None
    assert holder_of(REAL, away) is None
    assert durable(away) is None
    lock.release()


def test_a_folder_that_was_moved_away_for_good_is_not_there(folder, tmp_path):
    away = tmp_path / "away"
    before = open_descriptors()
    with pytest.raises(FileNotFoundError):
        Lock.acquire(FakeMovingFiles(folder, away, replaced=False), folder, "1")
    assert holder_of(REAL, away) is None
    assert open_descriptors() == before


def test_a_system_that_cannot_lock_says_so_and_leaves_nothing_open(folder, monkeypatch):
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    before = open_descriptors()
    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match=os.strerror(errno.ENOLCK)):
        Lock.acquire(REAL, folder, "1")
    assert open_descriptors() == before


def test_a_durable_offset_is_read_back(folder):
    lock = Lock.acquire(REAL, folder, "1")
    assert noted(folder) == (0, 0)
    size = (folder / LOCK_NAME).stat().st_size
    for inode, offset in ((5, 7), (2**64 - 1, 2**63 - 1), (1, 1)):
        lock.note_durable(inode, offset)
        assert noted(folder) == (inode, offset)
        assert (folder / LOCK_NAME).stat().st_size == size  # rewritten in place
    assert holder(folder).version == "1"
    lock.release()


def test_a_new_writer_leaves_what_the_one_before_had_noted(folder):
    first = Lock.acquire(REAL, folder, "1")
    first.note_durable(5, 7)
    first.release()
    second = Lock.acquire(REAL, folder, "1")
    assert noted(folder) == (5, 7)
    second.release()


@pytest.mark.parametrize("new", [10, 99, 1_000_000])
def test_a_record_caught_half_written_says_nothing(folder, new):
    lock = Lock.acquire(REAL, folder, "1")
    path = folder / LOCK_NAME
    lock.note_durable(5, 7)
    old_bytes = path.read_bytes()
    lock.note_durable(5, new)
    new_bytes = path.read_bytes()
    lock.release()
    for cut in range(96):
        path.write_bytes(new_bytes[:cut] + old_bytes[cut:])
        found = durable(folder)
        assert found is None or found.size in {7, new}
        path.write_bytes(new_bytes[:cut])
        assert durable(folder) is None or cut >= new_bytes.index(b"}") + 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 512,
        b"4711\n",
        b'{"inode":1,"size":2,"sum":"00000000"}',
        b'{"inode":1,"size":2,"sum":"\xff\xfe"}',
        b'{"inode":"1","size":2,"sum":"00000000"}',
        b'{"inode":1,"size":2}',
        b"[" * 512,
    ],
)
def test_garbage_in_the_lock_file_is_neither_believed_nor_in_the_way(folder, content):
    (folder / LOCK_NAME).write_bytes(content)
    assert durable(folder) is None
    assert holder_of(REAL, folder) is None
    lock = Lock.acquire(REAL, folder, "1")
    assert holder(folder).pid == os.getpid()
    lock.release()


@pytest.mark.parametrize("content", [b"", b"\0" * 512, b" " * 96 + b'{"host":"\xff"}', b"[" * 512])
def test_a_holder_that_cannot_be_read_is_somebody(folder, content, clock):
    (folder / LOCK_NAME).write_bytes(content)
    descriptor = REAL.open_lock(folder / LOCK_NAME)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert holder_of(REAL, folder) == Holder()
    with pytest.raises(SessionLocked, match="written by another process"):
        Lock.acquire(REAL, folder, "1")
    REAL.close(descriptor)


def test_a_full_disk_keeps_nobody_from_locking(folder):
    files = FakeFiles()
    fault = files.fail("write_at", errno.ENOSPC, times=None)
    lock = Lock.acquire(files, folder, "1")
    lock.note_durable(5, 7)
    assert fault.hits == 3
    assert durable(folder) is None
    assert holder_of(REAL, folder) == Holder()
    files.heal()
    lock.note_durable(5, 7)
    assert noted(folder) == (5, 7)
    lock.release()
    assert holder_of(REAL, folder) is None
