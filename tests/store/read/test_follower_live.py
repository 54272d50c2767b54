"""Following live text: each piece once, superseded by the entry that finishes it."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Event, user
from holdfast.files import Files
from holdfast.store.local.live import read_live


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


def test_a_rewritten_live_file_repeats_nothing(session, monkeypatch):
    monkeypatch.setattr("holdfast.store.write.streams.LARGEST_LIVE_BYTES", 1500)
    follower = session.follow(live=True, wait=False)
    done, running = session.stream(), session.stream()
    done.write("d" * 500)
    running.write("one ")
    running.write("think ", kind="thinking")
    assert live(follower.poll()) == "d" * 500 + "one think "
    done.finish()
    follower.poll()
    before = read_live(Files(), session.path).generation
    running.write("x" * 1500)
    running.write(" end")
    assert read_live(Files(), session.path).generation > before
    assert live(follower.poll()) == "x" * 1500 + " end"
    running.finish()
    assert messages(follower.poll()) == ["one " + "x" * 1500 + " end"]


def test_live_text_of_a_session_in_another_store_object(session, store):
    stream = session.stream()
    stream.write("seen by others")
    reader = holdfast.open_store(store.path).open(session.id, "read")
    assert live(reader.follow(live=True, wait=False).poll()) == "seen by others"
    stream.finish()
