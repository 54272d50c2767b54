"""Entries and sessions that are removed for good."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Head, Label, SessionLocked, SessionNotFound, Turn, UsageError, assistant, user

SECRET = "hunter2 is the password"
LARGE = SECRET + " and more" * 50_000


def texts(session):
    return [message.text for message in session.messages]


def everything(session):
    return b"\n".join(entry.line for entry in session.entries())


def test_an_entry_gives_way_to_a_gap(store):
    with store.create() as session:
        session.append(user("before"))
        place = session.append(assistant(SECRET))
        session.append(user("after"))
        done = session.erase(place)
        assert done == holdfast.Erased(session.id, place.seq)
        assert texts(session) == ["before", "after"]
        gap = session.entry(place)
        assert (gap.type, gap.body.reason, gap.seq) == ("gap", "erased", place.seq)
        assert SECRET.encode() not in everything(session)
        session.append(user("later"))
    with store.open(session.id) as again:
        assert texts(again) == ["before", "after", "later"]
    assert store.verify(session.id).ok
    assert [(each.uid != "", each.seq) for each in store.tombstones()] == [(True, place.seq)]


def test_branches_hold(store):
    with store.create() as session:
        first = session.append(user("a"))
        session.append([user("b"), user("c")])
        session.rewind(first)
        secret = session.append(user(SECRET))
        session.append(user("e"))
        session.erase(secret)
        assert texts(session) == ["a", "e"]
        session.erase(first)
        assert texts(session) == ["e"]
        session.compact()
        assert texts(session) == ["e"]
        assert session.entry(first).body.reason == "erased"


def test_the_head_moves_to_the_entry_before_it(store):
    with store.create() as session:
        first = session.append(user("a"))
        second = session.append(user("b"))
        assert session.erase(second).copies == []
        assert session.state.head == first.seq
        session.append(user("c"))
        assert texts(session) == ["a", "c"]
        session.append(Head(first.seq))
        session.erase(first)
        assert session.state.head is None
        assert texts(session) == []


def test_what_the_state_says_is_erased_too(store):
    with store.create(title="open") as session:
        first = session.append(user(SECRET))
        session.append([assistant("an answer"), user(" "), user("second")])
        title = session.update(title=SECRET, mood="good")
        session.update(mood="better")
        label = session.append(Label(SECRET[:20], first.seq))
        other = session.append(Label("there", first.seq))
        snapshot = session.put("graph", SECRET)
        turn = session.append(Turn("started", SECRET))
        prompt = session.append(holdfast.Queued([holdfast.Text(text=SECRET)]))
        for place in (label, first, title, snapshot, turn, prompt, other):
            session.erase(place)
        state = session.state
        assert state.first_text == "second"
        assert state.meta == {"title": "open", "mood": "better"}
        assert (state.labels, state.snapshots, state.turn, state.queue) == ({}, {}, None, [])
        assert b"hunter2" not in everything(session)
    (summary,) = store.list()
    assert summary.title == "open"
    assert store.search("hunter2") == []
    with store.open(session.id, mode="read") as again:
        assert again.state.meta == {"title": "open", "mood": "better"}
        assert again.state.first_text == "second"


def test_a_fact_without_an_earlier_value_goes(store):
    with store.create() as session:
        first = session.append(user("a"))
        place = session.update(title=SECRET)
        session.erase(place)
        assert session.meta == {}
        session.erase(first)
        assert session.state.first_text is None


def test_a_checkpoint_or_answer_leaves_the_first_text(store):
    with store.create() as session:
        session.append(user("a"))
        place = session.append(assistant("a"))
        session.erase(place)
        assert session.state.first_text == "a"
        place = session.checkpoint(SECRET)
        session.erase(place)
        assert session.summary == []
        assert texts(session) == ["a"]


def test_a_large_text_goes_with_its_blob(store):
    with store.create() as session:
        place = session.append(user(LARGE))
        twice = session.append([user(LARGE), user("b")])
        name = session.entry(place).body.content[0].blob.sha256
        session.erase(place)
        assert session.blob(name) is not None  # another entry has it
        session.erase(twice.seq - 1)
        assert session.blob(name) is None
        assert texts(session) == ["b"]


def test_an_entry_that_a_compaction_left_out(store):
    with store.create() as session:
        place = session.append(user(SECRET), id="mine")
        session.append(user("b"))
        session.checkpoint("so far", keep_last=1)
        session.compact()
        assert session.state.first_text == SECRET
        session.erase(place.seq)
        assert session.state.first_text == "b"
        assert session.append(user("again"), id="mine").seq > place.seq


def test_erasing_twice_is_the_same_as_once(store):
    with store.create() as session:
        place = session.append(user(SECRET))
        session.append(user("b"))
        session.erase(place)
        assert session.erase(place) == holdfast.Erased(session.id, place.seq)
        assert texts(session) == ["b"]


def test_what_cannot_be_erased(store):
    with store.create() as session:
        with pytest.raises(UsageError, match="no entries yet"):
            session.erase(0)
        place = session.append(user("a"))
        with pytest.raises(UsageError, match="journal itself needs"):
            session.erase(0)
        with pytest.raises(UsageError, match="no entry numbered 99"):
            session.erase(99)
        with pytest.raises(UsageError, match="Name an entry"):
            session.erase(None)
    with store.open(session.id, mode="read") as again, pytest.raises(UsageError, match="read-only"):
        again.erase(place)


def test_copies_are_named_and_erased_everywhere(store):
    with store.create() as session:
        first = session.append(user("a"))
        place = session.append(user(SECRET))
        with session.fork() as fork:
            fork.append(user("own"))
            with fork.fork() as second:
                pass
        with session.fork(first) as without:
            pass
        with session.fork(first) as other:
            pass
        store.delete(other.id)
        with session.fork() as deleted:
            pass
        store.delete(deleted.id)
        named = sorted([fork.id, second.id, deleted.id])
        assert session.erase(place).copies == named
        with store.open(second.id) as opened:
            done = session.erase(place, everywhere=True)
            assert done.copies == [second.id]
            assert done.also == sorted([fork.id, deleted.id])
            assert texts(opened) == ["a", SECRET, "own"]
        done = session.erase(place, everywhere=True)
        assert (done.also, done.copies) == ([second.id], [])
    for each in (fork, second):
        with store.open(each.id, mode="read") as again:
            assert texts(again) == ["a", "own"]
    assert store.deleted_ids() == {other.id}
    assert without.id in store.ids()


def test_the_session_that_a_fork_came_from_is_named(store):
    with store.create() as session:
        place = session.append(user(SECRET))
        fork = session.fork()
    with fork:
        assert fork.erase(place).copies == [session.id]


def test_a_session_is_erased_for_good(store):
    with store.session("telegram:42") as session:
        session.append(user(SECRET))
        fork = session.fork()
        fork.close()
        with pytest.raises(SessionLocked):
            store.delete(session.id, erase=True)
    store.delete(session.id)
    with store.session("telegram:42") as session:
        session.append(user(SECRET + " again"))
    done = store.delete(session.id, erase=True)
    assert (done.session, done.seq) == (session.id, None)
    assert (done.also, done.copies) == ([], [fork.id])
    assert store.ids() == {fork.id}
    assert store.deleted() == []
    with pytest.raises(SessionNotFound):
        store.restore(session.id)
    with pytest.raises(SessionNotFound):
        store.delete(session.id, erase=True)
    assert {(each.session, each.key) for each in store.tombstones()} == {
        (session.id, "telegram:42")
    }
    assert len(store.tombstones()) == 2
    with store.session("telegram:42") as session:  # the key may be used again
        session.append(user("new"))
        assert texts(session) == ["new"]


def test_forks_are_erased_with_it_on_request(store):
    with store.create() as session:
        session.append(user(SECRET))
        with session.fork() as fork, fork.fork() as second:
            pass
        trashed = session.fork()
        trashed.close()
        store.delete(trashed.id)
    with store.open(second.id):
        done = store.delete(session.id, erase=True, everywhere=True)
    assert done.also == sorted([fork.id, trashed.id])
    assert done.copies == [second.id]
    assert store.ids() == {second.id}
    assert store.deleted() == []


def test_one_that_is_only_in_the_trash(store):
    with store.create() as session:
        session.append(user(SECRET))
    store.delete(session.id)
    assert store.delete(session.id, erase=True).session == session.id
    assert store.deleted() == []
    assert len(store.tombstones()) == 1


def test_everywhere_needs_erase(store):
    with store.create() as session:
        session.append(user("a"))
    with pytest.raises(UsageError, match="erase=True"):
        store.delete(session.id, everywhere=True)
    assert store.ids() == {session.id}
