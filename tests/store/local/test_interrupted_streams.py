"""What a process that died had streamed: kept once, shown to readers, never brought back twice."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import textwrap

import pytest

import holdfast
from holdfast import Text, Thinking, ToolCall, ToolResult, user
from tests.fakes import FakeFiles


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Text is in the live file when ``write`` returns, so that a copy is like a crash."""
    monkeypatch.setattr("holdfast.store.write.streams._WRITE_WITHIN_SECONDS", 0)


@pytest.fixture
def crash(tmp_path):
    """Return the store as it would be found after the death of this process right now."""
    stores: list[holdfast.Store] = []

    def copy(store: holdfast.Store, files: FakeFiles | None = None) -> holdfast.Store:
        home = tmp_path / f"copy{len(stores)}"
        shutil.copytree(store.path, home)
        stores.append(holdfast.open_store(home, files=files))
        return stores[-1]

    yield copy
    for store in stores:
        store.close()


def texts(session):
    return [message.text for message in session.messages]


def live_size(session):
    path = session.path / "live.jsonl"
    return path.stat().st_size if path.exists() else 0


def test_interrupted_text_becomes_an_assistant_message(store, crash):
    session = store.create()
    session.append(user("a"))
    live = session.stream(model="m")
    live.write("hm", kind="thinking")
    live.write("half a ")
    live.write("sent")
    again = crash(store).open(session.id)
    expected = holdfast.Message(
        role="assistant",
        content=[Thinking(text="hm"), Text(text="half a sent")],
        model="m",
        stop="interrupted",
        stream=live.name,
    )
    assert again.messages == [user("a"), expected]
    assert again.context() == [user("a"), expected]
    assert again.recovery.interrupted == [expected]
    assert not again.recovery.clean
    assert live_size(again) == 0
    again.append(user("go on"))
    again.close()
    live.finish()


def test_interrupted_tool_output_becomes_a_result_of_unknown_outcome(store, crash):
    session = store.create()
    session.append(user("a"))
    live = session.stream(call_id="c1", name="sh")
    live.write("line 1\n")
    again = crash(store).open(session.id)
    assert again.messages[-1].role == "tool"
    assert again.messages[-1].content == [
        ToolResult(call_id="c1", content=[Text(text="line 1\n")], outcome="unknown")
    ]
    live.finish()


def test_a_half_received_tool_call_is_kept_as_partial(store, crash):
    session = store.create()
    session.append(user("a"))
    live = session.stream()
    live.write('{"cmd": "rm -r', kind="tool_call", call_id="c1", name="sh")
    again = crash(store).open(session.id)
    assert again.messages[-1].content == [
        ToolCall(id="c1", name="sh", arguments=None, partial='{"cmd": "rm -r')
    ]
    live.finish()


def test_several_interrupted_streams_are_kept_in_order(store, crash):
    session = store.create()
    session.append(user("a"))
    streams = [session.stream() for _ in range(3)]
    for number, live in enumerate(streams):
        live.write(str(number))
    again = crash(store).open(session.id)
    assert texts(again) == ["a", "0", "1", "2"]
    for live in streams:
        live.finish()


def test_a_second_opening_changes_nothing(store, crash):
    session = store.create()
    session.append(user("a"))
    live = session.stream()
    live.write("half")
    copy = crash(store)
    with copy.open(session.id) as again:
        state = again.state
    before = (again.path / "journal.jsonl").read_bytes()
    with copy.open(session.id) as third:
        assert third.recovery.clean
        assert third.state == state
    assert (again.path / "journal.jsonl").read_bytes() == before
    live.finish()


def test_a_read_only_opening_shows_the_same_without_writing(store, crash):
    session = store.create()
    session.append(user("a"))
    live = session.stream()
    live.write("half")
    copy = crash(store)
    folder = copy._backend.home.folder(session.id)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    reader = copy.open(session.id, "read")
    assert texts(reader) == ["a", "half"]
    assert reader.context()[-1].stop == "interrupted"
    assert reader.recovery.interrupted == [reader.messages[-1]]
    reader.close()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    writer = copy.open(session.id)
    assert (writer.messages, writer.context()) == (reader.messages, reader.context())
    live.finish()


def test_a_crash_before_the_live_file_is_emptied_makes_no_duplicate(fragile, files, crash):
    session = fragile.create()
    session.append(user("a"))
    live = session.stream()
    live.write("once")
    copies = []
    files.on("truncate", lambda: copies.append(crash(fragile)), name="live.jsonl")
    live.finish()
    (copy,) = copies
    assert texts(copy.open(session.id, "read")) == ["a", "once"]
    with copy.open(session.id) as again:
        assert live_size(again) == 0  # what stood in it is an entry
        assert again.recovery.clean
        assert texts(again) == ["a", "once"]


