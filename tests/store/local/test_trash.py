"""Deletion that can be undone, and cleaning up by age."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path

import pytest

import holdfast
from holdfast.model.ids import key_session_id
from tests.disk import snapshot
from tests.processes import running

FIRST = "20260102-030405-aaaabbbb"
SECOND = "20260102-030406-aaaacccc"


def put(store: holdfast.Store, session_id: str | None = None, text: str = "hello") -> Path:
    with store.create(session_id=session_id) as session:
        session.append(holdfast.user(text))
    return session.path


def trashed(home: Path) -> list[str]:
    trash = home / "trash"
    return sorted(path.name for path in trash.iterdir()) if trash.exists() else []


def test_a_deleted_session_is_moved_and_can_be_brought_back(store, home):
    folder = put(store, FIRST)
    put(store, SECOND)
    before = snapshot(folder)
    assert store.delete(FIRST) == FIRST
    assert [summary.id for summary in store.list()] == [SECOND]
    with pytest.raises(holdfast.SessionNotFound):
        store.open(FIRST)
    assert [name.partition(".")[0] for name in trashed(home)] == [FIRST]
    assert store.restore("bbbb") == FIRST
    after = snapshot(folder)
    before["lock"], before["."] = after["lock"], after["."]
    assert after == before
    assert trashed(home) == []
    assert len(store.list()) == 2
    with store.open(FIRST) as session:
        assert session.messages == [holdfast.user("hello")]
        assert session.recovery.clean


@pytest.mark.parametrize("how", ["id", "part", "path", "text path", "journal"])
def test_what_to_delete_is_said_as_for_opening(store, how):
    folder = put(store, FIRST)
    wanted = {
        "id": FIRST,
        "part": "bbbb",
        "path": folder,
        "text path": str(folder),
        "journal": folder / "journal.jsonl",
    }[how]
    assert store.delete(wanted) == FIRST
    assert store.list() == []


def test_only_sessions_of_this_home_are_deleted(store, home, tmp_path):
    elsewhere = tmp_path / FIRST
    put(store, FIRST).rename(elsewhere)
    put(store, FIRST, "of this home")
    strange = tmp_path / "no id"
    put(store, SECOND).rename(strange)
    before = snapshot(tmp_path)
    for folder in (elsewhere, strange):
        with pytest.raises(holdfast.UsageError, match="not a session of"):
            store.delete(folder)
    assert snapshot(tmp_path) == before


def test_one_key_can_be_deleted_again_and_again(store, home):
    for text in ("first life", "second life"):
        with store.session("key") as session:
            session.append(holdfast.user(text))
        store.delete(session.id)
    assert len(trashed(home)) == 2
    # The last deleted one comes back first.
    session_id = key_session_id("key")
    assert store.restore(session_id) == session_id
    with store.session("key", mode="read") as reader:
        assert reader.messages == [holdfast.user("second life")]
    before = snapshot(home)
    with pytest.raises(holdfast.SessionExists):
        store.restore(session_id)
    assert snapshot(home) == before
    store.delete(session_id)
    assert len(trashed(home)) == 2


@pytest.mark.parametrize("kind", ["file", "link"])
def test_nothing_is_restored_over_something_else(store, home, tmp_path, kind):
    folder = put(store, FIRST)
    store.delete(FIRST)
    if kind == "file":
        folder.write_bytes(b"mine")
    else:
        folder.symlink_to(tmp_path)
    before = snapshot(home)
    with pytest.raises(holdfast.SessionExists):
        store.restore(FIRST)
    assert snapshot(home) == before


def test_what_cannot_be_restored_is_said(store, home):
    with pytest.raises(holdfast.SessionNotFound, match="No session"):
        store.restore(FIRST)
    for session_id in (FIRST, SECOND):
        put(store, session_id)
        store.delete(session_id)
    with pytest.raises(holdfast.SessionNotFound, match="More than one"):
        store.restore("0102")
    (home / "trash" / "notes").mkdir()
    (home / "trash" / f"{FIRST}.link").symlink_to(home)
    (home / "trash" / "20260102-030405-zzzzzzzz.file").write_bytes(b"")
    for part in ("notes", "zzzz"):
        with pytest.raises(holdfast.SessionNotFound, match="No session"):
            store.restore(part)
    assert store.restore(FIRST) == FIRST
    assert store.open(FIRST, mode="read").messages == [holdfast.user("hello")]


def test_restoring_makes_the_month_again(store, home):
    folder = put(store, FIRST)
    store.delete(FIRST)
    folder.parent.rmdir()
    store.restore(FIRST)
    assert folder.is_dir()


def test_a_session_that_is_being_written_is_not_deleted(store, home):
    with store.create(session_id=FIRST) as session:
        session.append(holdfast.user("hello"))
        with pytest.raises(holdfast.SessionLocked):
            store.delete(FIRST)
        assert store.cleanup(datetime.now(UTC) + timedelta(hours=1)) == 0
        session.append(holdfast.user("undisturbed"))
    assert trashed(home) == []


def test_deletion_is_durable_where_it_went_before_it_is_where_it_was(fragile, files, home):
    folder = put(fragile, FIRST)
    files.calls.clear()
    fragile.delete(FIRST)
    assert files.first("rename", FIRST) < files.last("sync_folder", "trash")
    assert files.last("sync_folder", "trash") < files.last("sync_folder", folder.parent.name)


@pytest.mark.parametrize("method", ["open_lock", "make_folder", "rename", "sync_folder"])
def test_a_deletion_that_fails_is_an_error_of_ours(fragile, files, method):
    put(fragile, FIRST)
    files.fail(method)
    with pytest.raises(holdfast.StorageError, match="cannot be deleted"):
        fragile.delete(FIRST)
    if method != "sync_folder":
        with fragile.open(FIRST) as session:  # the lock was let go
            assert session.messages == [holdfast.user("hello")]


def test_a_restoration_that_fails_is_an_error_of_ours(fragile, files):
    put(fragile, FIRST)
    fragile.delete(FIRST)
    files.fail("rename")
    with pytest.raises(holdfast.StorageError, match="cannot be restored"):
        fragile.restore(FIRST)
    assert fragile.restore(FIRST) == FIRST


EAST, WEST = timezone(timedelta(hours=14)), timezone(-timedelta(hours=12))


class FakeZone(tzinfo):
    """A zone that is two days off, which none can be."""

    def utcoffset(self, _: datetime | None) -> timedelta:
        return timedelta(days=2)

    dst = utcoffset

    def tzname(self, _: datetime | None) -> str:
        return "nowhere"


@pytest.fixture
def ages(store, monkeypatch):
    """Sessions that were last updated 1, 10 and 100 days ago; returns their ids."""
    ids = {}
    for days in (1, 10, 100):
        at = datetime.now(UTC) - timedelta(days=days)
        text = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        monkeypatch.setattr("holdfast.journal.format.timestamp", lambda text=text: text)
        ids[days] = put(store).name
    monkeypatch.undo()
    return ids


@pytest.mark.parametrize(
    ("older_than", "left"),
    [
        (timedelta(days=5), {1}),
        (timedelta(days=50), {1, 10}),
        (5 * 86400, {1}),
        (50 * 86400.0, {1, 10}),
        (datetime.now(UTC) - timedelta(days=5), {1}),
        (timedelta(days=1000), {1, 10, 100}),
        (datetime(300, 1, 1, tzinfo=UTC), {1, 10, 100}),
        (0, set()),
        (datetime.min, {1, 10, 100}),  # noqa: DTZ901  as people write it
        (datetime.min.replace(tzinfo=EAST), {1, 10, 100}),
        (datetime.max.replace(tzinfo=WEST), set()),
    ],
)
def test_cleaning_up_by_age_counts_what_it_moved(store, home, ages, older_than, left):
    assert store.cleanup(older_than) == 3 - len(left)
    assert {summary.id for summary in store.list()} == {ages[days] for days in left}
    assert len(trashed(home)) == 3 - len(left)
    assert store.cleanup(older_than) == 0
    for days in {1, 10, 100} - left:
        store.restore(ages[days])
    assert len(store.list()) == 3


@pytest.mark.parametrize(
    "older_than",
    [
        "1d",
        None,
        float("nan"),
        timedelta.max,
        -float("inf"),
        -3600,
        -0.001,
        timedelta(days=-1),
        datetime(2026, 1, 1, tzinfo=FakeZone()),
    ],
)
def test_an_age_that_is_none_is_refused(store, home, ages, older_than):
    before = snapshot(home)
    with pytest.raises(holdfast.UsageError):
        store.cleanup(older_than)
    assert snapshot(home) == before


def test_cleaning_up_leaves_what_is_held_or_damaged(store, home, ages):
    source = f"session = store.open({ages[100]!r})\nready()"
    damaged = store.open(ages[10], mode="read").path / "journal.jsonl"
    data = damaged.read_bytes()
    damaged.write_bytes(data.replace(b'{"seq":0', b"\xff" * 8))
    with running(source, home):
        assert store.cleanup(timedelta(0)) == 1
    assert {summary.id for summary in store.list()} == {ages[10], ages[100]}
    assert store.cleanup(timedelta(0)) == 1


def test_cleaning_up_removes_what_was_left_of_making_a_session(store, home, tmp_path):
    put(store)
    sessions = home / "sessions"
    old = time.time() - 7200

    def abandoned(name: str) -> Path:
        folder: Path = sessions / f".new-{name}"
        (folder / "blobs").mkdir(parents=True)
        (folder / "blobs" / "x").write_bytes(b"payload")
        (folder / "lock").write_bytes(b"")
        os.utime(folder, (old, old))
        return folder

    gone, held = abandoned("gone"), abandoned("held")
    fresh = sessions / ".new-fresh"
    fresh.mkdir()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "precious").write_bytes(b"keep me")
    link = sessions / ".new-link"
    link.symlink_to(tmp_path / "theirs")
    os.utime(link, (old, old), follow_symlinks=False)
    os.utime(tmp_path / "theirs", (old, old))
    file = sessions / ".new-file"
    file.write_bytes(b"")
    os.utime(file, (old, old))
    source = """
