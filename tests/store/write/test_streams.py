"""Streams while they run: on disk before anybody sees them, one message when they end."""

from __future__ import annotations

import threading

import pytest

import holdfast
from holdfast import Text, user
from holdfast.files import Files
from holdfast.store.local.live import read_live


def live_text(session):
    return "".join(event.text for event in read_live(Files(), session.path).events)


def live_size(session):
    path = session.path / "live.jsonl"
    return path.stat().st_size if path.exists() else 0


def test_a_finished_stream_is_one_message(store, eventually):
    session = store.create()
    session.append(user("a"))
    with session.stream(model="m") as live:
        live.write("Looking at ")
        live.write("the log")
        position = live.finish(stop="end", request="r1")
    message = session.messages[-1]
    assert message == holdfast.Message(
        role="assistant",
        content=[Text(text="Looking at the log")],
        model="m",
        stop="end",
        stream=live.name,
        request="r1",
    )
    assert session.state.head == position.seq
    eventually(lambda: live_size(session) == 0)


def test_text_is_in_the_live_file_without_any_further_call(store, eventually):
    session = store.create()
    session.append(user("a"))
    live = session.stream()
    live.write("one ")
    live.write("two ")
    live.write("three")
    eventually(lambda: live_text(session) == "one two three")
    assert session.messages == [user("a")]
    live.finish()


def test_the_first_text_is_in_the_live_file_at_once(store):
    session = store.create()
    session.append(user("a"))
    live = session.stream()
    live.write("now")
    assert live_text(session) == "now"
    live.finish()


def test_live_text_is_synced_by_itself(fragile, files, eventually):
    session = fragile.create()
    session.append(user("a"))
    live = session.stream()
    live.write("text")
    assert files.count("sync", "live.jsonl") == 0
    eventually(lambda: files.count("sync", "live.jsonl") == 1)
    live.write("more")
    eventually(lambda: files.count("sync", "live.jsonl") == 2)
    live.finish()


def test_a_stream_may_be_the_very_first_thing(store):
    session = store.create(title="t")
    with session.stream() as live:
        live.write("hello")
        assert live_text(session) == "hello"
    assert [message.text for message in session.messages] == ["hello"]
    assert store.open(session.id, "read").meta == {"title": "t"}


def test_an_exception_in_the_block_keeps_the_text_as_interrupted(store, eventually):
    session = store.create()
    with pytest.raises(KeyError), session.stream() as live:
        live.write("half a sent")
        raise KeyError
    assert session.messages[-1].text == "half a sent"
    assert session.messages[-1].stop == "interrupted"
    eventually(lambda: live_size(session) == 0)


def test_two_streams_of_which_one_finishes(store, eventually):
    session = store.create()
    session.append(user("a"))
    first, second = session.stream(), session.stream(call_id="c1")
    first.write("first")
    second.write("second")
    first.finish()
    eventually(lambda: "second" in live_text(session))
    second.finish()
    eventually(lambda: live_size(session) == 0)
    assert [message.stream for message in session.messages[1:]] == [first.name, second.name]


def test_closing_keeps_running_streams_as_interrupted(store):
    session = store.create()
    session.append(user("a"))
    text, tool, finished = session.stream(), session.stream(call_id="c1"), session.stream()
    text.write("half")
    tool.write("output")
    finished.write("whole")
    finished.submit()
    session.close()
    assert live_size(session) == 0
    with store.open(session.id) as again:
        assert again.recovery.clean
        assert {(m.role, m.stop) for m in again.messages[1:]} == {
            ("assistant", "interrupted"),
            ("assistant", "end"),
            ("tool", None),
        }
    for stream in (text, tool):
        with pytest.raises(holdfast.UsageError):
            stream.write("more")


def test_many_threads_stream_at_once(store, eventually):
    session = store.create()

    def work(name: int) -> None:
        with session.stream() as live:
            for number in range(30):
                live.write(f"{name}:{number} ")

    threads = [threading.Thread(target=work, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(message.text for message in session.messages) == [
        "".join(f"{name}:{number} " for number in range(30)) for name in range(6)
    ]
    eventually(lambda: live_size(session) == 0)


def test_what_goes_along_with_a_stream_is_in_its_batch(store):
    with store.create() as session:
        asked = session.append(user("a"))
        live = session.stream(model="m")
        live.write("hi")
        live.finish(along=[holdfast.Usage(3, 4, 0.5, model="m")])
        entries = list(session.follow(after=asked, wait=False))
        assert [(entry.type, entry.batch) for entry in entries] == [
            ("message", (0, 2)),
            ("usage", (1, 2)),
        ]
        assert session.totals.cost_usd == 0.5
        assert live_size(session) == 0


def test_listeners_are_told_of_live_text_once_it_is_in_the_file(store, eventually, caplog):
    heard: list[str] = []

    def listen(event):
        assert event.text in live_text(session)
        heard.append(event.text)

    def fail(event):
        raise RuntimeError("broken")

    with store.create() as session:
        session.append(user("a"))
        stop_failing = session.on_live(fail)
        stop = session.on_live(listen)
        live = session.stream()
        live.write("one ")
        live.write("two")
        eventually(lambda: "".join(heard) == "one two")
        assert "A listener failed on live text" in caplog.text
        stop_failing()
        stop()
        stop()
        live.write(" three")
        eventually(lambda: live_text(session) == "one two three")
        live.finish()
    assert "".join(heard) == "one two"
