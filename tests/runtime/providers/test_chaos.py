"""Streams that break on purpose."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from holdfast.errors import (
    BadStatus,
    ConnectFailed,
    EmptyReply,
    KeyRefused,
    TimedOut,
    UsageError,
)
from holdfast.runtime.providers.base import ProviderStatus, TextDelta
from holdfast.runtime.providers.fault_injection import Chaos, Fault, parse_plan
from holdfast.runtime.providers.retry import Retrying
from tests.runtime.providers.asking import ask, refused, request
from tests.runtime.providers.scripted import WHOLE, FakeProvider


def broken(plan, count=9):
    return Chaos(FakeProvider(*[WHOLE] * count), plan)


@pytest.mark.parametrize(
    ("plan", "before", "kind", "retryable"),
    [
        ("disconnect@0", 0, ConnectFailed, True),
        ("disconnect@2", 2, ConnectFailed, True),
        ("timeout@1", 1, TimedOut, True),
        ("end@0", 0, EmptyReply, True),
        ("end@1", 1, ConnectFailed, True),
        ("429@0", 0, BadStatus, True),
        ("500", 0, BadStatus, True),
        ("529@1", 1, BadStatus, True),
        ("400@0", 0, BadStatus, False),
        ("401@0", 0, KeyRefused, False),
    ],
)
def test_each_fault(plan, before, kind, retryable):
    provider = broken(plan)
    deltas, error = asyncio.run(refused(provider))
    assert deltas == WHOLE[:before]
    assert type(error) is kind
    assert error.retryable is retryable
    assert "on purpose" in str(error)
    if isinstance(error, BadStatus):
        assert error.status == int(plan[:3])
    assert provider._inner.open == 0
    assert provider._inner.closed


def test_requests_meet_the_faults_in_order_and_then_pass():
    async def run():
        provider = broken("429@0x2, ok, disconnect@1")
        kinds: list[object] = []
        for _ in range(5):
            try:
                kinds.append(await ask(provider))
            except (BadStatus, ConnectFailed) as error:
                kinds.append(type(error))
        return kinds

    assert asyncio.run(run()) == [BadStatus, BadStatus, WHOLE, ConnectFailed, WHOLE]


def test_a_fault_behind_the_end_does_nothing():
    assert asyncio.run(ask(broken("disconnect@9"))) == WHOLE


def test_retrying_gets_through_what_broke_before_the_first_delta():
    async def no_sleep(seconds):
        pass

    provider = Retrying(broken("529@0x3"), sleep=no_sleep)
    deltas = asyncio.run(ask(provider))
    assert [type(delta) for delta in deltas[:3]] == [ProviderStatus] * 3
    assert deltas[3:] == WHOLE


def test_a_stalled_stream_can_be_left():
    async def run():
        provider = broken("stall@1")
        async with aclosing(provider.stream(request())) as deltas:
            assert await anext(deltas) == TextDelta("a")
            stalled = asyncio.ensure_future(anext(deltas))
            await asyncio.sleep(0)
            assert not stalled.done()
            stalled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await stalled
        assert provider._inner.open == 0

    asyncio.run(run())


def test_a_plan_is_text():
    assert parse_plan("") == []
    assert parse_plan(" disconnect @ 3 ,429@0x2,ok,") == [
        Fault("disconnect", 3),
        Fault("429"),
        Fault("429"),
        Fault("ok"),
    ]
    assert (broken("ok").name, broken("ok").endpoint) == ("fake", "http://fake.example")


@pytest.mark.parametrize("plan", ["explode", "disconnect@", "200@0", "429@-1", "429x", "429@1@2"])
def test_a_wrong_plan_says_what_a_right_one_looks_like(plan):
    with pytest.raises(UsageError, match=r"disconnect@3.*ok, stall"):
        parse_plan(plan)
