"""Interrupts in the middle of a writer's bookkeeping: nothing lost, nothing twice, nobody stuck."""

from __future__ import annotations

import errno
import os
import signal
import threading

import pytest

from holdfast.errors import DiskFull, WriteFailed
from holdfast.journal.ticket import Ticket
from tests.journal.writer_on_files import Desk


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


@pytest.fixture
def slow_leader(desk, eventually):
    """Another thread that writes "b" and is held up in the sync until the gate opens."""
    gate = threading.Event()
    place = desk.log.place

    def sync() -> None:
        gate.wait()
        os.fdatasync(place.descriptor)

    desk.files.on("sync", sync, name="journal")
    desk.files.calls.clear()
    leader = threading.Thread(target=desk.append, args=("b",))
    leader.start()
    eventually(lambda: desk.files.count("sync", "journal") == 1)
    yield gate
    gate.set()
    leader.join()


def test_an_interrupt_while_another_one_writes(desk, slow_leader):
    ticket = desk.submit("c")
    main = threading.get_ident()
    threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        ticket.wait()
    slow_leader.set()
    ticket.wait()
    assert desk.texts() == ["a", "b", "c"]


def test_the_next_leader_was_interrupted_before_it_began(desk, slow_leader, eventually):
    """A thread that follows finds out by itself that nobody leads."""
    ticket = desk.submit("c")
    other = threading.Thread(target=ticket.wait)
    other.start()
    eventually(lambda: desk.writer._followers)
    desk.writer._followers.clear()  # told somebody who is no longer there
    slow_leader.set()
    other.join(10)
    assert ticket.done


def test_a_leader_that_left_without_telling_anybody(desk, monkeypatch, slow_leader, eventually):
    ticket = desk.submit("c")
    other = threading.Thread(target=ticket.wait)
    other.start()
    eventually(lambda: desk.writer._followers)
    monkeypatch.setattr(desk.writer, "_settle", lambda *_: monkeypatch.undo())
    slow_leader.set()
    other.join(10)
    assert ticket.done
    assert desk.texts() == ["a", "b", "c"]


def test_a_signal_handler_does_not_wait_for_what_it_interrupted(desk):
    """It would wait for ever, and writing in between would tear the round."""
    place = desk.log.place
    inner = []

    def sync() -> None:
        inner.append(desk.submit("c"))
        with pytest.raises(TimeoutError, match="signal handler"):
            inner[0].wait()
        os.fdatasync(place.descriptor)

    desk.files.on("sync", sync, name="journal")
    desk.append("b")
    assert not inner[0].done
    inner[0].wait()
    assert desk.texts() == ["a", "b", "c"]


@pytest.mark.parametrize("call", ["wait", "drain", "close"])
def test_a_signal_handler_does_not_wait_for_the_settling_it_interrupted(desk, monkeypatch, call):
    """By then the leader has laid its hint down, and still holds what a second one waits for."""
    publish = desk.owner.publish
    inner: list[Ticket] = []

    def interrupted(tickets) -> None:
        if not inner:
            inner.append(desk.submit("c"))
            act = inner[0].wait if call == "wait" else getattr(desk.writer, call)
            with pytest.raises(TimeoutError, match="signal handler"):
                act()
        publish(tickets)

    monkeypatch.setattr(desk.owner, "publish", interrupted)
    desk.append("b")
    inner[0].wait()
    assert desk.texts() == ["a", "b", "c"]


def test_a_handler_that_finds_another_thread_about_to_lead(desk, monkeypatch):
    """The hint names the other one by then; what is really held tells."""
    publish = desk.owner.publish
    inner: list[Ticket] = []

    def interrupted(tickets) -> None:
        if not inner:
            desk.writer._leader = 1
            inner.append(desk.submit("c"))
            with pytest.raises(TimeoutError, match="signal handler"):
                inner[0].wait()
            desk.writer._leader = None
        publish(tickets)

    monkeypatch.setattr(desk.owner, "publish", interrupted)
    desk.append("b")
    inner[0].wait()
    assert desk.texts() == ["a", "b", "c"]


def test_a_follower_that_nobody_woke_finds_out_that_it_is_settled(desk, slow_leader, eventually):
    """Also if somebody leads all the time."""
    ticket = desk.submit("c")
    other = threading.Thread(target=desk.writer.wait, args=(ticket,))
    other.start()
    eventually(lambda: desk.writer._followers)
    desk.writer._followers.clear()  # an interrupt came before it was woken
    ticket.settle(None)
    other.join(10)
    assert not other.is_alive()
    assert desk.writer._leading.locked()


def test_what_is_settled_and_still_queued_does_not_keep_a_flush_busy(desk, monkeypatch):
    ticket = desk.submit("b")
    desk.writer.subscribe(ticket, lambda: None)
    interrupted = interrupt_once(monkeypatch, Ticket, "settle", after=True)
    with pytest.raises(KeyboardInterrupt):
        ticket.wait()
    assert interrupted
    assert ticket.done
    assert not desk.writer.idle
    desk.writer.flush()
    assert desk.writer.idle
    assert published(desk)[:3] == [0, 1, 2]


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


@pytest.mark.parametrize("method", ["_settle", "settle"])
@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_while_a_failure_is_told_loses_no_ticket(desk, monkeypatch, method, after):
    """What was accepted and cannot be written stays in sight, so that it can be exported."""
    desk.files.fail("sync", name="journal", times=None)
    desk.files.fail("open_append", name="journal", times=None)
    desk.files.fail("rename", times=None)
    tickets = [desk.submit("b"), desk.submit("c")]
    target = desk.writer if method == "_settle" else Ticket
    interrupt_once(monkeypatch, target, method, after=after)
    with pytest.raises(KeyboardInterrupt):
        tickets[0].wait()
    for ticket in tickets:
        with pytest.raises(WriteFailed):
            ticket.wait()
    with desk.writer.mutex:
        assert desk.writer.unpublished == tickets
