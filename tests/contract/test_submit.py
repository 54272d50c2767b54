"""Tickets: waiting, awaiting, giving up, and failures that nobody waited for."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import holdfast
from holdfast import user
from holdfast.journal.pool import LARGEST_POOL


def texts(session):
    return [message.text for message in session.messages]


def test_a_ticket_is_waited_for(store):
    session = store.create()
    tickets = [session.submit(user(str(number))) for number in range(100)]
    positions = [ticket.wait() for ticket in tickets]
    assert all(ticket.done for ticket in tickets)
    assert [position.seq for position in positions] == sorted(p.seq for p in positions)
    assert texts(session) == [str(number) for number in range(100)]
    assert tickets[0].wait() == tickets[0].position


def test_what_was_submitted_is_written_though_nobody_waits(store, eventually):
    session = store.create()
    ticket = session.submit(user("a"))
    eventually(lambda: ticket.done)
    assert texts(session) == ["a"]


def test_many_sessions_share_a_few_threads(store, eventually):
    sessions = [store.create() for _ in range(40)]
    for _ in range(3):
        tickets = [session.submit(user("a")) for session in sessions]
        eventually(lambda tickets=tickets: all(ticket.done for ticket in tickets))
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("holdfast") <= LARGEST_POOL


def test_listeners_that_wait_for_another_session_do_not_stop_it(store, eventually):
    """There are more of them than threads."""
    sessions, last = [store.create() for _ in range(20)], store.create()
    written = threading.Event()
    told: list[int] = []

    def wait(entry: holdfast.Entry) -> None:
        if entry.type == "message":
            assert written.wait(30)
            told.append(entry.seq)

    last.on_entry(lambda entry: written.set() if entry.type == "message" else None)
    for session in sessions:
        session.on_entry(wait)
        session.submit(user("a"))
    last.submit(user("b"))
    eventually(lambda: len(told) == 20)


def test_close_writes_what_was_submitted(store):
    with store.create() as session:
        for number in range(50):
            session.submit(user(str(number)))
    assert len(store.open(session.id, "read").messages) == 50


def test_a_ticket_is_awaited_in_a_session_used_with_async_with(store):
    async def main() -> Any:
        async with store.create() as session:
            first = await session.submit(user("a"))
            second = await session.submit([user("b"), user("c")])
            assert first.seq < second.seq
            both = await asyncio.gather(*(session.submit(user(str(n))) for n in range(20)))
            assert len({position.seq for position in both}) == 20
            done = session.submit(user("z"))
            assert await done == await done
        return session

    session = asyncio.run(main())
    with pytest.raises(holdfast.UsageError, match="closed"):
        session.append(user("late"))
    assert texts(session)[:3] == ["a", "b", "c"]
    assert len(texts(session)) == 24


def test_what_is_accepted_at_the_last_moment_of_closing_is_written(store, monkeypatch):
    monkeypatch.setattr("holdfast.journal.pool.BackgroundTask.wake", lambda _: None)
    session = store.create()
    session.append(user("first"))
    recorder = session._recorder
    accepted: list[holdfast.Ticket] = []

    def another_thread_submits() -> None:
        if not accepted:
            accepted.append(recorder.submit([user("late")]))

    monkeypatch.setattr(recorder, "_deliver", another_thread_submits)
    session.close()
    assert [ticket.done for ticket in accepted] == [True]
    assert texts(store.open(session.id, "read")) == ["first", "late"]


def test_what_is_accepted_while_closing_is_written(store):
    session = store.create()
    session.append(user("first"))
    accepted: list[holdfast.Ticket] = []

    def work() -> None:
        while True:
            try:
                accepted.append(session.submit(user("late")))
            except holdfast.UsageError:
                return

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    session.close()
    for thread in threads:
        thread.join()
    assert all(ticket.done for ticket in accepted)
    assert len(store.open(session.id, "read").messages) == 1 + len(accepted)
