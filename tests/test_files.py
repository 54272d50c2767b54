"""The calls themselves: order, modes, short reads and writes, and what a failure leaves."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import io
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast import files as files_module
from holdfast.files import Files
from tests.fakes import FakeFiles

REAL = Files()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


@pytest.fixture
def descriptor(path: Path) -> Iterator[int]:
    descriptor = REAL.open_append(path, create=True)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# Opening


@pytest.mark.usefixtures("no_umask")
def test_what_is_made_is_for_its_owner_only(tmp_path):
    os.close(REAL.open_append(tmp_path / "appended", create=True))
    os.close(REAL.open_lock(tmp_path / "locked"))
    REAL.publish(tmp_path / "published", b"x")
    assert {mode(each) for each in tmp_path.iterdir()} == {0o600}
    REAL.make_folders(tmp_path / "a" / "b")
    assert (mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (0o700, 0o700)


@pytest.mark.parametrize("open_it", [REAL.open_append, REAL.open_read, REAL.open_lock])
def test_a_symbolic_link_is_not_followed(tmp_path, path, open_it):
    path.write_bytes(b"theirs")
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("link", "dangling"):
        with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
            open_it(tmp_path / name)
    assert not (tmp_path / "nowhere").exists()


def test_creating_takes_nobody_elses_file(tmp_path, path):
    path.write_bytes(b"theirs")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for taken in (path, tmp_path / "dangling"):
        with pytest.raises(FileExistsError):
            REAL.open_append(taken, create=True)
    assert path.read_bytes() == b"theirs"


def test_descriptors_do_not_reach_programs_that_are_started(path, descriptor):
    opened = [descriptor, REAL.open_append(path), REAL.open_read(path), REAL.open_lock(path)]
    assert not any(os.get_inheritable(each) for each in opened)
    for each in opened[1:]:
        REAL.close(each)


def test_opening_to_append_makes_nothing(path):
    with pytest.raises(FileNotFoundError):
        REAL.open_append(path)


def test_appending_goes_to_the_end_even_if_somebody_else_wrote(path, descriptor):
    REAL.write_all(descriptor, b"one")
    with path.open("ab") as other:
        other.write(b"two")
    REAL.write_all(descriptor, b"three")
    assert path.read_bytes() == b"onetwothree"


# Reading and looking


@pytest.mark.parametrize("most", [1, 3, 7, 100])
def test_reading_goes_on_after_a_short_read(path, descriptor, monkeypatch, most):
    path.write_bytes(b"0123456789")
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: pread(fd, min(size, most), offset))
    assert REAL.read_at(descriptor, 10, 0) == b"0123456789"
    assert REAL.read_at(descriptor, 4, 3) == b"3456"
    assert REAL.read_at(descriptor, 100, 2) == b"23456789"
    assert REAL.read_at(descriptor, 5, 10) == b""
    assert REAL.read_at(descriptor, 0, 0) == b""
    assert REAL.read_whole(path) == b"0123456789"


def holes(path: Path, size: int | None = None, least: int = 1) -> list[tuple[int, int]]:
    with path.open("rb") as file:
        return REAL.holes(file.fileno(), path.stat().st_size if size is None else size, least)


def test_holes_of_a_file(path):
    mib = 1 << 20
    with path.open("wb") as file:
        file.write(b"x" * mib)
        file.seek(4 * mib)
        file.write(b"x" * mib)
        file.truncate(6 * mib)
    assert holes(path) == [(mib, 4 * mib), (5 * mib, 6 * mib)]
    assert holes(path, least=2 * mib) == [(mib, 4 * mib)]
    assert holes(path, 2 * mib) == [(mib, 2 * mib)]
    assert holes(path, 100 * mib) == [(mib, 4 * mib), (5 * mib, 100 * mib)]
    path.write_bytes(b"x" * mib)
    assert holes(path) == []
    path.write_bytes(b"")
    assert holes(path) == holes(path, mib) == []


def test_no_holes_are_known_where_the_system_cannot_tell(path, monkeypatch):
    with path.open("wb") as file:
        file.truncate(1 << 20)

    def fail(_descriptor: int, _offset: int, how: int) -> int:
        if how == os.SEEK_DATA:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return 0

    assert holes(path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "lseek", fail)
        assert holes(path) == []
    monkeypatch.setattr(files_module, "_SEEK_HOLE", None)
    assert holes(path) == []


def test_a_link_is_there_even_if_it_leads_nowhere(tmp_path):
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert REAL.exists(tmp_path / "dangling")
    assert not REAL.exists(tmp_path / "nowhere")
    assert stat.S_ISLNK(REAL.status_of(tmp_path / "dangling").st_mode)


def test_a_folder_that_is_not_there_has_nothing_in_it(tmp_path, path):
    path.touch()
    assert REAL.names(tmp_path) == ["file"]
    assert [entry.path for entry in REAL.folders(tmp_path)] == [str(path)]
    assert REAL.names(tmp_path / "none") == []
    assert REAL.folders(tmp_path / "none") == []


# Writing


def test_everything_is_written_though_each_write_is_short(path, descriptor):
    files = FakeFiles()
    for kept in (1, 2, 5):
        files.tear(kept)
    files.write_all(descriptor, b"0123456789")
    assert path.read_bytes() == b"0123456789"
    assert files.count("write") == 4


def test_a_write_of_nothing_at_all_is_a_full_disk(path, descriptor):
    files = FakeFiles()
    files.tear(4)
    files.tear(0)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as caught:
        files.write_all(descriptor, b"0123456789")
    assert caught.value.errno in files_module.NO_ROOM
    assert path.read_bytes() == b"0123"
    files.write_all(descriptor, b"")
    assert files.count("write") == 2


def test_writing_in_place_and_cutting(path):
    descriptor = REAL.open_lock(path)
    assert REAL.write_at(descriptor, b"abcdef", 2) == 6
    assert REAL.write_at(descriptor, b"X", 3) == 1
    REAL.truncate(descriptor, 5)
    REAL.close(descriptor)
    assert path.read_bytes() == b"\0\0aXc"


def test_reserving_takes_blocks_and_leaves_the_size(path, descriptor):
    REAL.write_all(descriptor, b"x" * 10)
    before = path.stat().st_blocks
    assert REAL.reserve(descriptor, 10, 1 << 20)
    assert path.stat().st_size == 10
    assert path.stat().st_blocks >= before + (1 << 20) // 512 - 8


def test_what_cannot_be_reserved_is_not(path, descriptor, monkeypatch):
    reader = REAL.open_read(path)
    assert not REAL.reserve(reader, 0, 4096)
    REAL.close(reader)
    monkeypatch.setattr(files_module, "_fallocate", None)
    assert not REAL.reserve(descriptor, 0, 4096)
    assert path.stat().st_blocks == 0


def test_reserving_is_found_only_where_it_is(monkeypatch):
    def function() -> int:
        raise AssertionError

    for libc, found in (
        (SimpleNamespace(fallocate=function), function),
        (SimpleNamespace(fallocate64=function, fallocate=print), function),
        (SimpleNamespace(), None),
    ):
        monkeypatch.setattr(ctypes, "CDLL", lambda _, libc=libc: libc)
        assert files_module._find_fallocate() is found
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(fallocate=function))
    monkeypatch.setattr(sys, "platform", "darwin")
    assert files_module._find_fallocate() is None


needs_one_call = pytest.mark.skipif(not Files.in_one, reason="there is no RWF_DSYNC here")


@needs_one_call
def test_an_append_is_one_call_that_syncs(monkeypatch, path, descriptor):
    calls: list[tuple[int, int]] = []
    real = os.pwritev

    def watched(target, buffers, offset, flags):
        calls.append((offset, flags))
        return real(target, buffers, offset, flags)

    monkeypatch.setattr(os, "pwritev", watched)
    REAL.write(descriptor, b"one\n")
    assert REAL.append(descriptor, b"two\n", 4) == 4
    assert path.read_bytes() == b"one\ntwo\n"
    assert calls == [(4, os.RWF_DSYNC)]


def test_a_stand_in_that_writes_or_syncs_in_its_own_way_is_asked_to():
    class FakeWriting(Files):
        def write(self, descriptor: int, data: bytes) -> int:
            return super().write(descriptor, data)

    class FakeSyncing(Files):
        def sync(self, descriptor: int) -> None:
            super().sync(descriptor)

    class FakeHeir(FakeSyncing):
        pass

    class FakeReading(Files):
        def read_at(self, descriptor: int, size: int, offset: int) -> bytes:
            return super().read_at(descriptor, size, offset)

    for stand_in in (FakeWriting, FakeSyncing, FakeHeir):
        assert not stand_in.in_one
    assert FakeReading.in_one == Files.in_one


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM, errno.EINVAL])
def test_a_system_without_such_a_call_writes_and_syncs(monkeypatch, path, code):
    tried: list[int] = []

    def unheard_of(*_):
        tried.append(code)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "pwritev", unheard_of)
    files = FakeFiles()
    files.in_one = True
    descriptor = files.open_append(path, create=True)
    assert files.append(descriptor, b"one\n", 0) == 4
    assert files.append(descriptor, b"two\n", 4) == 4
    files.close(descriptor)
    assert path.read_bytes() == b"one\ntwo\n"
    done = [method for method, _ in files.calls if method in ("write", "sync")]
    assert done == ["write", "sync", "write", "sync"]
    assert tried == [code]  # and not again


@needs_one_call
@pytest.mark.parametrize(
    ("code", "written"),
    [(errno.EIO, b""), (errno.EIO, b"one\n"), (errno.EOPNOTSUPP, b"one\n"), (errno.EPERM, b"o")],
)
def test_an_append_that_failed_is_not_made_again_if_it_may_have_written(
    monkeypatch, path, descriptor, code, written
):
    def failing(*_):
        os.write(descriptor, written)
        raise OSError(code, "gone")

    monkeypatch.setattr(os, "pwritev", failing)
    with pytest.raises(OSError, match="gone"):
        REAL.append(descriptor, b"one\n", 0)
    assert path.read_bytes() == written
    assert REAL.in_one


# Making things last


def test_syncing_goes_through_the_drives_cache_where_that_takes_a_call_of_its_own(
    descriptor, monkeypatch
):
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr(os, "fdatasync", lambda *args: calls.append(("fdatasync", *args)))
    monkeypatch.setattr(fcntl, "fcntl", lambda *args: calls.append(("fcntl", *args)))
    monkeypatch.setattr(files_module, "_F_FULLFSYNC", None)
    REAL.sync(descriptor)
    monkeypatch.setattr(files_module, "_F_FULLFSYNC", 51)
    REAL.sync(descriptor)
    assert calls == [("fdatasync", descriptor), ("fcntl", descriptor, 51)]


def test_syncing_a_folder_syncs_that_folder_and_closes_it(tmp_path, path, monkeypatch):
    synced: list[os.stat_result] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor)))
    before = len(os.listdir("/proc/self/fd"))
    REAL.sync_folder(tmp_path)
    assert len(synced) == 1
    assert os.path.samestat(synced[0], tmp_path.stat())

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        REAL.sync_folder(tmp_path)
    path.touch()
    with pytest.raises(NotADirectoryError):
        REAL.sync_folder(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_each_new_folders_parent_is_synced_after_it_was_made(tmp_path):
    files = FakeFiles()
    files.make_folders(tmp_path / "a" / "b" / "c")
    assert files.calls == [
        ("make_folder", "a"),
        ("sync_folder", tmp_path.name),
        ("make_folder", "b"),
        ("sync_folder", "a"),
        ("make_folder", "c"),
        ("sync_folder", "b"),
    ]
    files.calls.clear()
    files.make_folders(tmp_path / "a" / "b" / "c")
    assert files.calls == [("make_folder", "c")]


# Names


def test_names_are_made_and_taken_away(tmp_path, path):
    path.write_bytes(b"x")
    (tmp_path / "link").symlink_to(path)
    REAL.link(path, tmp_path / "second")
    REAL.link(tmp_path / "link", tmp_path / "second link")
    assert (tmp_path / "second").samefile(path)
    assert (tmp_path / "second link").is_symlink()
    REAL.rename(tmp_path / "second", tmp_path / "third")
    REAL.unlink(tmp_path / "third")
    REAL.unlink(tmp_path / "third")
    assert path.stat().st_nlink == 1
    assert REAL.make_folder(tmp_path / "folder")
    REAL.remove_folder(tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_touching_sets_the_times_of_a_link_itself(tmp_path, path):
    path.touch()
    os.utime(path, (1, 1))
    (tmp_path / "link").symlink_to(path)
    REAL.touch(tmp_path / "link")
    assert path.stat().st_mtime == 1
    REAL.touch(path)
    assert path.stat().st_mtime > 1


# Publishing


def test_publishing_is_write_then_sync_then_rename_then_folder_sync(tmp_path, path):
    path.write_bytes(b"old")
    files = FakeFiles()
    files.publish(path, b"new")
    temporary = files.calls[0][1]
    assert temporary.startswith(".file.")
    assert files.calls == [
        ("open_append", temporary),
        ("write", temporary),
        ("sync", temporary),
        ("close", temporary),
        ("rename", temporary),
        ("sync_folder", tmp_path.name),
    ]
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("old", [b"old", None])
@pytest.mark.parametrize("step", ["open_append", "write", "tear", "sync", "rename"])
def test_publishing_that_fails_leaves_what_was_there(tmp_path, path, step, old):
    if old is not None:
        path.write_bytes(old)
    files = FakeFiles()
    if step == "tear":
        files.tear(1)
        files.fail("write", errno.ENOSPC)
    else:
        files.fail(step)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match=r"Input/output|No space"):
        files.publish(path, b"new")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == (
        {} if old is None else {"file": old}
    )
    assert len(os.listdir("/proc/self/fd")) == before


def test_publishing_that_cannot_sync_the_folder_raises_with_the_new_content_whole(tmp_path, path):
    path.write_bytes(b"old")
    files = FakeFiles()
    files.fail("sync_folder")
    with pytest.raises(OSError, match="Input/output"):
        files.publish(path, b"new")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"file": b"new"}


# Where it is


@pytest.fixture
def mounts(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | OSError], None]:
    """Let the system's table of mounts be this text, or an error."""

    def fake(table: str | OSError) -> None:
        def open_table(name: str, **_: object) -> io.StringIO:
            assert name == "/proc/self/mountinfo"
            if isinstance(table, OSError):
                raise table
            return io.StringIO(table)

        monkeypatch.setattr(files_module, "open", open_table, raising=False)

    return fake


