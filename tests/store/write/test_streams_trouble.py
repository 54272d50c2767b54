"""The live file in trouble: no room, failed syncs, a limit, streams that are not durable yet."""

from __future__ import annotations

import errno

import pytest

import holdfast
from holdfast import user
from holdfast.files import Files
from holdfast.store.local.live import read_live


def live_text(session):
    return "".join(event.text for event in read_live(Files(), session.path).events)


def live_size(session):
    path = session.path / "live.jsonl"
    return path.stat().st_size if path.exists() else 0


def test_a_full_disk_loses_nothing_once_the_stream_is_finished(fragile, files):
    session = fragile.create()
    session.append(user("a"))
    live = session.stream()
    files.fail("write", errno.ENOSPC, name="live.jsonl", times=None)
    live.write("one ")
    live.write("two")
    assert live_size(session) == 0
    files.heal()
    live.finish()
    assert session.messages[-1].text == "one two"


def test_text_that_found_no_room_is_written_later(fragile, files, eventually):
    session = fragile.create()
    session.append(user("a"))
    live = session.stream()
    files.fail("write", errno.ENOSPC, name="live.jsonl", times=1)
    live.write("one ")
    assert live_text(session) == ""
    live.write("two")
    eventually(lambda: live_text(session) == "one two")
    live.finish()


def test_a_stream_on_a_full_disk_in_a_new_session(fragile, files, eventually):
    session = fragile.create()
    with files.full_disk():
        live = session.stream()
        live.write("patience")
        assert isinstance(session.trouble, holdfast.DiskFull)
        ticket = live.submit()
        with pytest.raises(holdfast.DiskFull):
            ticket.wait()
    eventually(lambda: ticket.done)
    assert session.messages[-1].text == "patience"


def test_the_live_file_is_rewritten_above_its_limit(store, monkeypatch, eventually):
    monkeypatch.setattr("holdfast.store.write.streams.LARGEST_LIVE_BYTES", 4000)
    monkeypatch.setattr("holdfast.store.write.streams._WRITE_WITHIN_SECONDS", 0)
    session = store.create()
    done, running = session.stream(), session.stream()
    running.write("running ")
    done.write("x" * 3000)
    done.finish()
    before = (session.path / "live.jsonl").stat().st_ino
    running.write("y" * 2000)
    assert (session.path / "live.jsonl").stat().st_ino != before
    assert live_text(session) == "running " + "y" * 2000
    running.write("!")
    assert live_text(session) == "running " + "y" * 2000 + "!"
    running.finish()
    eventually(lambda: live_size(session) == 0)


def test_a_rewrite_that_fails_leaves_the_old_file(fragile, files, monkeypatch):
    monkeypatch.setattr("holdfast.store.write.streams.LARGEST_LIVE_BYTES", 1000)
    monkeypatch.setattr("holdfast.store.write.streams._WRITE_WITHIN_SECONDS", 0)
    session = fragile.create()
    session.append(user("a"))
    live = session.stream()
    live.write("begin ")
    files.fail("write", errno.ENOSPC, name=".live.jsonl.", times=None)
    live.write("x" * 2000)
    assert live_text(session) == "begin " + "x" * 2000
    live.finish()


def test_a_finished_stream_that_is_not_durable_yet_survives_a_rewrite(
    fragile, files, monkeypatch, eventually
):
    monkeypatch.setattr("holdfast.store.write.streams.LARGEST_LIVE_BYTES", 3000)
    monkeypatch.setattr("holdfast.store.write.streams._WRITE_WITHIN_SECONDS", 0)
    session = fragile.create()
    session.append(user("a"))
    waiting, running = session.stream(), session.stream()
    waiting.write("shown already. ")
    files.fail("write", errno.ENOSPC, name="journal", times=None)
    with pytest.raises(holdfast.DiskFull):
        waiting.finish()
    running.write("x" * 4000)
    assert "shown already. " in live_text(session)
    files.heal()
    running.finish()
    eventually(lambda: live_size(session) == 0)


