"""Decisions: nobody is told of one that a power cut could still take back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.errors import UsageError
from holdfast.runtime.protocol import messages as protocol
from holdfast.runtime.protocol.client import Refused
from tests.cli.program import of_type, turns
from tests.runtime.runner.in_process_runner import FakeHeldFiles, runner_inside
from tests.runtime.runner.runner_clients import Caller, run


def _answer(question: dict[str, Any], **changed: Any) -> dict[str, Any]:
    fields = {name: question[name] for name in ("call_id", "arguments_sha256")}
    return {**fields, "allow": True, **changed}


def _states(caller: Caller) -> list[str]:
    return [each["state"] for each in caller.all(type="state")]


async def _asked(caller: Caller, text: str = "run: echo approved >> done") -> dict[str, Any]:
    await caller.submit(text)
    await caller.hears(type="state", state="waiting")
    return await caller.hears(type="question")


@pytest.mark.parametrize("allow", [True, False])
def test_nobody_is_told_before_the_decision_is_durable(office, monkeypatch, allow):
    files = FakeHeldFiles()

    async def decide():
        async with runner_inside(office, monkeypatch, files, allow_all=False) as inside:
            one = await inside.call(answers=True)
            two = await inside.call(live=False)
            question = await _asked(one)
            with files.held_up():
                asked = _answer(question, allow=allow)
                answering = asyncio.ensure_future(one.ask(protocol.Approve, **asked, id="mine"))
                await one.until(lambda: _states(one)[-2:] == ["waiting", "running"])  # it counts
                with pytest.raises(Refused, match="already answered"):
                    await two.ask(protocol.Approve, **_answer(question, allow=not allow))
                late = await inside.call(answers=True)
                await two.ask_status()  # it has heard all there was
                for caller in (one, two, late):
                    assert caller.all(type="answered") == []
                assert late.all(type="question") == [], "it is decided, and not asked any more"
                assert not answering.done(), "replied before it is durable"
                assert office.lines("done") == []
            await answering
            for caller in (one, two):
                told = await caller.hears(type="answered")
                assert told["allow"] is allow
                before = caller.heard[: caller.heard.index(told)]
                entries = [each["entry"] for each in before if each["type"] == "entry"]
                (entry,) = of_type(entries, "approval")
                assert entry["id"] == "request:mine"
            await one.hears(type="turn", state="completed")

    run(decide())
    assert office.lines("done") == (["approved"] if allow else [])


def test_an_answer_on_a_full_disk_counts_and_is_told_when_there_is_room(office, monkeypatch):
    files = FakeHeldFiles()

    async def decide():
        async with runner_inside(office, monkeypatch, files, allow_all=False) as inside:
            caller = await inside.call(answers=True)
            question = await _asked(caller)
            with files.full_disk():
                for _ in range(2):  # the second is the same, sent again
                    with pytest.raises(Refused, match="Disk full") as refused:
                        await caller.ask(protocol.Approve, **_answer(question), id="mine")
                    assert refused.value.exit_code == 75
                with pytest.raises(Refused, match="already answered"):
                    await caller.ask(protocol.Approve, **_answer(question, allow=False))
                assert caller.all(type="answered") == []
            await caller.ask(protocol.Approve, **_answer(question), id="mine")
            assert (await caller.hears(type="answered"))["allow"] is True
            await caller.hears(type="turn", state="completed")

    run(decide())
    assert office.lines("done") == ["approved"]
    assert len(of_type(office.journal(), "approval")) == 1


def test_an_answer_that_a_cancel_overtakes_is_taken_back(office, monkeypatch):
    async def decide():
        files = FakeHeldFiles()
        async with runner_inside(office, monkeypatch, files, allow_all=False) as inside:
            caller = await inside.call(answers=True)
            question = await _asked(caller)
            given = protocol.Approve(id="mine", **_answer(question))
            answering = asyncio.ensure_future(inside.runner.approvals.answer(given))
            await asyncio.sleep(0)  # it is taken; the turn has not heard of it
            inside.runner.cancel("cancelled")
            with pytest.raises(UsageError, match="the call was not run"):
                await answering
            assert (await caller.hears(type="answered"))["allow"] is None
            await caller.hears(type="turn", state="cancelled")

    run(decide())
    assert office.lines("done") == []
    assert of_type(office.journal(), "approval") == []


@pytest.mark.parametrize("allow", [True, False])
def test_an_answer_sent_again_to_the_next_runner_has_been_given(office, allow):
    async def decide():
        caller = await office.call(allow_all=False)
        await caller.attach(answers=True)
        question = await _asked(caller)
        answer = _answer(question, allow=allow)
        await caller.ask(protocol.Approve, **answer, id="mine")
        await caller.hears(type="turn", state="completed")
        office.kill(caller.pid)
        again = await office.call(allow_all=False)
        await again.ask(protocol.Approve, **answer, id="mine")
        with pytest.raises(Refused, match="already answered, or is no longer needed"):
            await again.ask(protocol.Approve, **answer, id="another")

    run(decide())
    (entry,) = of_type(office.journal(), "approval")
    assert entry["id"] == "request:mine"


def test_an_answer_to_a_session_without_entries_is_refused(office):
    async def decide():
        caller = await office.call()
        with pytest.raises(Refused, match="no longer needed"):
            await caller.ask(protocol.Approve, call_id="x", arguments_sha256="y", allow=True)

    run(decide())


def test_a_decision_is_recorded_also_under_an_id_that_was_used_for_something_else(office):
    """Whoever uses ids twice must not have a call run of which nobody knows who allowed it."""

    async def decide():
        caller = await office.call(allow_all=False)
        await caller.attach(answers=True)
        await caller.ask(protocol.Rename, title="before", id="twice")
        await caller.submit("say: hi", id="again")
        await caller.hears(type="turn")
        office.kill(caller.pid)  # the next one does not remember it
        caller = await office.call(allow_all=False)
        await caller.attach(answers=True)
        question = await _asked(caller)
        await caller.ask(protocol.Approve, **_answer(question), id="again")
        await caller.hears(type="turn", state="completed")

    run(decide())
    assert office.lines("done") == ["approved"]
    journal = office.journal()
    (entry,) = of_type(journal, "approval")
    (tool,) = of_type(journal, "tool")
    assert entry["seq"] < tool["seq"]
    assert turns(journal) == ["started", "completed"] * 2
