"""Links inside a session folder: nothing is written, or removed, where they lead."""

from __future__ import annotations

import os
import time

import pytest

import holdfast
from holdfast import user
from holdfast.files import Files
from holdfast.store.types import Leftovers
from tests.disk import snapshot

LARGE = "x" * 300_000
REAL = Files()


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


@pytest.fixture
def folder(store):
    with store.create() as session:
        session.append(user("hello"))
    return session.path


def test_a_real_folder_is_made_or_found(tmp_path):
    assert REAL.make_real_folder(tmp_path / "new")
    assert not REAL.make_real_folder(tmp_path / "new")
    (tmp_path / "link").symlink_to("new")
    (tmp_path / "loose").symlink_to("nothing")
    (tmp_path / "file").touch()
    for name in ("link", "loose", "file"):
        with pytest.raises(NotADirectoryError, match=name):
            REAL.make_real_folder(tmp_path / name)


def test_a_payload_is_not_written_where_a_link_leads(store, folder, outside):
    (folder / "blobs").symlink_to(outside)
    with store.open(folder) as session:
        with pytest.raises(holdfast.StorageError, match="Not a directory"):
            session.keep(b"data")
        with pytest.raises(holdfast.WriteFailed, match="Not a directory"):
            session.append(user(LARGE))
        assert [message.text for message in session.messages] == ["hello"]
    assert list(outside.iterdir()) == []


def test_a_journal_is_not_archived_where_a_link_leads(store, folder, outside):
    (folder / "archive").symlink_to(outside)
    with store.open(folder) as session:
        for call in (session.compact, session.mend):
            with pytest.raises(holdfast.StorageError, match="Not a directory"):
                call()
        session.append(user("goes on"))
    assert list(outside.iterdir()) == []
    assert store.verify(folder).ok


def test_a_torn_end_is_not_set_aside_where_a_link_leads(store, folder, outside):
    (folder / "damaged").symlink_to(outside)
    with (folder / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"seq":9,"torn')
    before = snapshot(folder)
    with pytest.raises(holdfast.StorageError, match="Not a directory"):
        store.open(folder)
    after = snapshot(folder)
    assert after["journal.jsonl"] == before["journal.jsonl"]
    assert list(outside.iterdir()) == []
    with store.open(folder, mode="read") as session:
        assert [message.text for message in session.messages] == ["hello"]


def test_what_a_link_leads_to_is_not_collected(store, folder, outside):
    with store.open(folder) as session:
        name = session.keep(b"data")
    (folder / "blobs" / name).rename(outside / name)
    (folder / "blobs").rmdir()
    (folder / "blobs").symlink_to(outside)
    then = time.time() - 7200
    os.utime(outside / name, (then, then))
    assert store.leftovers(folder.name, remove=True) == Leftovers()
    assert (outside / name).exists()
