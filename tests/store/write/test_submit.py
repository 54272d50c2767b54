"""Tickets: waiting, awaiting, giving up, and failures that nobody waited for."""

from __future__ import annotations

import asyncio
import errno
import threading
from typing import Any

import pytest

import holdfast
from holdfast import user


def texts(session):
    return [message.text for message in session.messages]


def test_awaiting_does_not_block_the_loop(fragile, files):
    async def main() -> list[str]:
        async with fragile.create() as session:
            await session.submit(user("first"))
            gate, order = threading.Event(), []
            files.on("sync", lambda: gate.wait(30) and None, name="journal.jsonl")
            ticket = session.submit(user("slow"))

            async def other() -> None:
                order.append("other")
                gate.set()

            async def waiter() -> None:
                await ticket
                order.append("durable")

            await asyncio.gather(waiter(), other())
            return order

    assert asyncio.run(main()) == ["other", "durable"]


def test_a_cancelled_await_does_not_withdraw_the_entry(fragile, files):
    async def main() -> Any:
        session = fragile.create()
        await session.submit(user("first"))
        gate = threading.Event()
        files.on("sync", lambda: gate.wait(30) and None, name="journal.jsonl")
        ticket = session.submit(user("kept"))

        async def wait() -> None:
            await ticket

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not ticket.done
        gate.set()
        await ticket
        return session

    session = asyncio.run(main())
    assert texts(session) == ["first", "kept"]


def test_a_wait_that_times_out_does_not_withdraw_the_entry(fragile, files, eventually):
    session = fragile.create()
    session.append(user("first"))
    gate = threading.Event()
    blocked = files.on("sync", lambda: gate.wait(30) and None, name="journal.jsonl")
    ticket = session.submit(user("kept"))
    eventually(lambda: blocked.hits)
    with pytest.raises(TimeoutError):
        ticket.wait(timeout_seconds=0)
    gate.set()
    ticket.wait()
    assert texts(session) == ["first", "kept"]


def test_a_loop_that_is_gone_does_not_disturb_the_writer(fragile, files, eventually):
    session = fragile.create()
    session.append(user("first"))
    gate = threading.Event()
    files.on("sync", lambda: gate.wait(30) and None, name="journal.jsonl")
    ticket = session.submit(user("kept"))

    async def main() -> None:
        async def wait() -> None:
            await ticket

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(main())
    gate.set()
    eventually(lambda: ticket.done)
    assert texts(session) == ["first", "kept"]


def broken(files):
    """Break the journal for good: neither it nor a new file beside it can be synced."""
    files.fail("sync", errno.EIO, name="journal", times=None)


def test_a_failed_ticket_that_nobody_awaited_is_raised_by_the_next_call(fragile, files, eventually):
    session = fragile.create()
    first = session.append(user("safe"))
    broken(files)
    ticket = session.submit(user("lost"))
    eventually(lambda: ticket.done)
    with pytest.raises(holdfast.WriteFailed) as caught:
        session.append(user("next"))
    assert caught.value.last_durable == first.seq
    assert session.trouble is ticket.error
    with pytest.raises(holdfast.WriteFailed):
        session.append(user("still broken"))
    session.close()  # it was told
    assert texts(session) == ["safe"]


def test_a_failed_ticket_that_nobody_awaited_is_raised_by_close(fragile, files, eventually):
    session = fragile.create()
    session.append(user("safe"))
    broken(files)
    ticket = session.submit(user("lost"))
    eventually(lambda: ticket.done)
    with pytest.raises(holdfast.WriteFailed):
        session.close()
    session.close()
    files.heal()
    again = fragile.open(session.id)  # the lock was let go
    assert texts(again)[0] == "safe"


def test_a_failure_met_while_closing_is_raised_and_the_lock_let_go(fragile, files, monkeypatch):
    monkeypatch.setattr("holdfast.journal.pool.BackgroundTask.wake", lambda _: None)
    session = fragile.create()
    session.append(user("safe"))
    broken(files)
    session.submit(user("lost"))
    with pytest.raises(holdfast.WriteFailed):
        session.close()
    files.heal()
    again = fragile.open(session.id)
    assert texts(again)[0] == "safe"


def test_a_failed_ticket_that_was_awaited_is_not_raised_again_by_close(fragile, files):
    session = fragile.create()
    session.append(user("safe"))
    broken(files)
    ticket = session.submit(user("lost"))
    with pytest.raises(holdfast.WriteFailed):
        ticket.wait()
    session.close()
    assert texts(session) == ["safe"]


def test_what_never_became_durable_is_in_no_state(fragile, files, eventually):
    session = fragile.create()
    session.append(user("safe"))
    before = session.state
    broken(files)
    ticket = session.submit([user("lost"), holdfast.Meta({"title": "lost"})])
    eventually(lambda: ticket.done)
    assert session.state == before
    assert texts(session) == ["safe"]
    assert "title" not in session.meta
    with pytest.raises(holdfast.WriteFailed):
        session.close()