import fcntl
fcntl.flock(os.open(sys.argv[1] + "/sessions/.new-held/lock", os.O_RDWR), fcntl.LOCK_EX)
ready()
"""
    with running(source, home):
        assert store.cleanup(3600) == 0
        assert not gone.exists()
        assert held.exists()
        assert fresh.exists()
        assert file.exists()
        assert (tmp_path / "theirs" / "precious").read_bytes() == b"keep me"
    assert store.cleanup(3600) == 0
    assert not held.exists()
    assert len(store.list()) == 1


def test_what_was_being_made_and_is_gone_already_does_no_harm(fragile, files, home, monkeypatch):
    put(fragile)

    class Gone:
        name = ".new-gone"
        path = str(home / "sessions" / name)

        def is_dir(self, *, follow_symlinks: bool) -> bool:
            return True

        def stat(self, *, follow_symlinks: bool) -> os.stat_result:
            raise FileNotFoundError

    real = files.folders
    monkeypatch.setattr(
        files,
        "folders",
        lambda folder: [Gone(), *real(folder)] if folder.name == "sessions" else real(folder),
    )
    assert fragile.cleanup(3600) == 0


def test_what_a_crash_left_of_a_purge_is_removed(store):
    with store.create() as session:
        session.append(holdfast.user("hello"))
    store.delete(session.id)
    (gone,) = store.deleted()
    left = Path(gone.path).with_name(".going-x")
    Path(gone.path).rename(left)
    assert store.half_erased().count == 1
    assert left.exists()
    store.half_erased(remove=True)
    assert not left.exists()
