"""What an interrupt, a busy machine or a second reader does not change."""

from __future__ import annotations

import pytest

from holdfast import user
from holdfast.journal.pool import BackgroundTask


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_what_was_accepted_is_written_also_if_no_thread_can_be_had(store, monkeypatch, error):
    session = store.create()
    session.append(user("a"))

    def wake(_task):
        raise error

    monkeypatch.setattr(BackgroundTask, "wake", wake)
    session.checkpoint("so far")
    ticket = session.submit(user("b"))
    with session.stream() as live:
        live.write("c")
        live.finish()
    assert ticket.done
    assert [message.text for message in session.messages] == ["a", "b", "c"]


def test_an_interrupt_between_queueing_and_noting_an_id_does_not_repeat_it(store, monkeypatch):
    session = store.create()
    session.append(user("a"))
    writer = session._recorder._writer
    enqueue = writer.enqueue

    def interrupted(*args):
        enqueue(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(writer, "enqueue", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.append(user("b"), id="once")
    monkeypatch.undo()
    session.append(user("b"), id="once")
    assert session.messages == [user("a"), user("b")]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Text is in the live file when ``write`` returns, so that a copy is like a crash."""
    monkeypatch.setattr("holdfast.store.write.streams._WRITE_WITHIN_SECONDS", 0)


def texts(session):
    return [message.text for message in session.messages]


def test_a_reader_beside_a_running_writer_sees_no_interruption(store):
    session = store.create()
    session.append(user("a"))
    live = session.stream()
    live.write("still running")
    reader = store.open(session.id, "read")
    assert texts(reader) == ["a"]
    assert reader.recovery.clean
    live.finish()
