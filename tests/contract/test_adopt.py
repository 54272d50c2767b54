"""Entries of elsewhere behind those of a session: with their own numbers, times and parents."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Head, Meta, assistant, user
from holdfast.model.entry import LARGEST_SEQ, NO_PARENT_FIELD, Entry
from holdfast.store.write.encode import ImportedEntry, encode_all

AT = "2020-01-02T03:04:05.678Z"


def past(seq, body, parent=NO_PARENT_FIELD):
    (draft,), payloads = encode_all([body])
    return ImportedEntry(seq, AT, draft, parent, payloads)


def texts(session):
    return [message.text for message in session.messages]


def test_entries_keep_what_they_bring(store):
    with store.create() as session:
        first = session.append(user("a"))
        session.append(assistant("b"))
        assert texts(session) == ["a", "b"]
        position = session.adopt(
            [past(100, user("c"), first.seq), past(105, user("d"), 100), past(106, Meta({"k": 1}))]
        )
        assert position.seq == 106
        assert texts(session) == ["a", "c", "d"]
        assert session.meta["k"] == 1
        session.append(user("e"))
        assert texts(session) == ["a", "c", "d", "e"]
        entries = [entry for entry in session.follow(wait=False) if isinstance(entry, Entry)]
        assert [entry.at for entry in entries if entry.seq in (100, 105, 106)] == [AT] * 3
        assert [entry.batch for entry in entries if entry.seq >= 100][:3] == [
            (0, 3),
            (1, 3),
            (2, 3),
        ]
    assert store.verify(session.id).ok
    with store.open(session.id) as session:
        assert session.recovery.clean
        session.adopt([past(1000, Head(100))])
        assert texts(session) == ["a", "c"]
    assert store.verify(session.id).ok


def test_into_a_session_that_is_new(store):
    with store.create(title="t") as session:
        session.adopt([past(50, user("a"), None)])
        assert texts(session) == ["a"]
    assert store.verify(session.id).ok


def test_large_payloads(store):
    large = "large " * 60_000
    with store.create() as session:
        session.append(user("a"))
        session.adopt([past(50, user(large), None)])
        assert texts(session) == [large]


def test_marks_carry_the_time_of_what_they_mark(store):
    with store.create() as session:
        session.append(user("a"))
        session.adopt([past(number, user("word " * 2000), None) for number in range(50, 150)])
    (summary,) = store.list()
    assert summary.updated == AT


def test_what_cannot_be_is_refused_and_nothing_is_written(store):
    with store.create() as session:
        session.append([user("a"), user("b")])
        seq = session.state.seq
        with pytest.raises(holdfast.UsageError, match="nothing"):
            session.adopt([])
        with pytest.raises(holdfast.UsageError, match="already used"):
            session.adopt([past(seq, user("c"), None)])
        with pytest.raises(holdfast.UsageError, match="as its parent"):
            session.adopt([past(seq + 5, user("c"), seq + 5)])
        assert session.state.seq == seq
        assert texts(session) == ["a", "b"]


def test_a_read_only_session_adopts_nothing(store):
    with store.create() as session:
        session.append(user("a"))
    with store.open(session.id, mode="read") as reader, pytest.raises(holdfast.UsageError):
        reader.adopt([past(50, user("b"), None)])


def test_an_interrupt_right_after_it_was_queued_changes_nothing_of_it(store, monkeypatch):
    with store.create() as session:
        session.append(user("a"))
        writer = session._recorder._writer
        queue = writer.enqueue

        def interrupted(*args):
            queue(*args)
            raise KeyboardInterrupt

        monkeypatch.setattr(writer, "enqueue", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.adopt([past(50, user("b"), None)])
        monkeypatch.undo()
        session.append(user("c"))
        numbers = {
            entry.body.text: (entry.seq, entry.at)
            for entry in session.follow(wait=False)
            if entry.type == "message"
        }
    assert numbers["b"] == (50, AT)
    assert numbers["c"][0] == 51


def test_a_number_that_nobody_could_read_back_is_refused(store):
    with store.create() as session:
        session.append(user("a"))
        with pytest.raises(holdfast.UsageError, match="too large"):
            session.adopt([past(LARGEST_SEQ + 1, user("b"), None)])
        session.adopt([past(LARGEST_SEQ, user("b"), None)])
    with store.open(session.id) as again:
        assert texts(again) == ["b"]
