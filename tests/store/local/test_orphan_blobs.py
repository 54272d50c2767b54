"""Blobs that nothing names: found, removed, and never one that is needed."""

from __future__ import annotations

import gzip
import json
import os
import time
from pathlib import Path

import pytest

import holdfast
from holdfast import Custom, FileChange, Message, ToolResult, user
from holdfast.store.local import orphan_blobs
from holdfast.store.types import Leftovers
from tests.processes import running

ID = "20260102-030405-aaaabbbb"
LARGE = "x" * 300_000
HOLDER = """
import holdfast
session = holdfast.open_store(sys.argv[1]).open(sys.argv[2])
ready()
sys.stdin.read()
"""


@pytest.fixture
def folder(store):
    with store.create(session_id=ID) as session:
        session.append(user("hello"))
    return session.path


def keep(store: holdfast.Store, data: bytes) -> str:
    with store.open(ID) as session:
        return session.keep(data)


def age(folder: Path, hours: float = 2.0) -> None:
    """Let every blob be so old."""
    then = time.time() - hours * 3600
    for path in (folder / "blobs").iterdir():
        os.utime(path, (then, then), follow_symlinks=False)


def names(folder: Path) -> set[str]:
    return {path.name for path in (folder / "blobs").iterdir()}


def test_a_session_without_blobs_is_not_even_locked(store, folder):
    with store.open(ID):
        assert store.leftovers(ID) == Leftovers()


def test_what_nothing_names_is_counted_and_then_removed(store, folder):
    lost = keep(store, b"lost")
    (folder / "blobs" / f".{lost}.abcdefgh").write_bytes(b"half")
    (folder / "blobs" / "README").write_bytes(b"somebody else's")
    age(folder)
    found = store.leftovers(ID)
    assert (found.count, found.size_bytes, found.kept) == (2, 8, None)
    assert lost in names(folder)
    assert store.leftovers(ID, remove=True).count == 2
    assert names(folder) == {"README"}
    assert store.leftovers(ID, remove=True).count == 0


def test_what_is_young_stays(store, folder):
    lost = keep(store, b"lost")
    age(folder, 0.9)
    assert store.leftovers(ID, remove=True).count == 0
    assert names(folder) == {lost}


def test_whatever_names_a_blob_keeps_it(store, folder):
    with store.open(ID) as session:
        session.append(user(LARGE))
        before, after = session.keep(b"before"), session.keep(b"after")
        output, restored = session.keep(b"output"), session.keep(b"restored")
        result = ToolResult(
            call_id="c",
            content=[],
            outcome="completed",
            changes=[FileChange(path="a", before=before, after=after)],
            kept=[before, after, output],
        )
        session.append(Message(role="tool", content=[result]))
        session.append(Custom("files.restored", {"found": restored}))
        unknown = session.keep(b"of a later version")
        session.append(Custom("whatever", [{"deep": f"see {unknown}!"}]))
    age(folder)
    assert len(names(folder)) == 6
    assert store.leftovers(ID, remove=True).count == 0
    assert len(names(folder)) == 6


def test_what_only_an_archive_names_stays(store, folder):
    with store.open(ID) as session:
        session.append(user(LARGE))
        session.checkpoint("so far")
        session.append(user("on"))
        session.compact()
    (blob,) = names(folder)
    journal = (folder / "journal.jsonl").read_bytes()
    assert blob.encode() not in journal
    age(folder)
    assert store.leftovers(ID, remove=True).count == 0
    (archive,) = (folder / "archive").iterdir()
    whole = archive.read_bytes()
    archive.write_bytes(gzip.compress(b"first") + whole)  # a name in a second part
    assert store.leftovers(ID).count == 0
    archive.unlink()
    assert store.leftovers(ID, remove=True).count == 1


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"no archive at all"])
def test_an_archive_that_cannot_be_read_keeps_all(store, folder, damage):
    keep(store, b"lost")
    with store.open(ID) as session:
        session.compact()
    (archive,) = (folder / "archive").iterdir()
    archive.write_bytes(damage(archive.read_bytes()))
    age(folder)
    found = store.leftovers(ID, remove=True)
    assert (found.count, len(names(folder))) == (0, 1)
    assert "cannot be read" in (found.kept or "")