def test_a_stream_stays_in_the_live_file_until_its_own_entry_is_durable(fragile, files, eventually):
    session = fragile.create()
    session.append(user("a"))
    first, second = session.stream(), session.stream()
    first.write("first")
    second.write("second")
    eventually(lambda: "second" in live_text(session))
    ticket = first.submit()
    eventually(lambda: ticket.done)
    files.fail("write", errno.ENOSPC, name="journal", times=None)
    with pytest.raises(holdfast.DiskFull):
        second.finish()
    session._recorder._deliver()
    assert "second" in live_text(session)
    files.heal()
    eventually(lambda: live_size(session) == 0)


def test_a_failed_sync_of_the_live_file_moves_everything_to_a_new_one(fragile, files, eventually):
    session = fragile.create()
    session.append(user("a"))
    live = session.stream()
    files.fail("sync", errno.EIO, name="live.jsonl")
    live.write("one ")
    before = (session.path / "live.jsonl").stat().st_ino
    eventually(lambda: (session.path / "live.jsonl").stat().st_ino != before)
    live.write("two")
    eventually(lambda: live_text(session) == "one two")
    live.finish()
    assert session.messages[-1].text == "one two"


def test_text_that_a_rewrite_took_along_is_not_written_again(store, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("holdfast.store.write.streams.time.monotonic", lambda: now[0])
    monkeypatch.setattr("holdfast.journal.pool.BackgroundTask.wake", lambda _: None)
    session = store.create()
    first, second = session.stream(), session.stream()
    first.write("first")
    second.write("waits for the next write")
    first.finish()
    session.compact()  # which rewrites the live file without what is an entry by now
    now[0] += 10
    session._recorder.streams.work()
    assert live_text(session) == "waits for the next write"
    second.finish()


def test_a_live_file_that_cannot_be_emptied_brings_nothing_back(fragile, files):
    session = fragile.create()
    session.append(user("a"))
    files.fail("truncate", errno.EIO, name="live.jsonl", times=None)
    with session.stream() as live:
        live.write("once")
    files.heal()
    assert live_size(session) > 0
    session.close()
    with fragile.open(session.id) as again:
        assert [message.text for message in again.messages] == ["a", "once"]
        assert live_size(again) == 0


def test_one_huge_stream_is_not_rewritten_with_every_piece(fragile, files, monkeypatch):
    monkeypatch.setattr("holdfast.store.write.streams.LARGEST_LIVE_BYTES", 1000)
    monkeypatch.setattr("holdfast.store.write.streams._WRITE_WITHIN_SECONDS", 0)
    session = fragile.create()
    with session.stream(call_id="c1") as live:
        for _ in range(100):
            live.write("x" * 200)
        assert files.count("rename", ".live.jsonl.") < 10
        assert live_text(session) == "x" * 20_000


@pytest.fixture
def clock(monkeypatch):
    """Let time pass by hand, and the background do nothing by itself."""
    now = [100.0]
    monkeypatch.setattr("holdfast.store.write.streams.time.monotonic", lambda: now[0])
    monkeypatch.setattr("holdfast.journal.pool.BackgroundTask.wake", lambda _: None)
    return now


def test_a_failed_sync_is_answered_by_new_files_until_one_is_durable(fragile, files, clock):
    session = fragile.create()
    session.append(user("a"))
    live = session.stream()
    live.write("text")
    streams = session._recorder.streams
    files.fail("sync", errno.EIO, name="live.jsonl", times=None)
    clock[0] += 1
    for attempt in (1, 2, 3):  # the new file cannot be synced either
        assert 0 < streams.work() <= 1
        clock[0] += 2
        assert files.count("sync", ".live.jsonl.") == attempt
    files.heal()
    assert streams.work() is None
    assert (
        files.calls.count(("sync", "live.jsonl")) == 1
    )  # a second sync of that one proves nothing
    assert live_text(session) == "text"
    live.write(" more")
    clock[0] += 1
    streams.work()
    assert files.calls.count(("sync", "live.jsonl")) == 2
    live.finish()


def test_a_sync_that_fails_after_the_file_was_let_go_changes_nothing(fragile, files, clock):
    session = fragile.create()
    session.append(user("a"))
    live = session.stream()
    live.write("text")
    streams = session._recorder.streams
    file = streams._file
    live.finish()
    session.close()
    files.fail("sync", errno.EBADF, times=None)
    streams._sync(file)
    assert files.count("rename", ".live.jsonl.") == 0
