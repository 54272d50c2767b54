"""What cannot be meant is refused at once, by an error of ours, and leaves nothing on disk."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import user


@pytest.mark.parametrize("moment", [5, "yesterday", object()])
@pytest.mark.parametrize("name", ["since", "until"])
def test_a_time_that_is_none(store, name, moment):
    with pytest.raises(holdfast.UsageError):
        store.list(**{name: moment})


@pytest.mark.parametrize("limit", [-1, 1.5, "many"])
def test_a_limit_that_is_no_number(store, limit):
    with pytest.raises(holdfast.UsageError):
        store.search("a", limit=limit)
    with pytest.raises(holdfast.UsageError):
        store.list(limit=limit)


def test_a_search_ends_at_its_limit(store):
    with store.create() as session:
        session.append([user(f"needle {number}") for number in range(5)])
    assert len(store.search("needle", limit=3)) == 3
    assert store.search("needle", limit=0) == []


@pytest.mark.parametrize("place", [True, "3", 1.0])
def test_an_entry_that_is_not_named_by_a_number(store, place):
    session = store.create()
    session.append(user("a"))
    for call in (session.rewind, session.fork, session.follow):
        with pytest.raises(holdfast.UsageError, match="its number or by the Position"):
            call(place)
    assert [message.text for message in session.messages] == ["a"]


@pytest.mark.parametrize("given", ["text", [user("a"), "text"], None, 5])
def test_a_history_that_is_no_list_of_messages(store, given):
    session = store.create()
    session.append(user("a"))
    with pytest.raises(holdfast.UsageError, match="list of messages"):
        session.replace(given)
    assert [message.text for message in session.messages] == ["a"]


BOGUS = holdfast.Message(role="bogus", content=[holdfast.Text(text="a")])


def test_a_role_that_nobody_has(store):
    session = store.create()
    session.append(user("a"))
    before = session.state
    for call in (
        lambda: session.append(BOGUS),
        lambda: session.replace([user("b"), BOGUS]),
        lambda: session.checkpoint(BOGUS),
        lambda: session.checkpoint([user("b"), BOGUS]),
        lambda: session.append(holdfast.Checkpoint([BOGUS], 1)),
    ):
        with pytest.raises(holdfast.UsageError, match="'bogus' is not a role"):
            call()
    assert session.state == before


@pytest.mark.parametrize("listener", [None, "print", 5])
def test_a_listener_that_cannot_be_called(store, listener):
    session = store.create()
    for call in (session.on_entry, session.on_live):
        with pytest.raises(holdfast.UsageError, match="A listener must be a function"):
            call(listener)
    session.append(user("a"))


def test_bytes_of_any_kind_are_kept(store):
    session = store.create()
    session.append(user("a"))
    names = {session.keep(kind(b"abc")) for kind in (bytes, bytearray, memoryview)}
    assert [session.blob(name) for name in names] == [b"abc"]
