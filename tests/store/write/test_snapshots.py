"""Snapshots in files: what is read, and what is said when they are damaged."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import StorageError, user
from holdfast.store.local.reader import Journal


@pytest.fixture
def session(home):
    with holdfast.open_store(home) as store, store.create() as session:
        yield session


def test_a_missing_blob_is_an_error(session):
    session.put("graph", b"x" * 100_000)
    (blob,) = (session.path / "blobs").iterdir()
    blob.write_bytes(b"altered")
    with pytest.raises(StorageError, match=f"{blob.name} is missing or altered"):
        session.get("graph")


def test_a_damaged_line_is_an_error(session):
    session.put("graph", "unlikely words")
    session.close()
    path = session.path / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"name":"graph"', b'"name":"graXh"'))
    with (
        holdfast.open_store(session.path.parents[2]) as store,
        store.open(session.id, mode="read") as again,
    ):
        assert again.get("graph") is None
        assert again.get("graXh") == "unlikely words"  # shown as edited
        again._reading.state.snapshots["graph"] = again.seq
        with pytest.raises(StorageError, match="its line is damaged"):
            again.get("graph")


def test_one_that_is_replaced_and_compacted_meanwhile(session, monkeypatch):
    session.put("graph", 1)
    session.put("gone", 1)
    read = session._reading.entry

    def entry_after(change):
        def entry(seq):
            monkeypatch.setattr(session._reading, "entry", read)
            change()
            session.compact()
            return read(seq)

        monkeypatch.setattr(session._reading, "entry", entry)

    entry_after(lambda: session.put("graph", 2))
    assert session.get("graph") == 2
    entry_after(lambda: session.drop("gone"))
    assert session.get("gone", "default") == "default"


def test_reopening_finds_it_without_reading_history(session, monkeypatch):
    session.put("graph", {"step": 1})
    for _ in range(40):
        session.append([user("words " * 20_000)])
    session.close()
    spent = 0
    size = (session.path / "journal.jsonl").stat().st_size
    read_at = holdfast.files.Files.read_at

    def counted(self, descriptor, length, offset):
        nonlocal spent
        data = read_at(self, descriptor, length, offset)
        spent += len(data)
        return data

    monkeypatch.setattr(holdfast.files.Files, "read_at", counted)
    with (
        holdfast.open_store(session.path.parents[2]) as store,
        store.open(session.id, mode="read") as again,
    ):
        assert again.get("graph") == {"step": 1}
        assert isinstance(again._reading.snapshot, Journal)
    assert 0 < spent < size / 2
