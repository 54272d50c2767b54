"""Asking again: when, how long after, and what people see meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import BadStatus, ConnectFailed, EmptyReply, TimedOut
from holdfast.runtime.providers.base import ProviderStatus, TextDelta
from holdfast.runtime.providers.retry import Patience, Retrying
from tests.runtime.providers.asking import ask, refused
from tests.runtime.providers.scripted import WHOLE, FakeProvider

DOWN = ConnectFailed("No connection.", retryable=True)
SLOW = TimedOut("Too slow.", retryable=True)
WRONG = BadStatus("Wrong.", retryable=False, status=400)


def busy(seconds):
    return BadStatus("Busy.", retryable=True, status=429, retry_after_seconds=seconds)


def patient(*answers, jitter=1.0, **limits):
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    fake = FakeProvider(*answers)
    return Retrying(fake, Patience(**limits), jitter=lambda: jitter, sleep=sleep), fake, waits


def test_a_first_try_that_works_is_passed_on():
    provider, fake, waits = patient(WHOLE)
    assert asyncio.run(ask(provider)) == WHOLE
    assert (provider.name, provider.endpoint) == ("fake", "http://fake.example")
    assert waits == []
    asyncio.run(provider.close())
    assert fake.closed


def test_failures_before_the_first_delta_are_retried_and_told():
    provider, fake, waits = patient([DOWN], [ProviderStatus("still here"), SLOW], WHOLE, jitter=1.0)
    deltas = asyncio.run(ask(provider))
    assert deltas == [
        ProviderStatus("No connection. Trying again in 1 s (try 2 of 5).", retry_in_seconds=1.0),
        ProviderStatus("still here"),
        ProviderStatus("Too slow. Trying again in 2 s (try 3 of 5).", retry_in_seconds=2.0),
        *WHOLE,
    ]
    assert waits == [1.0, 2.0]
    assert fake.open == 0


def test_the_wait_doubles_up_to_a_limit_and_is_jittered():
    provider, _, waits = patient(*[[DOWN]] * 6, tries=6, longest_seconds=5.0, jitter=0.0)
    _, error = asyncio.run(refused(provider))
    assert error is DOWN
    assert waits == [0.5, 1.0, 2.0, 2.5, 2.5]


def test_the_wait_that_the_provider_asks_for_is_kept():
    provider, _, waits = patient([busy(7.0)], WHOLE, jitter=0.25)
    deltas = asyncio.run(ask(provider))
    assert deltas[0].retry_in_seconds == 7.25
    assert waits == [7.25]


def test_a_provider_that_asks_for_too_long_is_not_asked_again():
    error = busy(3600.0)
    provider, fake, waits = patient([error], WHOLE)
    assert asyncio.run(refused(provider)) == ([], error)
    assert waits == []
    assert len(fake.answers) == 1


@pytest.mark.parametrize("answer", [[WRONG], [TextDelta("a"), DOWN]])
def test_what_cannot_help_or_was_seen_already_is_not_repeated(answer):
    provider, fake, waits = patient(answer, WHOLE)
    deltas, error = asyncio.run(refused(provider))
    assert deltas == answer[:-1]
    assert error is answer[-1]
    assert waits == []
    assert len(fake.answers) == 1


def test_a_stream_that_just_ends_is_an_error():
    provider, _, _ = patient([], WHOLE)
    deltas = asyncio.run(ask(provider))
    assert "sent an empty answer" in deltas[0].text
    assert deltas[1:] == WHOLE
    provider, _, _ = patient([], tries=1)
    assert type(asyncio.run(refused(provider))[1]) is EmptyReply
    provider, _, _ = patient([TextDelta("a")], WHOLE)
    deltas, error = asyncio.run(refused(provider))
    assert deltas == [TextDelta("a")]
    assert type(error) is ConnectFailed


def test_cancelling_ends_the_wait_at_once():
    async def run():
        started = asyncio.Event()

        async def sleep(seconds):
            started.set()
            await asyncio.sleep(seconds)

        fake = FakeProvider([busy(50.0)], WHOLE)
        task = asyncio.create_task(ask(Retrying(fake, sleep=sleep)))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert fake.open == 0
        assert len(fake.answers) == 1

    asyncio.run(run())
