"""The wish to end a turn, and what it reaches."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.runtime.agent.cancellation import CancelToken, Stopped


async def stubborn(heard: list[str]) -> str:
    """Hear of every cancel, and end at the second."""
    for _ in range(2):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            heard.append("cancelled")
    return "its own word"


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_work_hears_of_it_however_early_it_comes_and_has_the_last_word(steps):
    heard: list[str] = []

    async def main() -> str:
        stop = CancelToken()
        guarded = asyncio.ensure_future(stop.guard(stubborn(heard)))
        for _ in range(steps):
            await asyncio.sleep(0)
        stop.request("first")
        while not (heard or guarded.done()):  # noqa: ASYNC110  it comes in a step or two
            await asyncio.sleep(0)
        stop.request("second")
        assert stop.cause == "first"
        return await guarded

    assert asyncio.run(main()) == "its own word"
    assert heard == ["cancelled", "cancelled"]


def test_work_that_has_nothing_to_say_is_stopped_and_later_work_not_begun():
    async def main() -> None:
        stop = CancelToken()
        guarded = asyncio.ensure_future(stop.guard(asyncio.sleep(1000)))
        await asyncio.sleep(0)
        stop.request("enough")
        with pytest.raises(Stopped, match="enough"):
            await guarded
        with pytest.raises(Stopped, match="enough"):
            await stop.guard(asyncio.sleep(1000))
        with pytest.raises(Stopped, match="enough"):
            stop.check()

    asyncio.run(main())


def test_only_a_limit_is_handed_on_to_the_next_turn():
    stop = CancelToken()
    stop.request("Ctrl+C")
    assert (stop.cause, stop.limit, stop.reached) == ("Ctrl+C", False, None)
    stop.request("time is up", limit=True)
    assert (stop.cause, stop.limit, stop.reached) == ("Ctrl+C", False, "time is up")
    following = CancelToken(stop.reached)
    assert (following.cause, following.limit) == ("time is up", True)
    assert CancelToken().cause is None
