"""What is in the trash, and removing it for good."""

from __future__ import annotations

import errno

import pytest

import holdfast
from holdfast import user
from holdfast.store.types import Deleted, Leftovers

FIRST = "20260102-030405-aaaabbbb"


SECOND = "20260102-030406-aaaacccc"


def put(store, session_id):
    with store.create(session_id=session_id) as session:
        session.append(user("hello"))


def test_what_is_erased_is_gone_and_the_rest_is_not(store, home):
    for each in (FIRST, SECOND):
        put(store, each)
        store.delete(each)
    first = store.deleted()[-1]
    store.erase(first)
    assert [gone.id for gone in store.deleted()] == [SECOND]
    assert len(list((home / "trash").iterdir())) == 1
    with pytest.raises(holdfast.UsageError, match="is not in the trash"):
        store.erase(first)
    with pytest.raises(holdfast.SessionNotFound):
        store.restore(FIRST)


def test_only_what_is_in_the_trash_is_erased(store, home):
    put(store, FIRST)
    place = str(store.find(FIRST))
    with pytest.raises(holdfast.UsageError, match="is not in the trash"):
        store.erase(Deleted(FIRST, place, ""))
    assert store.ids() == {FIRST}


def test_half_a_session_is_never_listed_and_goes_with_the_next(home, files):
    store = holdfast.open_store(home, files=files)
    put(store, FIRST)
    store.delete(FIRST)
    (gone,) = store.deleted()
    files.fail("unlink", errno.EIO)
    with pytest.raises(holdfast.StorageError):
        store.erase(gone)
    files.heal()
    assert store.deleted() == []
    assert store.deleted_ids() == set()
    put(store, SECOND)
    store.delete(SECOND)
    store.erase(store.deleted()[0])
    assert list((home / "trash").iterdir()) == []


def test_half_a_session_goes_also_if_there_is_no_next(store, home, tmp_path):
    assert store.half_erased() == store.half_erased(remove=True) == Leftovers()
    trash = home / "trash"
    (trash / ".going-a" / "blobs").mkdir(parents=True)
    (trash / ".going-a" / "blobs" / "x").write_bytes(b"12345")
    (trash / ".going-link").symlink_to(tmp_path)
    assert store.half_erased() == Leftovers(1, 5)
    assert store.half_erased(remove=True) == Leftovers(1, 5)
    assert [each.name for each in trash.iterdir()] == [".going-link"]


def test_two_may_empty_the_trash_at_once(home, files, monkeypatch):
    store = holdfast.open_store(home, files=files)
    put(store, FIRST)
    store.delete(FIRST)
    real = files.remove_folder

    def both(folder):
        real(folder)
        real(folder)

    monkeypatch.setattr(files, "remove_folder", both)
    store.erase(store.deleted()[0])
    assert list((home / "trash").iterdir()) == []


def test_a_trash_that_cannot_be_emptied_is_an_error_of_ours(home, files):
    store = holdfast.open_store(home, files=files)
    (home / "trash" / ".going-a").mkdir(parents=True)
    files.fail("remove_folder", errno.EIO)
    with pytest.raises(holdfast.StorageError, match="cannot be emptied"):
        store.half_erased(remove=True)
