"""Sessions made whole from entries of elsewhere: there with everything, or not there at all."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Checkpoint, Head, Meta, Usage, assistant, user
from holdfast.model.entry import NO_PARENT_FIELD
from holdfast.store.write.encode import ImportedEntry, encode_all

ID = "20260506-180000-abcdefgh"


STARTED = "2026-05-06T18:00:00.000Z"


def past(seq, body, parent=NO_PARENT_FIELD, at=STARTED):
    (draft,), payloads = encode_all([body])
    return ImportedEntry(seq, at, draft, parent, payloads)


def fill(staging, count=3):
    for number in range(count):
        parent = None if number == 0 else 10 * number
        at = f"2026-05-06T18:00:{number % 60:02d}.000Z"
        staging.add(past(10 * (number + 1), user(f"m{number}"), parent, at))


def test_a_published_session_is_like_any_other(store):
    with store.stage(ID, started=STARTED) as staging:
        fill(staging)
        staging.add(past(staging.next_seq, Meta({"title": "t"}), at="2026-05-06T18:00:09.000Z"))
        assert store.list() == []
        assert staging.publish() == ID
    (summary,) = store.list()
    assert (summary.started, summary.updated) == (STARTED, "2026-05-06T18:00:09.000Z")
    assert summary.title == "t"
    assert store.verify(ID).ok
    with store.open(ID) as session:
        assert session.recovery.clean
        assert [message.text for message in session.messages] == ["m0", "m1", "m2"]
        session.append(assistant("more"))
        assert [message.text for message in session.messages][-1] == "more"
    assert store.verify(ID).ok


def test_parents_make_branches(store):
    with store.stage(ID, started=STARTED) as staging:
        staging.add(past(1, user("a"), None))
        staging.add(past(2, user("b"), 1))
        staging.add(past(3, user("c"), 1))
        staging.add(past(4, Checkpoint([user("sum")], 3), 3))
        staging.add(past(staging.next_seq, user("d"), 4))
        staging.add(past(staging.next_seq, Head(2)))
        staging.publish()
    with store.open(ID, mode="read") as session:
        assert [message.text for message in session.messages] == ["a", "b"]


def test_marks_keep_opening_short(store):
    with store.stage(ID, started=STARTED) as staging:
        for number in range(1, 400):
            staging.add(past(4 * number, user("word " * 1000), 4 * (number - 1) or None))
            staging.add(past(4 * number + 2, Usage(1, 2, 0.5)))
        staging.publish()
    with store.open(ID, mode="read") as session:
        types = [entry.type for entry in session.follow(wait=False)]
        assert types.count("mark") >= 4
        assert session.totals.requests == 399
        assert len(session.messages) == 399


def test_a_state_that_no_mark_can_hold_is_written_without(store):
    with store.stage(ID, started=STARTED) as staging:
        for number in range(1, 4):
            staging.add(past(number, Usage(1, 2, 1e308)))
        staging.add(past(4, user("a"), None))
        staging.publish()
    with store.open(ID, mode="read") as session:
        assert [message.text for message in session.messages] == ["a"]


def test_a_state_too_large_for_a_mark(store):
    with store.stage(ID, started=STARTED) as staging:
        staging.add(past(1, Meta({"long": "x" * 300_000})))
        staging.add(past(2, user("a"), None))
        staging.publish()
    with store.open(ID, mode="read") as session:
        assert len(session.meta["long"]) == 300_000


def test_numbers_and_parents_are_checked(store):
    with store.stage(ID, started=STARTED) as staging:
        staging.add(past(5, user("a"), None))
        with pytest.raises(holdfast.UsageError, match="already used"):
            staging.add(past(5, user("b"), None))
        with pytest.raises(holdfast.UsageError, match="as its parent"):
            staging.add(past(6, user("b"), 6))


def test_ids_without_opening_anything(store):
    assert store.ids() == store.deleted_ids() == set()
    session = store.create()
    session.append(user("a"))
    session.close()
    assert store.ids() == {session.id}
    store.delete(session.id)
    assert store.ids() == set()
    assert store.deleted_ids() == {session.id}


@pytest.mark.parametrize("odd", ["", '"', "\ud800", "yesterday", "2026-05-06T18:00:00\n"])
def test_a_time_that_is_none_becomes_that_of_now(store, odd):
    with store.stage(ID, started=odd) as staging:
        staging.add(past(1, user("m"), None, odd))
        staging.publish()
    assert store.verify(ID).ok
    (summary,) = store.list()
    assert STARTED < summary.started <= summary.updated
