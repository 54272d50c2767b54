"""Entries of a session in either order, between two numbers, of a branch or of all."""

from __future__ import annotations

import pytest

from holdfast import Label, Text, UsageError, user


@pytest.fixture
def session(store):
    """Two branches: a, b, c and, behind a, d; with a label in between."""
    with store.create(title="t") as session:
        first = session.append(user("a"))
        session.append([user("b"), user("c")])
        session.append(Label("here", first.seq))
        session.rewind(first)
        session.append(user("d"))
        yield session


def texts(entries):
    return [entry.body.text for entry in entries if entry.type == "message"]


def numbers(entries):
    return [entry.seq for entry in entries]


def test_all_of_them_in_order(session):
    entries = list(session.entries())
    assert numbers(entries) == list(range(8))
    assert [entry.type for entry in entries[:2]] == ["header", "meta"]
    assert texts(entries) == ["a", "b", "c", "d"]


def test_last_one_first(session):
    assert numbers(session.entries(reverse=True)) == list(reversed(range(8)))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("after", [None, -1, 0, 2, 3, 7, 99])
@pytest.mark.parametrize("before", [None, 0, 1, 4, 7, 99])
def test_between_two_numbers(session, after, before, reverse):
    low = -1 if after is None else after
    expected = [seq for seq in range(8) if seq > low and (before is None or seq < before)]
    found = session.entries(after=after, before=before, reverse=reverse)
    assert numbers(found) == (expected[::-1] if reverse else expected)


def test_the_current_branch(session):
    assert texts(session.entries(branch=True)) == ["a", "d"]
    assert texts(session.entries(branch=True, reverse=True)) == ["d", "a"]
    assert texts(session.entries(branch=True, after=2)) == ["d"]
    assert texts(session.entries(branch=True, before=7)) == ["a"]
    assert texts(session.entries(branch=True, reverse=True, after=2, before=7)) == []
    assert texts(session.entries(branch=True, after=99)) == []


def test_of_some_types_and_not_too_many(session):
    assert numbers(session.entries(types={"label", "head"})) == [5, 6]
    assert texts(session.entries(types=["message"], limit=2)) == ["a", "b"]
    assert texts(session.entries(types=["message"], limit=1, reverse=True)) == ["d"]
    assert list(session.entries(limit=0)) == []


def test_a_session_without_entries_has_none(store):
    with store.create() as session:
        assert list(session.entries()) == []


def test_what_is_appended_meanwhile_is_not_in_it(session):
    reading = session.entries()
    next(reading)
    session.append(user("e"))
    assert texts(reading) == ["a", "b", "c", "d"]


def test_a_position_says_which_entry_is_meant(session):
    last = session.append(user("e"))
    assert texts(session.entries(after=last)) == []
    assert texts(session.entries(before=last, limit=1, reverse=True, types=["message"])) == ["d"]


def test_a_closed_session_can_be_read(store, session):
    session.close()
    assert texts(session.entries()) == ["a", "b", "c", "d"]
    with store.open(session.id, mode="read") as again:
        assert texts(again.entries(reverse=True)) == ["d", "c", "b", "a"]


def test_a_large_text_is_put_back_on_request(store):
    large = "long " * 100_000
    with store.create() as session:
        session.append(user(large))
        (entry,) = session.entries(types=["message"])
        assert isinstance(entry.body.content[0], Text)
        assert entry.body.text != large
        assert session.with_blobs(entry.body).text == large


def test_one_entry_by_number_position_or_id(store):
    with store.create() as session:
        assert session.entry(0) is None
        assert session.entry("greeting") is None
        session.append([user("a"), user("b")], id="pair")
        place = session.append(user("hello"), id="greeting")
        for found in (session.entry(place), session.entry(place.seq), session.entry("greeting")):
            assert found.seq == place.seq
            assert found.body.text == "hello"
        assert session.entry("other") is None
        assert session.entry(-1) is None
        assert session.entry(place.seq + 1) is None
    with store.open(session.id, mode="read") as again:
        assert again.entry("greeting").body.text == "hello"
        assert again.entry(0).type == "header"


def test_an_entry_that_was_left_out_is_not_there(session):
    session.compact()
    assert session.entry(3) is None
    assert session.entry(2).body.text == "a"


def test_what_makes_no_sense_is_rejected(session):
    with pytest.raises(UsageError, match="not a string"):
        session.entries(types="message")
    for limit in (-1, 1.5, "2"):
        with pytest.raises(UsageError, match="limit"):
            session.entries(limit=limit)
    for which in (None, 1.5, True):
        with pytest.raises(UsageError):
            session.entry(which)
