"""Sessions that are published together: all of them or none, and seen by nobody before."""

from __future__ import annotations

import errno
import os

import pytest

import holdfast
from holdfast.store.local.bulk_publish import Batch
from tests.store.local.test_staging import ID, STARTED, fill

OTHER = "20260507-180000-abcdefgh"


def stage(batch, *ids):
    for each in ids:
        with batch.stage(each, started=STARTED) as staging:
            fill(staging)
            staging.publish()


def inside(store):
    return sorted(path.name for path in (store.path / "sessions" / ".batch").iterdir())


def test_what_is_staged_is_seen_through_the_batch_alone(store):
    with store.batch() as batch:
        stage(batch, ID, OTHER)
        assert store.ids() == set()
        assert store.list() == []
        assert batch.ids() == {ID, OTHER}
        with batch.open(ID, mode="read") as session:
            assert len(session.messages) == 3
        batch.settle({ID})
        batch.publish(b"{}")
        assert store.ids() == batch.ids() == {ID, OTHER}
        batch.settle({ID})
        assert batch.then == b"{}"
        assert store.has_unfinished_batch()
        batch.forget()
        assert batch.then is None
        batch.close()
    assert not store.has_unfinished_batch()
    assert all(store.verify(each).ok for each in (ID, OTHER))
    assert inside(store) == ["lock"]


def test_what_is_not_published_leaves_nothing(store):
    with store.batch() as batch:
        stage(batch, ID)
    assert store.ids() == set()
    assert inside(store) == ["lock"]


def test_a_batch_sweeps_up_after_one_that_died(store):
    with store.batch():
        pass
    folder = store.path / "sessions" / ".batch"
    (folder / "20260506-180000-deadbeef" / "blobs").mkdir(parents=True)
    (folder / ".then.json.abcdefgh").write_bytes(b"half")
    with store.batch():
        assert inside(store) == ["lock"]


def test_a_place_that_is_taken(store):
    with store.batch() as batch:
        stage(batch, ID)
        with batch.stage(ID, started=STARTED) as twice:
            fill(twice)
            with pytest.raises(holdfast.SessionExists):
                twice.publish()
        stage(store, ID)
        stage(batch, OTHER)
        assert batch.publish(b"") == {OTHER}
        batch.forget()
    with store.batch() as batch, batch.stage(ID, started=STARTED) as staging:
        fill(staging)
        with pytest.raises(holdfast.SessionExists):
            staging.publish()
    assert store.ids() == {ID, OTHER}


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize(
    ("method", "name"), [("rename", OTHER), ("sync_folder", "2026-05"), ("write", ".then.json")]
)
def test_a_failure_takes_everything_back(fragile, files, method, name, code):
    with fragile.batch() as batch:
        stage(batch, ID, OTHER)
        files.fail(method, code, name=name)
        expected = holdfast.DiskFull if code == errno.ENOSPC else holdfast.StorageError
        with pytest.raises(expected):
            batch.publish(b"{}")
        assert fragile.ids() == set()
        assert batch.ids() == {ID, OTHER}
        batch.publish(b"{}")
    assert fragile.ids() == {ID, OTHER}


def test_an_interrupt_takes_everything_back(fragile, files):
    def interrupt():
        raise KeyboardInterrupt

    with fragile.batch() as batch:
        stage(batch, ID, OTHER)
        files.on("rename", interrupt, name=OTHER)
        with pytest.raises(KeyboardInterrupt):
            batch.publish(b"")
    assert fragile.ids() == set()


@pytest.mark.parametrize("gone_on", ["appended", "held", "just now"])
def test_what_somebody_has_gone_on_with_stays(fragile, files, gone_on):
    opened = []

    def go_on():
        session = fragile.open(ID)
        if gone_on == "held":
            opened.append(session)
        else:
            session.append(holdfast.user("more"))
            session.close()

    def fail():
        if gone_on == "just now":
            files.on("open_lock", late, name="lock")
        else:
            go_on()
        raise OSError(errno.EIO, "the disk is unwell")

    def late():
        go_on()
        return real_open_lock(fragile._backend.home.folder(ID) / "lock")

    real_open_lock = super(type(files), files).open_lock
    with fragile.batch() as batch:
        stage(batch, ID, OTHER)
        files.on("rename", fail, name=OTHER)
        with pytest.raises(holdfast.StorageError):
            batch.publish(b"")
    assert fragile.ids() == {ID}
    assert [session.close() for session in opened] == [None] * len(opened)
    assert fragile.verify(ID).ok


def test_one_at_a_time(store):
    with store.batch(), pytest.raises(holdfast.StorageError, match="already") as caught:
        store.batch()
    assert caught.value.exit_code == 75


def test_trouble_while_it_is_swept(fragile, files):
    with fragile.batch() as batch:
        stage(batch, ID)
        files.fail("remove_folder", name=ID)
    assert files.left_open == []
    files.fail("unlink", name="journal.jsonl")
    (fragile.path / "sessions" / ".batch" / ID / "journal.jsonl").write_bytes(b"")
    with pytest.raises(holdfast.StorageError):
        fragile.batch()
    assert files.left_open == []
    files.heal()
    with fragile.batch():
        assert inside(fragile) == ["lock"]


def test_the_store_of_a_batch_has_no_other(store):
    with store.batch() as batch:
        assert isinstance(batch, Batch)
        with pytest.raises(holdfast.UsageError):
            batch.migrate("anywhere")


def test_a_batch_that_cannot_look_raises_an_error_of_ours(fragile, files):
    with fragile.batch() as batch:
        stage(batch, ID)
        batch.publish(b"{}")
        for call in (batch.create, lambda: batch.settle({ID}), lambda: batch.open(ID)):
            files.fail("status_of", errno.EACCES)
            with pytest.raises(holdfast.StorageError, match="Permission denied"):
                call()


def test_a_session_of_a_batch_that_cannot_be_made_says_why(fragile, files):
    with fragile.batch() as batch:
        session = batch.create(session_id=ID)

        def give_up() -> None:
            files.fail("status_of", errno.EACCES, times=None)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        files.on("sync", give_up, name="journal.jsonl")
        with pytest.raises(holdfast.WriteFailed, match="Input/output error"):
            session.append(holdfast.user("never"))
        files.heal()
        session.close()


def test_a_batch_is_not_made_where_a_link_leads(store, tmp_path):
    (store.path / "sessions").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (store.path / "sessions" / ".batch").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(holdfast.StorageError, match="Not a directory"):
        store.batch()
    assert list((tmp_path / "elsewhere").iterdir()) == []