def test_two_streams_of_which_one_finished_before_the_crash(store, crash):
    session = store.create()
    session.append(user("a"))
    first, second = session.stream(), session.stream()
    first.write("finished")
    second.write("half")
    first.finish()
    copy = crash(store)
    for mode in ("read", "write"):
        again = copy.open(session.id, mode)
        assert texts(again) == ["a", "finished", "half"]
        assert [message.stop for message in again.messages[1:]] == ["end", "interrupted"]
    second.finish()


def test_a_compaction_brings_no_finished_stream_back(store, crash):
    session = store.create()
    session.append(user("a"))
    first, second = session.stream(), session.stream()
    first.write("finished")
    second.write("half")
    first.finish()
    session.checkpoint("so far")
    session.compact()
    again = crash(store).open(session.id)
    assert texts(again) == ["half"]
    second.finish()


def test_leftovers_of_a_finished_stream_do_not_outlive_the_next_opening(fragile, files, crash):
    session = fragile.create()
    session.append(user("a"))
    live = session.stream()
    live.write("once")
    copies = []
    files.on("truncate", lambda: copies.append(crash(fragile)), name="live.jsonl")
    live.finish()
    (copy,) = copies
    with copy.open(session.id) as again:
        again.checkpoint("so far")
        again.compact()
    assert texts(copy.open(session.id, "read")) == []


def test_interrupted_streams_wait_for_room_all_of_them(store, crash, eventually):
    session = store.create()
    session.append(user("a"))
    streams = [session.stream() for _ in range(3)]
    for number, live in enumerate(streams):
        live.write(str(number))
    files = FakeFiles()
    copy = crash(store, files)
    files.fail("write", errno.ENOSPC, name="journal", times=None)
    again = copy.open(session.id)
    assert isinstance(again.trouble, holdfast.DiskFull)
    assert len(again.recovery.interrupted) == 3
    assert live_size(again) > 0
    fourth = again.stream()
    fourth.write("3")
    ticket = fourth.submit()
    files.heal()
    eventually(lambda: ticket.done)
    assert texts(again) == ["a", "0", "1", "2", "3"]
    eventually(lambda: live_size(again) == 0)
    again.close()
    assert texts(copy.open(session.id, "read")) == ["a", "0", "1", "2", "3"]
    for live in streams:
        live.finish()


def test_text_of_a_dead_process_stays_on_disk_until_it_is_kept(store, crash, monkeypatch):
    monkeypatch.setattr("holdfast.store.write.streams.LARGEST_LIVE_BYTES", 2000)
    session = store.create()
    session.append(user("a"))
    live = session.stream()
    live.write("of the dead")
    files = FakeFiles()
    copy = crash(store, files)
    files.fail("write", errno.ENOSPC, name="journal", times=None)
    again = copy.open(session.id)
    running = again.stream()
    running.write("x" * 5000)  # more than the limit: others would be rewritten now
    assert b"of the dead" in (again.path / "live.jsonl").read_bytes()
    files.heal()
    running.finish()
    assert texts(again) == ["a", "of the dead", "x" * 5000]
    live.finish()


def test_a_journal_that_cannot_be_written_is_not_opened_for_writing(store, crash):
    session = store.create()
    session.append(user("a"))
    live = session.stream()
    live.write("half")
    files = FakeFiles()
    copy = crash(store, files)
    files.fail("write", errno.EIO, name="journal", times=None)
    with pytest.raises(holdfast.WriteFailed):
        copy.open(session.id)
    files.heal()
    again = copy.open(session.id)  # the lock is free
    assert texts(again) == ["a", "half"]
    live.finish()


def test_a_live_file_that_cannot_be_opened_does_not_keep_the_text_from_the_journal(store, crash):
    session = store.create()
    session.append(user("a"))
    live = session.stream()
    live.write("half")
    files = FakeFiles()
    copy = crash(store, files)
    files.fail("open_append", errno.EACCES, name="live.jsonl", times=None)
    with copy.open(session.id) as again:
        assert texts(again) == ["a", "half"]
    files.heal()
    with copy.open(session.id) as again:
        assert texts(again) == ["a", "half"]
    live.finish()


def test_kill_9_costs_nothing_that_was_streamed(store, tmp_path):
    child = textwrap.dedent("""
        import os, signal, sys, time
        import holdfast
        session = holdfast.open_store(sys.argv[1]).create()
        session.append(holdfast.user("a"))
        print(session.id, flush=True)
        live = session.stream()
        for number in range(50):
            live.write(f"{number} ")
        print("written", flush=True)
        while "49 " not in (session.path / "live.jsonl").read_text():
            time.sleep(0.001)
        print("on disk", flush=True)
        time.sleep(60)
    """)
    process = subprocess.Popen(
        [sys.executable, "-c", child, store.path], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    session_id = process.stdout.readline().strip()
    while "on disk" not in process.stdout.readline():
        assert process.poll() is None
    process.kill()
    process.wait()
    process.stdout.close()
    with store.open(session_id) as session:
        assert texts(session) == ["a", "".join(f"{number} " for number in range(50))]
        assert session.messages[-1].stop == "interrupted"
