"""The bounded queue of one subscriber, over a sink that is no socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.runtime.protocol import subscriber as module
from holdfast.runtime.protocol.subscriber import Subscriber


class FakeSink:
    """Takes lines while it is open to them; can be held up, and can be gone."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.closed = self.aborted = self.gone = False
        self.takes = asyncio.Event()
        self.takes.set()

    async def write(self, line: bytes) -> None:
        await self.takes.wait()
        if self.gone:
            raise ConnectionResetError
        self.lines.append(line)

    async def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


@asynccontextmanager
async def subscribed() -> AsyncIterator[tuple[Subscriber, FakeSink]]:
    sink = FakeSink()
    subscriber = Subscriber(sink)
    sending = asyncio.ensure_future(subscriber.send_loop())
    try:
        yield subscriber, sink
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


def test_lines_reach_the_sink_in_order_and_then_it_is_closed():
    async def send() -> FakeSink:
        async with subscribed() as (subscriber, sink):
            for number in range(100):
                subscriber.send(b"%d" % number)
            await subscriber.finish(60)
            subscriber.send(b"too late")
            return sink

    sink = asyncio.run(send())
    assert sink.lines == [b"%d" % number for number in range(100)]
    assert sink.closed


def test_a_subscriber_that_takes_nothing_is_dropped_at_the_bound(monkeypatch):
    monkeypatch.setattr(module, "MOST_QUEUED_BYTES", 100)

    async def stall() -> None:
        async with subscribed() as (subscriber, sink):
            sink.takes.clear()
            subscriber.attached = True
            for _ in range(4):
                subscriber.send(b"x" * 25)
            before = (subscriber.dropped, sink.aborted)
            subscriber.send(b"x")
            assert before == (False, False)
            assert (subscriber.dropped, subscriber.attached, sink.aborted) == (True, False, True)
            await subscriber.wait_empty()
            await subscriber.ready()

    asyncio.run(stall())


def test_history_is_sent_at_the_pace_of_the_sink(monkeypatch):
    monkeypatch.setattr(module, "MOST_QUEUED_BYTES", 100)

    async def catch_up() -> list[bytes]:
        async with subscribed() as (subscriber, sink):
            sink.takes.clear()
            sending = asyncio.ensure_future(subscriber.send_all([b"x" * 25] * 50))
            await asyncio.sleep(0)
            assert not subscriber.dropped
            sink.takes.set()
            await sending
            return sink.lines

    assert len(asyncio.run(catch_up())) == 50


def test_requests_wait_until_replies_are_taken(monkeypatch):
    monkeypatch.setattr(module, "MOST_REPLIES", 2)

    async def ask() -> None:
        async with subscribed() as (subscriber, sink):
            sink.takes.clear()
            subscriber.send(b"1", is_reply=True)
            await subscriber.ready()
            subscriber.send(b"2", is_reply=True)
            ready = asyncio.ensure_future(subscriber.ready())
            for _ in range(10):
                await asyncio.sleep(0)
            assert not ready.done()
            sink.takes.set()
            await ready

    asyncio.run(ask())


@pytest.mark.parametrize("waits", ["wait_empty", "ready"])
def test_whoever_waits_for_a_subscriber_hears_that_the_sink_is_gone(monkeypatch, waits):
    monkeypatch.setattr(module, "MOST_REPLIES", 1)

    async def lose() -> None:
        async with subscribed() as (subscriber, sink):
            sink.gone = True
            subscriber.send(b"1", is_reply=True)
            await getattr(subscriber, waits)()
            assert subscriber.dropped
            assert sink.aborted

    asyncio.run(lose())
