"""Listeners: after durability, in order, outside locks."""

from __future__ import annotations

import logging
import threading
import time

import pytest

import holdfast
from holdfast import user


def recorded(session):
    heard: list[holdfast.Entry] = []
    stop = session.on_entry(heard.append)
    return heard, stop


def heard_texts(heard):
    return [entry.body.text for entry in heard if isinstance(entry.body, holdfast.Message)]


def test_a_listener_finds_the_entry_in_the_session(store):
    session = store.create()
    session.append(user("a"))
    seen: list[list[str]] = []
    session.on_entry(lambda _: seen.append([message.text for message in session.messages]))
    session.append(user("b"))
    assert seen == [["a", "b"]]


def test_listeners_hear_entries_in_order_from_many_threads(store):
    session = store.create()
    session.append(user("first"))
    heard, _ = recorded(session)
    threads = [
        threading.Thread(target=lambda: [session.append(user("x")) for _ in range(20)])
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    session.close()
    numbers = [entry.seq for entry in heard]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 120


def test_what_was_submitted_is_heard_too(store, eventually):
    session = store.create()
    heard, _ = recorded(session)
    session.submit(user("a"))
    eventually(lambda: heard_texts(heard) == ["a"])


def test_a_listener_may_append(store):
    session = store.create()
    session.append(user("begin"))

    def callback(entry: holdfast.Entry) -> None:
        if isinstance(entry.body, holdfast.Message) and len(entry.body.text) < 4:
            session.append(user(entry.body.text + "x"))

    heard, _ = recorded(session)
    session.on_entry(callback)
    session.append(user("x"))
    assert heard_texts(heard) == ["x", "xx", "xxx", "xxxx"]
    assert [message.text for message in session.messages] == ["begin", "x", "xx", "xxx", "xxxx"]


def test_no_lock_is_held_while_a_listener_runs(store):
    session = store.create()
    session.append(user("a"))
    other_got_through: list[bool] = []

    def callback(entry: holdfast.Entry) -> None:
        if isinstance(entry.body, holdfast.Message) and entry.body.text == "b":
            other = threading.Thread(target=lambda: session.append(user("from another thread")))
            other.start()
            other.join(30)
            other_got_through.append(not other.is_alive())

    session.on_entry(callback)
    session.append(user("b"))
    assert other_got_through == [True]


def test_a_raising_listener_is_logged_and_disturbs_nobody(store, caplog):
    session = store.create()
    session.append(user("a"))

    def callback(entry: holdfast.Entry) -> None:
        raise RuntimeError("listener's own fault")

    session.on_entry(callback)
    heard, _ = recorded(session)
    with caplog.at_level(logging.ERROR, logger="holdfast"):
        session.append(user("b"))
    assert heard_texts(heard) == ["b"]
    assert "listener's own fault" in caplog.text
    session.append(user("c"))
    assert heard_texts(heard) == ["b", "c"]


def test_a_listener_that_was_ended_hears_nothing_more(store):
    session = store.create()
    heard, stop = recorded(session)
    session.append(user("a"))
    stop()
    stop()
    session.append(user("b"))
    assert heard_texts(heard) == ["a"]


def test_listeners_hear_what_close_writes(store):
    session = store.create()
    heard, _ = recorded(session)
    session.append(user("a"))
    stream = session.stream()
    stream.write("half")
    session.close()
    assert heard_texts(heard) == ["a", "half"]


def answering(session, begun=None):
    """Answer each question; not before it would be too late, if closing did not wait."""

    def callback(entry: holdfast.Entry) -> None:
        if isinstance(entry.body, holdfast.Message) and entry.body.role == "user":
            if begun is not None:
                begun.set()
            deadline = time.monotonic() + 0.3
            while not session._recorder.closed and time.monotonic() < deadline:
                time.sleep(0.002)
            session.append(holdfast.assistant(f"answer to {entry.body.text}"))

    session.on_entry(callback)


def test_closing_waits_for_a_listener_that_appends_in_another_thread(store):
    session = store.create()
    begun = threading.Event()
    answering(session, begun)
    heard, _ = recorded(session)
    session.submit(user("q"))
    assert begun.wait(30)
    session.close()
    assert [message.text for message in session.messages] == ["q", "answer to q"]
    assert heard_texts(heard) == ["q", "answer to q"]


def test_closing_waits_for_a_listener_that_begins_meanwhile(store, monkeypatch):
    session = store.create()
    session.append(holdfast.assistant("hello"))
    begun = threading.Event()
    answering(session, begun)
    other = threading.Thread(target=lambda: session.append(user("q")))
    flush = session._recorder.flush

    def flush_before_another_appends() -> None:
        flush()
        if not begun.is_set():
            other.start()
            assert begun.wait(30)

    monkeypatch.setattr(session._recorder, "flush", flush_before_another_appends)
    session.close()
    other.join(30)
    assert [message.text for message in session.messages] == ["hello", "q", "answer to q"]


@pytest.mark.parametrize("how", ["append", "submit"])
def test_a_listener_may_close(store, how, eventually):
    session = store.create()
    session.append(user("a"))
    heard, _ = recorded(session)

    def callback(entry: holdfast.Entry) -> None:
        if isinstance(entry.body, holdfast.Message) and entry.body.text == "b":
            session.close()

    session.on_entry(callback)
    getattr(session, how)([user("b"), user("c")])
    eventually(lambda: session._recorder.closed and heard_texts(heard) == ["b", "c"])
    assert store.open(session.id).messages[-1].text == "c"


def test_a_round_that_is_published_twice_is_heard_once(store):
    session = store.create()
    session.append(user("a"))
    heard, _ = recorded(session)
    ticket = session.submit(user("b"))
    ticket.wait()
    session._recorder.publish([ticket])  # as after an interrupt at the wrong moment
    session.append(user("c"))
    session.close()
    assert heard_texts(heard) == ["b", "c"]
    assert [message.text for message in session.messages] == ["a", "b", "c"]
    assert session.state.messages == 3
