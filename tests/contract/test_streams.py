"""Streams while they run: on disk before anybody sees them, one message when they end."""

from __future__ import annotations

import asyncio
import threading

import pytest

import holdfast
from holdfast import Text, Thinking, ToolCall, ToolResult, user


def test_a_block_that_ends_without_finish_is_finished(store):
    session = store.create()
    with session.stream() as live:
        live.write("all of it")
    assert session.messages[-1].stop == "end"
    with session.stream() as live:
        live.write("own end")
        live.finish("length")
    assert session.messages[-1].stop == "length"


def test_streams_work_with_async_with(store):
    async def main() -> None:
        async with store.create() as session:
            async with session.stream() as live:
                live.write("one")
            with pytest.raises(KeyError):
                async with session.stream() as live:
                    live.write("two")
                    raise KeyError
            async with session.stream() as live:
                live.write("three")
                await live.submit("length")
            assert [(m.text, m.stop) for m in session.messages] == [
                ("one", "end"),
                ("two", "interrupted"),
                ("three", "length"),
            ]

    asyncio.run(main())


def test_a_stream_is_finished_with_exact_content(store):
    session = store.create()
    content = [
        Thinking(text="hm", signature="opaque"),
        Text(text="run it"),
        ToolCall(id="c1", name="sh", arguments={"cmd": "ls"}),
    ]
    live = session.stream(model="m")
    live.write("hm", kind="thinking")
    live.write("run it")
    live.write('{"cmd": "ls"}', kind="tool_call", call_id="c1", name="sh")
    live.finish("tool_use", content)
    assert session.messages[-1].content == content
    assert session.messages[-1].stream == live.name


def test_what_was_written_makes_the_parts(store):
    session = store.create()
    live = session.stream()
    live.write("let me ", kind="thinking")
    live.write("think", kind="thinking")
    live.write("Two calls: ")
    live.write('{"a":', kind="tool_call", call_id="c1", name="first")
    live.write('{"b": [', kind="tool_call", call_id="c2", name="second")
    live.write("1}", kind="tool_call", call_id="c1", name="first")
    live.finish()
    assert session.messages[-1].content == [
        Thinking(text="let me think"),
        Text(text="Two calls: "),
        ToolCall(id="c1", name="first", arguments={"a": 1}),
        ToolCall(id="c2", name="second", arguments=None, partial='{"b": ['),
    ]


@pytest.mark.parametrize(
    ("stop", "outcome"),
    [("end", "completed"), ("interrupted", "unknown"), ("failed", "failed")],
)
def test_a_tool_stream_becomes_a_tool_result(store, stop, outcome):
    session = store.create()
    live = session.stream(call_id="c1", name="sh")
    live.write("line 1\n")
    live.write("line 2\n")
    live.finish(stop)
    assert session.messages[-1].role == "tool"
    assert session.messages[-1].content == [
        ToolResult(call_id="c1", content=[Text(text="line 1\nline 2\n")], outcome=outcome)
    ]


def test_a_stream_that_another_one_outlives_leaves_nothing_to_do(store, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("holdfast.store.write.streams.time.monotonic", lambda: now[0])
    monkeypatch.setattr("holdfast.journal.pool.BackgroundTask.wake", lambda _: None)
    session = store.create()
    session.append(user("a"))
    first, second = session.stream(), session.stream()
    second.write("b")
    first.write("a")  # waits for the next write
    first.finish()
    streams = session._recorder.streams
    now[0] += 10
    assert streams.work() is None or streams.work() > 0  # else the background would spin
    second.finish()


def test_writing_to_a_finished_stream_is_refused(store):
    session = store.create()
    live = session.stream()
    live.write("a")
    live.finish()
    with pytest.raises(holdfast.UsageError, match="finished"):
        live.write("b")
    with pytest.raises(holdfast.UsageError, match="finished"):
        live.finish()


@pytest.mark.parametrize(("text", "kind"), [("a", "song"), (b"a", "text"), (None, None)])
def test_a_stream_takes_text_of_known_kinds_only(store, text, kind):
    session = store.create()
    with session.stream() as live, pytest.raises(holdfast.UsageError, match="kind"):
        live.write(text, kind=kind)


def test_a_finish_that_cannot_be_stored_can_be_repeated(store):
    session = store.create()
    live = session.stream()
    live.write("kept")
    with pytest.raises(holdfast.UsageError):
        live.finish(content=["not a part"])
    live.finish()
    assert session.messages[-1].text == "kept"


def test_a_stream_begun_while_the_session_closed_takes_nothing(store):
    session = store.create()
    session.append(user("a"))
    pattern = session.stream()._first
    session.close()
    with pytest.raises(holdfast.UsageError, match="closed"):
        session._recorder.streams.begin(pattern)


def test_finishing_from_two_threads_makes_one_message(store):
    for _ in range(20):
        session = store.create()
        live = session.stream()
        live.write("once")
        barrier = threading.Barrier(2)

        def finish(live=live, barrier=barrier):
            barrier.wait()
            try:
                live.finish()
            except holdfast.UsageError:
                return

        threads = [threading.Thread(target=finish) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(session.messages) == 1
        session.close()


def test_what_a_rewrite_puts_into_the_live_file_is_told_too(store, eventually, monkeypatch):
    heard: list[str] = []
    with store.create() as session:
        session.append(user("a"))
        session.on_live(lambda event: heard.append(event.text))
        live = session.stream()
        live.write("one ")
        eventually(lambda: heard == ["one "])
        live.write("two")
        session.compact()
        assert "".join(heard) == "one two"
        live.finish()
