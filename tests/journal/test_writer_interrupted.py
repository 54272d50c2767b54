"""Interrupts in the middle of a writer's bookkeeping: nothing lost, nothing twice, nobody stuck."""

from __future__ import annotations

import errno
import os
import threading

import pytest

from holdfast.errors import DiskFull, WriteFailed
from tests.journal.writing import Desk


@pytest.fixture
def desk(tmp_path, files):
    desk = Desk(files, tmp_path / "session")
    desk.append("a")
    yield desk
    files.heal()
    desk.writer.close()


def interrupt_once(monkeypatch, target, name: str, *, after: bool) -> list[bool]:
    """Let the next call of a method be interrupted before or after it did its work."""
    real = getattr(target, name)
    interrupted: list[bool] = []

    def method(*args):
        first = not interrupted
        if first:
            interrupted.append(True)
        if first and not after:
            raise KeyboardInterrupt
        result = real(*args)
        if first:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(target, name, method)
    return interrupted


def published(desk) -> list[int]:
    return [entry.seq for entry in desk.owner.published]


@pytest.mark.parametrize(
    ("method", "after"),
    [("publish", False), ("_settle", False), ("_settle", True), ("_settle_durable", False)],
)
def test_settling_is_done_again(desk, monkeypatch, method, after):
    target = desk.owner if method == "publish" else desk.writer
    ticket = desk.submit("b")
    interrupted = interrupt_once(monkeypatch, target, method, after=after)
    with pytest.raises(KeyboardInterrupt):
        ticket.wait()
    assert interrupted
    ticket.wait()
    desk.append("c")
    assert desk.texts() == ["a", "b", "c"]
    assert published(desk) == [0, 1, 2, 3]
    assert desk.writer.idle


def test_what_was_durable_and_not_settled_is_not_written_again(desk, monkeypatch):
    ticket = desk.submit("b")
    with monkeypatch.context() as patch:
        patch.setattr(desk.writer, "_settle", lambda *_: patch.undo())
        ticket.wait()
    assert ticket.done
    assert desk.files.count("sync", "journal") == 2
    desk.append("c")
    assert desk.texts() == ["a", "b", "c"]
    assert published(desk) == [0, 1, 2, 3]


def test_a_leadership_that_was_never_laid_down_is_nobodys(desk):
    desk.writer._leader = threading.get_ident()
    desk.append("b")
    desk.writer._leader = threading.get_ident()
    assert desk.writer.drain()
    desk.writer._leader = threading.get_ident()
    desk.writer.close()
    assert desk.texts() == ["a", "b"]


def test_an_interrupt_while_another_one_writes(desk, monkeypatch, eventually):
    """A wait that is interrupted with the mutex let go takes it back before it raises."""
    gate = threading.Event()
    place = desk.writer.place

    def sync() -> None:
        gate.wait()
        os.fdatasync(place.descriptor)

    desk.files.on("sync", sync, name="journal")
    desk.files.calls.clear()
    leader = threading.Thread(target=desk.append, args=("b",))
    leader.start()
    eventually(lambda: desk.files.count("sync", "journal") == 1)
    ticket = desk.submit("c")

    def wait(_: float | None) -> None:
        desk.writer.lock.release()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(desk.writer.mutex, "wait", wait)
        with pytest.raises(KeyboardInterrupt):
            ticket.wait()
    gate.set()
    leader.join()
    ticket.wait()
    assert desk.texts() == ["a", "b", "c"]


def test_an_interrupt_while_a_full_disk_is_told(desk, monkeypatch):
    desk.files.fail("write", errno.ENOSPC, name="journal")
    ticket = desk.submit("b")
    interrupt_once(monkeypatch, desk.writer, "_settle", after=True)
    with pytest.raises(KeyboardInterrupt):
        ticket.wait()
    assert isinstance(desk.writer.trouble(), DiskFull)
    ticket.wait()
    assert desk.writer.trouble() is None
    assert desk.texts() == ["a", "b"]


@pytest.mark.parametrize("method", ["_settle", "notify_all"])
def test_an_interrupt_while_a_failure_is_told_loses_no_ticket(desk, monkeypatch, method):
    """What was accepted and cannot be written stays in sight, so that it can be exported."""
    desk.files.fail("sync", name="journal", times=None)
    desk.files.fail("open_append", name="journal", times=None)
    desk.files.fail("rename", times=None)
    ticket = desk.submit("b")
    target = desk.writer if method == "_settle" else desk.writer.mutex
    interrupt_once(monkeypatch, target, method, after=True)
    with pytest.raises(KeyboardInterrupt):
        ticket.wait()
    with pytest.raises(WriteFailed):
        ticket.wait()
    with desk.writer.mutex:
        assert desk.writer.unpublished == [ticket]


def test_an_interrupt_before_a_failure_is_on_the_tickets_hangs_nobody(desk, monkeypatch):
    desk.files.fail("sync", name="journal", times=None)
    desk.files.fail("rename", times=None)
    ticket = desk.submit("b")
    real = desk.writer._settle

    def settle(waiting, error):
        """Come as far as taking the tickets from the queue."""
        monkeypatch.setattr(desk.writer, "_settle", real)
        desk.writer._failure = error
        desk.writer._lost, desk.writer._queue = desk.writer._queue, []
        raise KeyboardInterrupt

    monkeypatch.setattr(desk.writer, "_settle", settle)
    with pytest.raises(KeyboardInterrupt):
        ticket.wait()
    assert ticket.done
    with pytest.raises(WriteFailed):
        ticket.wait()