def test_an_archive_of_another_kind_keeps_all(store, folder):
    keep(store, b"lost")
    (folder / "archive").mkdir()
    (folder / "archive" / "journal.zst").write_bytes(b"?")
    age(folder)
    assert store.leftovers(ID, remove=True).kept == "journal.zst cannot be searched"


def test_a_file_of_too_many_digits_keeps_all(store, folder, monkeypatch):
    monkeypatch.setattr(orphan_blobs, "_MOST_NAMES", 1000)
    keep(store, b"lost")
    (folder / "digits").write_bytes(b"0" * 1001)
    age(folder)
    kept = store.leftovers(ID, remove=True).kept
    assert kept == "digits cannot be read (it has too many possible names of blobs)"
    (folder / "digits").write_bytes(b"0" * 1000)
    age(folder)
    assert store.leftovers(ID, remove=True).count == 1


@pytest.mark.parametrize("name", ["damaged/tail-1.bin", "live.jsonl", "journal.2.jsonl.bak"])
def test_what_any_other_file_names_stays_across_chunks(store, folder, name):
    blob = keep(store, b"kept")
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"\0" * (1024 * 1024 - 30) + b"f" * 5 + blob.encode() + b"0" * 40)
    age(folder)
    assert store.leftovers(ID, remove=True).count == 0


def test_a_damaged_journal_keeps_all(store, folder):
    keep(store, b"lost")
    with store.open(ID) as session:
        session.append([user("one"), user("two")])
    path = folder / "journal.jsonl"
    data = path.read_bytes()
    place = data.index(b'"one"')
    path.write_bytes(data[: place - 20] + b"\0" * 30 + data[place + 10 :])
    age(folder)
    assert store.leftovers(ID, remove=True).kept == "its journal is damaged"
    assert len(names(folder)) == 1


def test_links_are_neither_followed_nor_removed(store, folder, tmp_path):
    lost = keep(store, b"lost")
    (tmp_path / "mine").write_bytes(b"mine")
    link = folder / "blobs" / ("f" * 64)
    link.symlink_to(tmp_path / "mine")
    age(folder)
    assert store.leftovers(ID, remove=True).count == 1
    assert link.is_symlink()
    (folder / "link").symlink_to(tmp_path / "mine")
    keep(store, b"lost")
    age(folder)
    assert "link cannot be read" in (store.leftovers(ID, remove=True).kept or "")
    assert lost in names(folder)


def test_a_session_that_is_being_written_is_left_alone(store, home, folder):
    keep(store, b"lost")
    age(folder)
    with running(HOLDER, home, ID), pytest.raises(holdfast.SessionLocked):
        store.leftovers(ID, remove=True)
    assert len(names(folder)) == 1


def test_forks_share_blobs_and_lose_none(store, folder):
    with store.open(ID) as session:
        session.append(user(LARGE))
        fork = session.fork()
        fork.close()
        session.clear()
        session.append(user("anew"))
        session.compact()
    age(folder)
    for path in (folder / "archive").iterdir():
        path.unlink()
    assert store.leftovers(ID, remove=True).count == 1
    with store.open(fork.id, mode="read") as copy:
        assert copy.messages[-1].text == LARGE


def test_how_much_room_a_session_takes(store, folder):
    (folder / "below").mkdir()
    (folder / "below" / "file").write_bytes(b"x" * 1000)
    expected = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert store.size_bytes(ID) == expected
    store.delete(ID)
    (gone,) = store.deleted()
    assert store.size_bytes(gone) == expected
    assert json.dumps(gone.at)
