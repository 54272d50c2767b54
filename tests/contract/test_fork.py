"""Forks: the branch in a session of its own, whatever becomes of the first one."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Label, Turn, assistant, user


def texts(messages):
    return [message.text for message in messages]


@pytest.fixture
def session(store):
    session = store.create(title="t", model="m")
    session.append([user("a"), assistant("b"), user("c")])
    session.usage(input=10, output=1, cost_usd=1.0)
    return session


def test_a_fork_has_the_whole_branch(store, session):
    fork = session.fork()
    assert fork.id != session.id
    assert fork.messages == session.messages
    assert fork.meta == session.meta
    assert not fork.read_only
    fork.append(user("only here"))
    session.append(user("only there"))
    assert texts(fork.messages) == ["a", "b", "c", "only here"]
    assert texts(session.messages) == ["a", "b", "c", "only there"]
    fork.close()
    with store.open(fork.id) as again:
        assert again.recovery.clean
        assert texts(again.messages) == ["a", "b", "c", "only here"]
        again.append(user("more"))
    assert store.verify(fork.id).ok
    header = next(fork.follow(wait=False)).body
    assert header.forked_from.session == session.id
    assert header.forked_from.seq == 4


def test_a_fork_at_an_earlier_entry(store, session):
    first = session.append(user("d"))
    session.append(user("e"))
    fork = session.fork(first)
    assert texts(fork.messages) == ["a", "b", "c", "d"]
    again = session.fork(at=3)
    assert texts(again.messages) == ["a", "b"]
    for wrong in (0, 5, 999):
        with pytest.raises(holdfast.UsageError, match="to fork at"):
            session.fork(wrong)
    assert store.verify(fork.id).ok


def test_a_fork_of_another_branch_than_the_current_one(store, session):
    tip = session.append(user("old tip"))
    session.rewind(2)
    session.append(user("new branch"))
    assert texts(session.fork(tip).messages) == ["a", "b", "c", "old tip"]
    assert texts(session.fork().messages) == ["a", "new branch"]


def test_a_fork_of_a_read_only_session(store, session):
    reader = store.open(session.id, "read")
    assert reader.fork().messages == session.messages


def test_a_fork_of_a_closed_session(store, session):
    session.close()
    assert texts(session.fork().messages) == ["a", "b", "c"]


def test_there_is_nothing_to_fork_before_the_first_entry(store):
    with pytest.raises(holdfast.UsageError, match="nothing to fork"):
        store.create().fork()


def test_what_was_submitted_is_in_the_fork(store, session):
    session.submit(user("just submitted"))
    assert texts(session.fork().messages)[-1] == "just submitted"


def test_labels_go_with_the_entries_they_name(store, session):
    session.append([Label("kept", 2), Label("gone", 4)])
    session.append([Label("removed", 2), Label("moved", 2)])
    session.append([Label("removed", None), Label("moved", 4)])
    fork = session.fork(at=3)
    assert fork.state.labels == {"kept": 2}
    fork.close()
    assert store.open(fork.id, "read").state.labels == {"kept": 2}


def test_a_branch_with_holes_keeps_its_checkpoint(store, session):
    session.append([Turn("completed")])
    session.checkpoint("so far", keep_last=1)
    session.append(Turn("started"))
    fork = session.fork()
    assert texts(fork.context()) == ["so far", "c"]
    session.append(user("d"))
    session.append(Turn("completed"))
    fork = session.fork()
    assert texts(fork.context()) == ["so far", "c", "d"]
    assert texts(fork.messages) == ["a", "b", "c", "d"]
    fork.append(user("e"))
    assert texts(fork.context()) == ["so far", "c", "d", "e"]
    second = fork.fork()
    second.close()
    assert texts(store.open(second.id).context()) == ["so far", "c", "d", "e"]
    assert store.verify(second.id).ok


def test_a_fork_of_a_fork_that_was_made_in_mid_turn(store, session):
    session.append(Turn("started"))
    fork = session.fork()
    assert fork.state.head == 4
    assert texts(fork.fork().messages) == ["a", "b", "c"]


def test_a_fork_of_an_emptied_branch_is_empty(store, session):
    session.clear()
    fork = session.fork()
    assert fork.messages == []
    assert fork.meta == session.meta
    fork.append(user("x"))
    assert texts(fork.messages) == ["x"]


def test_a_fork_of_a_cleared_session_is_empty(store):
    with store.create(title="kept") as session:
        session.append(holdfast.user("one"))
        session.clear()
        with session.fork() as fork:
            assert fork.messages == []
            assert fork.meta["title"] == "kept"
