"""Edits of sessions that nobody has, that another writer has, and of the trash."""

from __future__ import annotations

import pytest

from holdfast import SessionLocked, SessionNotFound, UsageError, open_store, user
from holdfast.keeper.edit import delete_session, rename_session, session_tags, tag_session
from holdfast.keeper.trash import read_deleted, resolve_deleted, restore_sessions


@pytest.fixture
def session_id(store):
    with store.create(workspace=None) as session:
        session.append(user("the first prompt"))
    return session.id


def title(store, session_id):
    with store.open(session_id, mode="read") as session:
        return session.state.title


def test_a_session_at_rest_is_renamed(store, session_id):
    renamed = rename_session(store, session_id, "  mine ")
    assert (renamed.session, renamed.title) == (session_id, "mine")
    assert title(store, session_id) == "mine"
    with pytest.raises(UsageError, match="1 to 500"):
        rename_session(store, session_id, " ")
    assert title(store, session_id) == "mine"
    rename_session(store, session_id, "", optional=True)
    assert title(store, session_id) == "the first prompt"


def test_a_session_at_rest_is_tagged(store, session_id):
    assert tag_session(store, session_id, add=["b", " a "]).tags == ["b", "a"]
    assert tag_session(store, session_id, add=["c"], remove=["b"]).tags == ["a", "c"]
    with pytest.raises(UsageError, match="no tag 'b'"):
        tag_session(store, session_id, add=["d"], remove=["b"])
    assert session_tags(store, session_id).tags == ["a", "c"]
    assert tag_session(store, session_id, add=["x"], replace=True).tags == ["x"]


def test_an_edit_that_changes_nothing_writes_nothing(store, session_id):
    tag_session(store, session_id, add=["a"])
    journal = store.find(session_id) / "journal.jsonl"
    before = journal.read_bytes()
    assert tag_session(store, session_id, add=["a"]).tags == ["a"]
    assert journal.read_bytes() == before


def test_another_writer_is_named_and_nothing_changes(store, session_id):
    with store.open(session_id), open_store(store.path) as other:
        for edit in (
            lambda: rename_session(other, session_id, "mine"),
            lambda: tag_session(other, session_id, add=["a"]),
            lambda: delete_session(other, session_id),
        ):
            with pytest.raises(SessionLocked, match="Nothing was changed; try again") as caught:
                edit()
            assert f"Session {session_id} is being written by process" in str(caught.value)
    assert title(store, session_id) == "the first prompt"
    assert session_tags(store, session_id).tags == []


def test_sessions_are_restored_by_any_name_or_not_at_all(store, session_id):
    delete_session(store, session_id)
    with pytest.raises(SessionNotFound):
        delete_session(store, session_id)
    trash = store.deleted()
    assert read_deleted(store, trash[0]).title == "the first prompt"
    for name in (session_id, session_id[-8:], "The First PROMPT"):
        assert resolve_deleted(store, trash, name) == session_id
    with pytest.raises(SessionNotFound, match=f"Did you mean {session_id}"):
        restore_sessions(store, [session_id, "the first promt"])
    assert store.ids() == set()
    assert restore_sessions(store, ["the first prompt"]) == [session_id]
    assert title(store, session_id) == "the first prompt"


def test_a_name_that_several_deleted_sessions_have(store, session_id):
    with store.create(workspace=None) as session:
        session.append(user("the first prompt"))
    for each in (session_id, session.id):
        delete_session(store, each)
    with pytest.raises(UsageError, match="2 deleted sessions match"):
        resolve_deleted(store, store.deleted(), "the first prompt")