def mount(path: Path, kind: str, *, other: bool = False, optional: str = "shared:1 ") -> str:
    device = path.stat().st_dev
    minor = os.minor(device) + (1 if other else 0)
    return f"36 35 {os.major(device)}:{minor} / /mnt rw,noatime {optional}- {kind} source rw\n"


@pytest.mark.parametrize("optional", ["", "shared:1 ", "shared:1 master:2 "])
@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("nfs4", "nfs4"),
        ("fuse.sshfs", "fuse.sshfs"),
        ("9p", "9p"),
        ("cifs", "cifs"),
        ("virtiofs", "virtiofs"),
        ("vboxsf", "vboxsf"),
        ("prl_fs", "prl_fs"),
        ("vmhgfs", "vmhgfs"),
        ("ext4", None),
        ("tmpfs", None),
    ],
)
def test_network_file_systems_are_told_apart(tmp_path, mounts, kind, told, optional):
    mounts(
        mount(tmp_path, "nfs", other=True)
        + mount(tmp_path, kind, optional=optional)
        + mount(tmp_path, "fuse.other", other=True)
    )
    assert REAL.network_file_system(tmp_path) == told


@pytest.mark.parametrize("error", [FileNotFoundError, PermissionError])
def test_where_the_system_does_not_tell_it_is_taken_for_local(tmp_path, mounts, error):
    mounts(error())
    assert REAL.network_file_system(tmp_path) is None


def test_the_real_table_of_mounts_can_be_read():
    assert REAL.network_file_system(Path("/proc")) is None


def test_only_regular_files_are_opened(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(OSError, match="not a regular file") as caught:
            Files().open_regular(tmp_path / name)
        assert caught.value.errno == errno.EINVAL


def test_a_descriptor_is_closed_if_it_cannot_be_looked_at(tmp_path: Path):
    class FakeBlindFiles(Files):
        closed = 0

        def status(self, descriptor):
            raise OSError(errno.EIO, "no")

        def close(self, descriptor):
            self.closed += 1
            super().close(descriptor)

    (tmp_path / "file").write_bytes(b"x")
    files = FakeBlindFiles()
    with pytest.raises(OSError, match="no"):
        files.open_regular(tmp_path / "file")
    assert files.closed == 1


def test_a_small_file_is_read_whole_or_not_at_all(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert Files().read_small(path, 5) == b"12345"
    assert Files().read_small(path, 4) is None
