"""A turn that is told to end, at every place where it may be just then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.model.message import Text
from holdfast.runtime.agent.agent import Agent
from holdfast.runtime.agent.prices import PriceTable
from holdfast.runtime.agent.turn import Outcome
from holdfast.runtime.config.run_options import Limits
from holdfast.runtime.policy.policy import Policy
from holdfast.runtime.providers.fault_injection import Chaos
from holdfast.runtime.providers.rehearsal import Rehearsal
from holdfast.runtime.tools.registry import standard_tools
from holdfast.runtime.tools.shell.bash import Bash
from tests.runtime.bench import (
    Bench,
    FakeProvider,
    FakeTool,
    calling,
    comes_before_the_end,
    done,
    results,
    saying,
    shapes,
    text_of,
)
from tests.runtime.tools.desk import alive


def once(
    bench: Bench,
    happens: Callable[[asyncio.Event], dict[str, Any]],
    then: Callable[[Agent], None] = lambda agent: agent.cancel("Ctrl+C"),
    *,
    prompt: str = "go",
) -> Outcome:
    """Run a turn and do ``then`` once what ``happens`` sets up has come about."""
    event = asyncio.Event()

    async def work(agent: Agent) -> Outcome:
        turn = asyncio.ensure_future(agent.prompt([Text(text=prompt)]))
        await comes_before_the_end(event, turn)
        then(agent)
        return await turn

    return bench.run(work, **happens(event))


def test_in_mid_stream_what_had_arrived_is_kept(bench):
    script = "say: one two three"

    def stalls(event):
        provider = Chaos(Rehearsal(), "stall@2")
        stall = provider._strike

        async def strike(fault):
            event.set()
            await stall(fault)

        provider._strike = strike  # type: ignore[method-assign]
        return {"provider": provider}

    outcome = once(bench, stalls, prompt=script)
    assert (outcome.state, outcome.cause, outcome.limit) == ("cancelled", "Ctrl+C", False)
    assert shapes(bench.entries()) == [
        "turn started",
        "user",
        "assistant interrupted",
        "usage",
        "turn cancelled",
    ]
    with bench.session() as session:
        assert session.messages[-1].text == "one two "


@pytest.mark.parametrize("cancels", [1, 2])
def test_in_mid_command_its_group_is_ended(bench, eventually, cancels):
    ignoring = "trap '' TERM; " if cancels == 2 else ""  # then only a second cancel ends it soon
    command = f"{ignoring}echo $$ > pid; sleep 1000 & echo $! >> pid; echo said; wait; sleep 1000"
    bench.file("other").write_text("x")

    async def work(agent):
        prompt = f"parallel:\nrun: {command}\nread: other\nrun: touch never"
        turn = asyncio.ensure_future(agent.prompt([Text(text=prompt)]))
        pid = bench.file("pid")
        await asyncio.to_thread(
            eventually, lambda: pid.exists() and len(pid.read_text().split()) == 2
        )
        agent.cancel("Ctrl+C")
        if cancels == 2:
            await asyncio.to_thread(eventually, lambda: bench.file("pid").exists())
            agent.cancel("Ctrl+C again")
        return await turn

    outcome = bench.run(work)
    assert (outcome.state, outcome.cause) == ("cancelled", "Ctrl+C")
    found = results(bench.entries())
    assert [found[one].outcome for one in sorted(found)] == ["cancelled", "never_ran", "never_ran"]
    assert text_of(found["call-1-1"]).startswith("said\n")
    assert text_of(found["call-1-3"]) == "[not run: Ctrl+C]"
    for pid in bench.file("pid").read_text().split():
        eventually(lambda pid=pid: not alive(int(pid)))
    assert not bench.file("never").exists()
    assert shapes(bench.entries())[-1] == "turn cancelled"


def test_a_tool_that_is_broken_off_is_not_said_to_have_never_run(bench):
    def hangs(event):
        async def hang(call):
            call.show("begun ")
            event.set()
            await asyncio.Event().wait()
            return done("never")

        async def never(_):
            raise AssertionError("it was cancelled before")

        return {
            "provider": FakeProvider(calling(("a", "hangs", {}), ("b", "never", {}))),
            "tools": {"hangs": FakeTool(hang), "never": FakeTool(never, "reads")},
        }

    outcome = once(bench, hangs)
    assert outcome.state == "cancelled"
    found = results(bench.entries())
    assert found["a"].outcome == "cancelled"
    assert text_of(found["a"]).startswith("begun [cancelled; it may have done")
    assert found["b"].outcome == "never_ran"


def test_what_a_tool_says_after_it_was_cancelled_counts(bench):
    def finishes(event):
        async def work(call):
            event.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return done("just done")
            raise AssertionError

        provider = FakeProvider(calling(("a", "fake", {})))
        return {"provider": provider, "tools": {"fake": FakeTool(work)}}

    assert once(bench, finishes).state == "cancelled"
    assert results(bench.entries())["a"].outcome == "completed"


def test_while_a_person_is_asked(bench):
    def asks(event):
        async def ask(question):
            event.set()
            await asyncio.Event().wait()

        return {"ask": ask, "policy": Policy("ask")}

    outcome = once(bench, asks, prompt="run: touch x")
    assert outcome.state == "cancelled"
    assert results(bench.entries())["call-1-1"].outcome == "never_ran"
    assert not bench.file("x").exists()


def test_between_an_answer_and_its_calls(bench):
    async def work(agent):
        loop = asyncio.get_running_loop()

        def cancel(entry):
            if entry.type == "usage":
                loop.call_soon_threadsafe(agent.cancel, "now")

        agent.session.on_entry(cancel)
        return await agent.prompt([Text(text="run: touch x; sleep 1000")])

    assert bench.run(work).state == "cancelled"
    assert results(bench.entries())["call-1-1"].outcome in ("never_ran", "cancelled")


def test_a_cancel_holds_for_one_turn(bench):
    async def work(agent):
        agent.cancel("nothing runs")
        first = await agent.prompt([Text(text="say: one")])
        agent.cancel("nothing runs")
        return first, await agent.prompt([Text(text="say: two")])

    assert [outcome.state for outcome in bench.run(work)] == ["completed", "completed"]


def test_a_task_that_is_cancelled_ends_the_turn_first(bench, eventually):
    async def work(agent):
        turn = asyncio.ensure_future(agent.prompt([Text(text="run: echo $$ > pid; sleep 1000")]))
        await asyncio.to_thread(
            eventually, lambda: bench.file("pid").exists() and bench.file("pid").read_text()
        )
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert turn.cancelled()
        return await agent.prompt([Text(text="say: and on")])

    assert bench.run(work).state == "completed"
    assert results(bench.entries())["call-1-1"].outcome == "cancelled"
    assert not alive(int(bench.file("pid").read_text()))
    causes = [one.body.cause for one in bench.entries() if one.type == "turn"]
    assert causes == [None, "the task was cancelled", None, None]


def test_a_task_that_waits_for_another_turn_can_be_cancelled(bench):
    async def work(agent):
        first = asyncio.ensure_future(agent.prompt([Text(text="run: sleep 0.2")]))
        second = asyncio.ensure_future(agent.prompt([Text(text="say: never")]))
        await asyncio.sleep(0.05)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        return await first

    assert bench.run(work).state == "completed"
    assert shapes(bench.entries()).count("user") == 1


# Limits


def test_the_number_of_requests(bench):
    async def work(agent):
        return [
            await agent.prompt([Text(text="run: echo a >> log\nrun: echo b >> log\nsay: end")]),
            await agent.prompt([Text(text="say: more")]),
        ]

    outcomes = bench.run(work, limits=Limits(max_turns=2))
    for outcome in outcomes:
        assert (outcome.state, outcome.limit) == ("cancelled", True)
        assert outcome.cause == "the limit of 2 requests (--max-turns) is reached"
    assert bench.file("log").read_text() == "a\nb\n"
    assert bench.prompt("say: end", limits=Limits(max_turns=1)).state == "completed"


def test_a_budget_without_a_price_ends_after_the_first_request(bench):
    provider = FakeProvider(calling(("a", "read", {"path": "x"})), saying("never asked"))
    outcome = bench.prompt("go", provider, model="odd", limits=Limits(max_budget_usd=1))
    assert (outcome.state, outcome.limit) == ("cancelled", True)
    assert "cost of a request is not known" in (outcome.cause or "")
    assert len(provider.requests) == 1


def test_a_budget_that_is_used_up(bench):
    prices = PriceTable({"rehearsal": {"input": 1_000_000, "output": 0}})
    first = bench.prompt("say: one two three", prices=prices)
    outcome = bench.prompt(
        "run: echo a\nrun: echo b", prices=prices, limits=Limits(max_budget_usd=5)
    )
    assert first.state == "completed"  # it does not count: a budget is for one run
    assert (outcome.state, outcome.limit) == ("cancelled", True)
    assert outcome.cause == "the budget of $5 (--max-budget-usd) is used up"


def test_a_time_limit_ends_what_runs_and_all_that_follows(bench):
    async def work(agent):
        return [
            await agent.prompt([Text(text="run: sleep 1000")]),
            await agent.prompt([Text(text="say: too late")]),
        ]

    outcomes = bench.run(work, limits=Limits(time_limit_seconds=2.0))
    for outcome in outcomes:
        assert (outcome.state, outcome.limit) == ("cancelled", True)
        assert "--time-limit" in (outcome.cause or "")
    assert results(bench.entries())["call-1-1"].outcome == "cancelled"


def test_a_time_limit_that_is_reached_while_a_turn_is_being_cancelled_still_holds(
    bench, eventually
):
    tools = {**standard_tools(), "bash": Bash(grace_seconds=1.0)}

    async def work(agent):
        command = "trap '' TERM; touch running; while true; do sleep 0.01; done"
        turn = asyncio.ensure_future(agent.prompt([Text(text=f"run: {command}")]))
        await asyncio.to_thread(eventually, bench.file("running").exists)
        agent.cancel("Ctrl+C")
        agent.cancel("time is up", limit=True)
        return [await turn, await agent.prompt([Text(text="say: too late")])]

    first, second = bench.run(work, tools=tools)
    assert (first.state, first.cause, first.limit) == ("cancelled", "Ctrl+C", False)
    assert (second.state, second.cause, second.limit) == ("cancelled", "time is up", True)
