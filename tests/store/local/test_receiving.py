"""Sessions copied from elsewhere: whole, under their own id, or not at all."""

from __future__ import annotations

import errno
import os
import stat

import pytest

import holdfast
from holdfast.model.entry import FORMAT
from holdfast.store.local.staging import is_session_file

ID = "20260101-000000-abcdefgh"
HEADER = (
    b'{"seq":0,"at":"2026-01-01T00:00:00.000Z","type":"header","format":1,'
    b'"session":"%b","uid":"u"%b}\n'
)
EVENT = b'{"seq":1,"at":"2026-01-01T00:00:00.000Z","type":"event","name":"x"}\n'


@pytest.fixture
def made(store):
    with store.create(title="t") as session:
        session.append(holdfast.user("x" * 300_000))
    return session


def leftovers(store):
    return [each.name for each in (store.path / "sessions").iterdir() if each.name[0] == "."]


def test_files_are_copied_to_the_byte(made, tmp_path):
    with holdfast.open_store(tmp_path / "other") as other:
        with other.receive(made.id) as receiving:
            for path in made.path.rglob("*"):
                if path.is_file() and path.name not in ("lock", "origin.json"):
                    data = path.read_bytes()
                    name = str(path.relative_to(made.path))
                    receiving.add(name, [data[:100], data[100:]])
            assert other.ids() == set()
            assert receiving.publish() == made.id
        assert other.verify(made.id).ok
        with other.open(made.id) as copy:
            assert copy.messages == made.messages
            assert copy.recovery.clean
            copy.append(holdfast.user("goes on"))
            for path in copy.path.rglob("*"):
                assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
        assert leftovers(other) == []


@pytest.mark.parametrize(
    "name", ["lock", "../x", "/x", "blobs/x", "blobs", "journal.1x.jsonl", "damaged/../x", ".x", ""]
)
def test_a_name_that_no_session_has_is_refused(store, name):
    assert not is_session_file(name)
    with (
        store.receive(ID) as receiving,
        pytest.raises(holdfast.UsageError, match="not a valid file name"),
    ):
        receiving.add(name, [b"x"])
    assert leftovers(store) == []


def test_a_file_comes_once(store):
    with store.receive(ID) as receiving:
        receiving.add("live.jsonl", [b"x"])
        with pytest.raises(holdfast.UsageError, match="not a valid file name"):
            receiving.add("live.jsonl", [b"x"])


def test_an_id_of_another_shape_is_refused(store):
    with pytest.raises(holdfast.UsageError, match="not a session id"):
        store.receive("../../etc")


@pytest.mark.parametrize(
    ("session_id", "journal", "error"),
    [
        (ID, b"hello\n", holdfast.DamagedJournal),
        (ID, HEADER % (b"20260101-000000-zzzzzzzz", b""), holdfast.StorageError),
        ("key-" + "a" * 52, HEADER % (b"key-" + b"a" * 52, b""), holdfast.StorageError),
        ("key-" + "a" * 52, HEADER % (b"key-" + b"a" * 52, b',"key":"k"'), holdfast.StorageError),
        ("key-" + "a" * 52, EVENT, holdfast.StorageError),
    ],
)
def test_what_is_not_that_session_is_refused(store, session_id, journal, error):
    with store.receive(session_id) as receiving:
        receiving.add("journal.jsonl", [journal])
        with pytest.raises(error):
            receiving.publish()
    assert store.ids() == set()
    assert leftovers(store) == []


def test_a_session_whose_header_is_lost_is_still_one(store):
    assert FORMAT == 1
    with store.receive(ID) as receiving:
        receiving.add("journal.jsonl", [b"torn\n", EVENT])
        receiving.publish()
    assert store.ids() == {ID}


def test_a_session_without_a_journal_is_refused(store):
    with store.receive(ID) as receiving:
        receiving.add("live.jsonl", [b"x"])
        with pytest.raises(holdfast.StorageError):
            receiving.publish()
    assert leftovers(store) == []


def test_a_place_that_is_taken_stays_as_it_is(store, made):
    data = (made.path / "journal.jsonl").read_bytes()
    with store.receive(made.id) as receiving:
        receiving.add("journal.jsonl", [data])
        with pytest.raises(holdfast.SessionExists):
            receiving.publish()
    assert (made.path / "blobs").exists()
    assert leftovers(store) == []


@pytest.mark.parametrize("call", ["write", "sync", "sync_folder", "make_folder"])
def test_a_full_disk_leaves_nothing(fragile, files, call):
    with fragile.receive(ID) as receiving:
        files.fail(call, errno.ENOSPC)
        with pytest.raises(holdfast.DiskFull):
            receiving.add("blobs/" + "a" * 64, [b"x"])
    assert leftovers(fragile) == []


def test_what_cannot_be_removed_is_swept_away_later(fragile, files):
    with fragile.receive(ID) as receiving:
        receiving.add("live.jsonl", [b"x"])
        files.fail("unlink", errno.EIO)
    assert len(leftovers(fragile)) == 1
    folder = fragile.path / "sessions" / leftovers(fragile)[0]
    os.utime(folder, (0, 0))
    fragile.cleanup(older_than=10**9)
    assert leftovers(fragile) == []
