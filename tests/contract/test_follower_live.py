"""Following live text: each piece once, superseded by the entry that finishes it."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Event, user


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr("holdfast.store.write.streams._WRITE_WITHIN_SECONDS", 0)


@pytest.fixture
def session(store):
    session = store.create()
    session.append(user("a"))
    return session


def live(polled):
    return "".join(item.text for item in polled if isinstance(item, Event))


def messages(polled):
    return [
        item.body.text
        for item in polled
        if isinstance(item, holdfast.Entry) and isinstance(item.body, holdfast.Message)
    ]


def test_live_text_comes_piece_by_piece_then_the_entry(session):
    follower = session.follow(after=session.state.seq, live=True, wait=False)
    stream = session.stream(model="m")
    stream.write("one ")
    (event,) = follower.poll()
    assert isinstance(event, Event)
    assert (event.stream, event.kind, event.text, event.model) == (
        stream.name,
        "text",
        "one ",
        "m",
    )
    stream.write("two")
    assert live(follower.poll()) == "two"
    assert follower.poll() == []
    stream.finish()
    polled = follower.poll()
    assert live(polled) == ""
    assert messages(polled) == ["one two"]


def test_without_live_no_events_come(session):
    stream = session.stream()
    stream.write("text")
    assert all(isinstance(item, holdfast.Entry) for item in session.follow(wait=False))
    stream.finish()


def test_events_are_superseded_by_their_entry(session):
    other = session.stream()
    other.write("still running")
    stream = session.stream()
    stream.write("finished")
    stream.finish()
    polled = session.follow(live=True, wait=False).poll()
    assert live(polled) == "still running"
    assert messages(polled) == ["a", "finished"]
    other.finish()


def test_events_of_a_stream_that_finished_earlier_do_not_come_again(session):
    follower = session.follow(live=True, wait=False)
    other, stream = session.stream(), session.stream()
    other.write("o1 ")
    stream.write("s1")
    follower.poll()
    stream.finish()
    follower.poll()
    other.write("o2")
    assert live(follower.poll()) == "o2"
    other.finish()


def test_the_next_stream_after_the_file_was_emptied(session):
    follower = session.follow(live=True, wait=False)
    for text in ("first", "second", "third"):
        stream = session.stream()
        stream.write(text)
        assert live(follower.poll()) == text
        stream.finish()
        assert messages(follower.poll())[-1:] == [text]
