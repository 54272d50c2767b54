"""Approvals: bound to a call and its arguments, answered once, waiting for a client."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.runtime.config.run_options import Limits
from holdfast.runtime.protocol import messages as protocol
from holdfast.runtime.protocol.client import Refused
from tests.cli.program import of_type, turns
from tests.runtime.runner.runner_clients import run


def _answer(question, **changed):
    fields = {name: question[name] for name in ("call_id", "arguments_sha256")}
    return {**fields, "allow": True, **changed}


def test_the_first_answer_counts_and_the_others_are_told(office):
    async def ask():
        one = await office.call(allow_all=False)
        await one.attach(answers=True)
        await one.submit("run: echo approved >> done\nrun: echo denied >> done")
        question = await one.hears(type="question")
        assert question["tool"] == "bash"
        assert question["subject"] == "echo approved >> done"
        assert question["arguments"] == {"command": "echo approved >> done"}
        await one.hears(type="state", state="waiting")
        two = await office.call_again()
        await two.attach(live=False)
        assert await two.hears(type="question") == question
        for wrong in ({"arguments_sha256": "0" * 64}, {"call_id": "another"}):
            with pytest.raises(Refused, match=r"other arguments|no longer needed"):
                await two.ask(protocol.Approve, **_answer(question, **wrong))
        await two.ask(protocol.Approve, **_answer(question), id="mine")
        await two.ask(protocol.Approve, **_answer(question), id="mine")  # a retry is no second one
        for caller in (one, two):
            told = await caller.hears(type="answered", call_id=question["call_id"])
            assert told["allow"] is True
        with pytest.raises(Refused, match="already answered"):
            await one.ask(protocol.Approve, **_answer(question, allow=False))
        second = await one.hears(type="question", times=2)
        await one.ask(protocol.Approve, **_answer(second, allow=False))
        ended = await one.hears(type="turn")
        assert ended["state"] == "completed"
        assert [each["subject"] for each in ended["denied"]] == ["echo denied >> done"]

    run(ask())
    assert office.lines("done") == ["approved"]
    decisions = [each["decision"] for each in of_type(office.journal(), "approval")]
    assert decisions == ["allow", "deny"]


def test_a_question_that_is_not_asked_any_more_is_taken_back(office):
    async def cancel():
        caller = await office.call(allow_all=False)
        await caller.attach(answers=True)
        await caller.submit("run: echo x >> done")
        question = await caller.hears(type="question")
        await caller.ask(protocol.Cancel)
        assert (await caller.hears(type="answered"))["allow"] is None
        assert (await caller.hears(type="turn"))["state"] == "cancelled"
        with pytest.raises(Refused, match="no longer needed"):
            await caller.ask(protocol.Approve, **_answer(question))

    run(cancel())
    assert office.lines("done") == []


def test_with_nobody_to_ask_the_turn_waits_the_runner_leaves_and_the_next_asks_again(office):
    async def wait():
        caller = await office.call(allow_all=False, question=0.05)
        await caller.attach()  # watches, and cannot answer
        await caller.submit("run: echo approved >> done")
        held = await caller.submit("run: echo held >> done")
        await caller.hears(type="question")
        assert (await caller.hears(type="turn"))["state"] == "waiting"
        assert "is waiting for an answer" in (await caller.hears(type="bye"))["why"]
        await caller.hung_up()
        office.ended(caller.pid)
        assert turns(office.journal()) == ["started", "waiting"]
        again = await office.call(allow_all=False)
        await again.attach(answers=True)
        question = await again.hears(type="question")
        assert again.all(type="interrupted") == []
        await again.ask(protocol.Approve, **_answer(question))
        assert (await again.hears(type="turn"))["state"] == "completed"
        state = await again.hears(type="state", state="idle")
        assert (state["queue"], state["held"]) == ([held], True)

    run(wait())
    assert office.lines("done") == ["approved"]


def test_a_question_waits_as_long_as_somebody_is_there(office):
    async def wait():
        caller = await office.call(allow_all=False, question=0.05)
        await caller.attach(answers=True)
        await caller.submit("run: echo approved >> done")
        question = await caller.hears(type="question")
        for _ in range(40):  # much longer than it would wait for nobody
            status = (await caller.ask(protocol.StatusOf))["status"]
            assert status["state"] == "waiting"
            await asyncio.sleep(0.01)
        await caller.ask(protocol.Approve, **_answer(question))
        assert (await caller.hears(type="turn"))["state"] == "completed"

    run(wait())


def test_limits_hold_for_a_turn_that_waited(office):
    async def wait():
        caller = await office.call(allow_all=False, question=0.05)
        await caller.submit(
            "run: echo 1 >> done\nrun: echo 2 >> done\nrun: echo 3 >> done",
            limits=Limits(max_turns=2),
        )
        await caller.hung_up()
        again = await office.call(allow_all=True)
        await again.attach(answers=True)
        await again.hears(type="turn")

    run(wait())
    assert office.lines("done") == ["1", "2"]
    assert turns(office.journal())[-1] == "cancelled"
