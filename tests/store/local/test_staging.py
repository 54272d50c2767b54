"""Sessions made whole from entries of elsewhere: there with everything, or not there at all."""

from __future__ import annotations

import errno

import pytest

import holdfast
from holdfast import Checkpoint, user
from holdfast.model.entry import NO_PARENT_FIELD
from holdfast.store.write.encode import ImportedEntry, encode_all

ID = "20260506-180000-abcdefgh"


STARTED = "2026-05-06T18:00:00.000Z"


def past(seq, body, parent=NO_PARENT_FIELD, at=STARTED):
    (draft,), payloads = encode_all([body])
    return ImportedEntry(seq, at, draft, parent, payloads)


def fill(staging, count=3):
    for number in range(count):
        parent = None if number == 0 else 10 * number
        at = f"2026-05-06T18:00:{number % 60:02d}.000Z"
        staging.add(past(10 * (number + 1), user(f"m{number}"), parent, at))


def test_a_checkpoint_at_the_end(store, monkeypatch):
    monkeypatch.setattr("holdfast.store.local.staging._CHUNK_BYTES", 1)
    with store.stage(ID, started=STARTED) as staging:
        staging.add(past(1, user("a"), None))
        staging.add(past(2, Checkpoint([user("sum")], 2), 1))
        staging.publish()
    with store.open(ID, mode="read") as session:
        assert [message.text for message in session.context()] == ["sum"]
        assert [entry.type for entry in session.follow(wait=False)].count("mark") == 1


def test_large_payloads_are_blobs(store):
    large = "large " * 60_000
    with store.stage(ID, started=STARTED) as staging:
        staging.add(past(1, user(large), None))
        staging.publish()
    with store.open(ID, mode="read") as session:
        assert session.messages[0].text == large
        assert len(list((session.path / "blobs").iterdir())) == 1


def test_what_is_not_published_leaves_nothing(store):
    with store.stage(ID, started=STARTED) as staging:
        fill(staging)
    assert list((store.path / "sessions").iterdir()) == []
    with pytest.raises(ZeroDivisionError), store.stage(ID, started=STARTED) as staging:
        staging.add(past(1, user("large " * 60_000), None))
        raise ZeroDivisionError
    assert list((store.path / "sessions").iterdir()) == []


def test_a_taken_place(store):
    for _ in range(2):
        with store.stage(ID, started=STARTED) as staging:
            fill(staging)
            if store.ids():
                with pytest.raises(holdfast.SessionExists):
                    staging.publish()
            else:
                staging.publish()
    assert store.ids() == {ID}
    assert store.verify(ID).ok
    assert [each.name for each in (store.path / "sessions").iterdir()] == ["2026-05"]


@pytest.mark.parametrize("method", ["open_append", "write", "sync", "sync_folder", "rename"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_trouble_of_the_disk_leaves_nothing_half_visible(fragile, files, method, code):
    expected = holdfast.DiskFull if code == errno.ENOSPC else holdfast.StorageError
    fragile.scratch().rmdir()  # the folders above are there
    files.fail(method, code)
    with pytest.raises(expected), fragile.stage(ID, started=STARTED) as staging:
        fill(staging)
        staging.publish()
    files.heal()
    assert fragile.list() == []
    with fragile.stage(ID, started=STARTED) as staging:
        fill(staging)
        staging.publish()
    assert fragile.verify(ID).ok


def test_a_scratch_folder_is_no_session(store):
    folder = store.scratch()
    assert folder.is_dir()
    assert store.list() == []
    assert store.ids() == set()
