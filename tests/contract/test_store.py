"""Sessions of a store: made, found by key, deleted, verified, used after a fork of the process."""

from __future__ import annotations

import gc
from weakref import WeakSet

import pytest

import holdfast
from holdfast import user
from holdfast.model.ids import key_session_id
from holdfast.model.state import State
from holdfast.store.write import recorder as recorder_module
from holdfast.store.write.recorder import Recorder


def test_what_was_said_before_the_first_entry_goes_with_it(store):
    with store.create(title="first") as session:
        session.update(title="second", model="m")
        session.append(holdfast.user("hello"))
    opened = store.open(session.id, mode="read")
    assert opened.meta == {"title": "second", "model": "m"}


def test_a_key_id_cannot_be_taken_without_the_key(store):
    with pytest.raises(holdfast.UsageError):
        store.create(session_id="key-" + "a" * 52)


def test_a_key_opens_its_session_again(store):
    for text in ("one", "two"):
        with store.session("telegram:42", title="chat", workspace="/") as session:
            session.append(holdfast.user(text))
    with store.session("telegram:42") as session:
        assert [message.text for message in session.messages] == ["one", "two"]
        assert session.meta["title"] == "chat"
        assert session.meta["workspace"] == "/"
    with store.open(key_session_id("telegram:42")) as session:
        assert len(session.messages) == 2


def texts(session):
    return [message.text for message in session.messages]


@pytest.fixture
def alone(monkeypatch):
    """Let the module know of no recorder but those of this test."""
    recorders: WeakSet[Recorder] = WeakSet()
    monkeypatch.setattr(recorder_module, "_open", recorders)
    return recorders


def test_a_closed_session_that_was_deleted_says_so(store):
    with store.create() as session:
        session.append(user("a"))
    store.delete(session.id)
    with pytest.raises(holdfast.SessionNotFound):
        session.messages  # noqa: B018


def test_a_session_of_the_parent_takes_nothing_in_the_child(store, alone):
    session = store.create()
    session.append(user("a"))
    recorder_module._leave_all_to_parent()
    with pytest.raises(holdfast.UsageError, match="before a fork"):
        session.append(user("b"))
    recorder = session._recorder
    recorder.closed = recorder._forked = False
    session.close()
    assert texts(session) == ["a"]


LARGE = "x" * 300_000


@pytest.fixture
def session(store):
    with store.create() as session:
        session.append(holdfast.user("one"))
        session.append(holdfast.assistant("two"))
        session.append(holdfast.user("three"))
        session.append([holdfast.user(LARGE), holdfast.user(LARGE)])
    return session


def test_a_session_that_is_being_written_is_intact(store):
    with store.create() as session:
        session.append(holdfast.user("one"))
        assert store.verify(session.id).ok


FIRST = "20260102-030405-aaaabbbb"


SECOND = "20260102-030406-aaaacccc"


def put(store, session_id):
    with store.create(session_id=session_id) as session:
        session.append(user("hello"))


def test_it_is_listed_last_deleted_first(store):
    assert store.deleted() == []
    for each in (SECOND, FIRST):
        put(store, each)
        store.delete(each)
    put(store, FIRST)
    store.delete(FIRST)
    assert [gone.id for gone in store.deleted()] == [FIRST, FIRST, SECOND]
    assert all(gone.at > "2026" for gone in store.deleted())


def submit_many(store, session_id):
    session = store.open(session_id)
    for number in range(50):
        session.submit(user(str(number)))


def test_closing_the_store_closes_sessions_that_no_variable_refers_to(store):
    with store.create() as made:
        made.append(user("first"))
    submit_many(store, made.id)
    gc.collect()
    store.close()
    with store.open(made.id) as again:
        assert texts(again) == ["first", *map(str, range(50))]


def test_the_last_number_is_read_without_a_copy_of_the_state(store, monkeypatch):
    with store.create() as session:
        assert session.seq == -1
        position = session.append(user("a"))
        monkeypatch.setattr(State, "copy", None)
        assert session.seq == position.seq


def test_a_store_and_a_session_say_what_they_are(store):
    assert repr(store) == f"<Store at {store.location}>"
    with store.create() as session:
        assert repr(session) == f"<Session {session.id}, last entry -1, open for writing>"
        seq = session.append(holdfast.user("hello")).seq
    assert repr(session) == f"<Session {session.id}, last entry {seq}, closed>"
    with store.open(session.id, mode="read") as again:
        assert repr(again) == f"<Session {session.id}, last entry {seq}, read-only>"
