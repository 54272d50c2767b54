"""What a store in memory does not do, and says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import holdfast
from holdfast import user
from holdfast.store.memory import MemoryBackend
from holdfast.store.store import Store


@pytest.fixture
def backend():
    return MemoryBackend()


@pytest.fixture
def store(backend):
    with Store(backend) as store:
        yield store


def test_it_has_no_folder(store):
    session = store.create()
    session.append(user("a"))
    assert store.location == "memory://"
    assert session.location == f"memory://{session.id}"
    for look in (lambda: store.path, lambda: session.path, lambda: store.find(session.id)):
        with pytest.raises(holdfast.UsageError, match="memory://"):
            look()
    for work in (store.checkup, store.batch, store.scratch, store.has_unfinished_batch):
        with pytest.raises(holdfast.UsageError, match="Only a store in a folder"):
            work()
    with pytest.raises(holdfast.SessionNotFound, match="is a path"):
        store.open(Path("/tmp"))


def test_two_stores_share_nothing():
    with holdfast.open_store("memory://") as one, holdfast.open_store("memory://") as other:
        one.create().append(user("a"))
        assert other.ids() == set()


def test_other_media_are_not_supported():
    with pytest.raises(holdfast.UsageError, match="postgresql"):
        holdfast.open_store("postgresql://here/there")


def test_a_line_that_was_altered_is_reported(store, backend):
    session = store.create()
    session.append(user("a"))
    entry = backend.sessions[session.id].entries[-1]
    entry.line = entry.line.replace(b'"a"', b'"b"')
    assert [problem.kind for problem in store.verify(session.id).problems] == ["edited"]


def test_a_session_of_the_parent_takes_nothing_in_the_child(store, monkeypatch):
    session = store.create()
    session.append(user("a"))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(holdfast.UsageError, match="before a fork"):
        session.append(user("b"))


@pytest.mark.parametrize("before", [0, 1])
def test_what_an_interrupt_left_stored_is_not_stored_twice(store, monkeypatch, before):
    """It comes when the entries are stored and before the cursor says so."""
    session = store.create()
    texts = [f"before {number}" for number in range(before)]
    for text in texts:
        session.append(user(text))
    calls: list[str] = []

    def interrupted() -> str:
        calls.append("now")
        if len(calls) == (1 if before else 3):  # making a session takes the time twice
            raise KeyboardInterrupt
        return "2026-11-15T19:40:12.001Z"

    with monkeypatch.context() as patched:
        patched.setattr("holdfast.store.memory.timestamp", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.append(user("a"))
    session.append(user("b"))
    assert [message.text for message in session.messages] == [*texts, "a", "b"]
    assert store.verify(session.id).ok


def test_what_belongs_to_this_machine_is_in_a_temporary_folder(tmp_path, monkeypatch):
    with holdfast.open_store("memory://") as store, holdfast.open_store("memory://") as other:
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        assert store.local_folder.parent == tmp_path
        assert store.local_folder != other.local_folder
        monkeypatch.setenv("TMPDIR", "not/absolute")
        assert str(store.local_folder.parent) == "/tmp"
        assert not store.is_shared
        session = store.create()
        assert session.folder is None
        with pytest.raises(holdfast.UsageError, match="has no folder"):
            _ = session.path
    assert holdfast.open_store(tmp_path).is_shared
    assert list(tmp_path.iterdir()) == []
