"""Leaving early: the server sees the connection close, and nothing is left behind."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from holdfast.runtime.providers.base import TextDelta
from holdfast.runtime.providers.retry import Retrying
from tests.runtime.providers.asking import ask, request
from tests.runtime.providers.test_faults import BEGINNINGS, VENDORS
from tests.runtime.providers.wire import FakeVendor, Reply


@pytest.fixture(params=list(VENDORS))
def vendor(request):
    return request.param


def test_closing_the_stream_closes_the_connection(vendor):
    async def run():
        async with FakeVendor(Reply(BEGINNINGS[vendor], end="hang")) as server:
            provider = Retrying(VENDORS[vendor](server.url))
            async with aclosing(provider.stream(request())) as deltas:
                assert await anext(deltas) == TextDelta("a")
            await asyncio.wait_for(server.left.wait(), 30)
            await provider.close()

    asyncio.run(run())


def test_cancelling_the_task_closes_the_connection(vendor):
    async def run():
        async with FakeVendor(Reply(BEGINNINGS[vendor], end="hang")) as server:
            provider = VENDORS[vendor](server.url)
            task = asyncio.create_task(ask(provider))
            await server.asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(server.left.wait(), 30)
            await provider.close()

    asyncio.run(run())


def test_a_slow_stream_is_handed_on_piece_by_piece(vendor):
    async def run():
        reply = Reply(BEGINNINGS[vendor], pause=len(BEGINNINGS[vendor]) - 1, end="hang")
        async with FakeVendor(reply) as server:
            provider = VENDORS[vendor](server.url)
            async with aclosing(provider.stream(request())) as deltas:
                assert await anext(deltas) == TextDelta("a")
                server.go.set()  # the rest is sent only now
                assert await anext(deltas) == TextDelta("b")
            await provider.close()

    asyncio.run(run())
