"""A runner that is killed anywhere: whoever attaches goes on, nothing is lost or done twice."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.model.message import Text
from holdfast.runtime.protocol import messages as protocol
from tests.cli.program import of_type, results, said, turns, until
from tests.runtime.runner.runner_clients import Caller, Office, gate, run


def _known(caller: Caller) -> list[dict[str, Any]]:
    return [each["entry"] for each in caller.all(type="entry")]


async def _recovered(office: Office, before: Caller) -> Caller:
    """Attach again, from the last number that was seen; what was seen is still true."""
    await before.hung_up()
    again = await office.call()
    await again.attach(before.seqs[-1])
    told = [*_known(before), *_known(again)]
    assert told == office.journal(), "the two connections do not make up the journal"
    return again


def test_killed_in_mid_stream(office):
    words = " ".join(f"word-{number}" for number in range(30))

    async def kill():
        caller = await office.call(chaos="stall@12")
        await caller.attach()
        await caller.submit(f"say: {words}")
        await caller.until(lambda: "word-11" in caller.live("text"))
        waiting = await caller.submit("say: later")
        shown = caller.live("text")
        office.kill(caller.pid)
        again = await _recovered(office, caller)
        report = (await again.hears(type="interrupted"))["report"]
        assert "an answer was interrupted; the received part is saved" in report
        (kept,) = [e for e in _known(again) if e.get("role") == "assistant"]
        assert kept["stop"] == "interrupted"
        assert kept["content"][0]["text"] == shown, "what was shown is not what is kept"
        state = again.all(type="state")[-1]
        assert (state["queue"], state["held"], state["state"]) == ([waiting], True, "idle")
        await again.ask(protocol.ContinueTurn)
        assert (await again.hears(type="turn"))["state"] == "completed"
        assert again.all(type="state")[-1]["queue"] == [waiting], "run unasked"
        await again.ask(protocol.RunQueue)
        await again.hears(type="turn", queued=waiting, state="completed", text="later")

    run(kill())
    assert said(office.journal(), "user") == [f"say: {words}", "say: later"]


def test_killed_in_mid_tool_with_three_prompts_queued(office):
    async def kill():
        caller = await office.call()
        await caller.attach()
        await caller.submit(
            f"run: echo first >> done; echo seen; {gate('x')}\nrun: echo second >> done"
        )
        until(office.file("x.begun").exists)
        await caller.until(lambda: "seen" in caller.live("tool_output"))
        queued = [await caller.submit(f"run: echo queued {number} >> done") for number in range(3)]
        office.kill(caller.pid)
        again = await _recovered(office, caller)
        facts = await again.hears(type="interrupted")
        assert [each["state"] for each in facts["calls"]] == ["running"]
        assert again.all(type="state")[-1]["queue"] == queued
        await again.ask(protocol.ContinueTurn)
        await again.until(lambda: any("Waiting" in note for note in again.notes))
        office.file("x.go").touch()
        assert (await again.hears(type="turn"))["state"] == "completed"
        assert office.lines("done") == ["first", "second"]
        assert (await again.ask(protocol.RunQueue))["queue"] == queued
        for seq in queued:
            await again.hears(type="turn", queued=seq, state="completed")

    run(kill())
    assert office.lines("done") == ["first", "second", *(f"queued {n}" for n in range(3))]
    assert office.lines("x.begun") == ["begun"]
    last = {outcome for outcome, _ in results(office.journal())}
    assert last <= {"completed", "unknown"}


def test_a_new_prompt_leaves_the_interrupted_turn_as_it_is(office):
    async def kill():
        caller = await office.call()
        await caller.attach()
        await caller.submit(f"run: {gate('x')}\nrun: echo never >> done")
        until(office.file("x.begun").exists)
        office.kill(caller.pid)
        office.file("x.go").touch()
        again = await _recovered(office, caller)
        await again.hears(type="interrupted")
        await again.submit("say: something else")
        await again.hears(type="turn", text="something else")
        third = await office.call_again()
        await third.attach()
        assert third.all(type="interrupted") == []
        await third.ask(protocol.ContinueTurn)
        await third.until(lambda: third.notes)
        assert third.notes == ["There is no interrupted turn to continue."]

    run(kill())
    assert office.lines("done") == []
    assert turns(office.journal()) == ["started", "failed", "started", "completed"]


def test_killed_while_it_waits_for_an_approval(office):
    async def kill():
        caller = await office.call(allow_all=False)
        await caller.attach(answers=True)
        await caller.submit("run: echo approved >> done")
        asked = await caller.hears(type="question")
        office.kill(caller.pid)
        await caller.hung_up()
        again = await office.call(allow_all=False)
        await again.attach(caller.seqs[-1], answers=True)
        await again.hears(type="interrupted")
        assert office.lines("done") == []
        await again.ask(protocol.ContinueTurn)
        question = await again.hears(type="question")
        assert question == {**asked, "queued": None}  # this turn was not made from the queue
        fields = {name: question[name] for name in ("call_id", "arguments_sha256")}
        await again.ask(protocol.Approve, **fields, allow=True)
        assert (await again.hears(type="turn"))["state"] == "completed"

    run(kill())
    assert office.lines("done") == ["approved"]
    assert [each["decision"] for each in of_type(office.journal(), "approval")] == ["allow"]


@pytest.mark.parametrize("after", [6, 17])
def test_killed_anywhere(office, after):
    """Prompts are sent again, under their own names, to one runner after the other."""
    prompts = {str(number): f"run: echo {number} >> done" for number in range(6)}

    async def survive():
        for killed in (True, True, False):
            caller = await office.call()
            await caller.attach()
            for name, text in prompts.items():
                await caller.ask(protocol.Submit, id=name, content=[Text(text=text)])
            if killed:
                await caller.until(lambda: len(caller.seqs) >= after)  # noqa: B023  waited for here
                office.kill(caller.pid)
                await caller.hung_up()
        await (await office.call_again()).rests()

    run(survive())
    assert said(office.journal(), "user") == list(prompts.values()), "lost, or run twice"
    ran = office.lines("done")
    assert ran == sorted(set(ran)), "something was done twice, or out of turn"
    unsure = [outcome for outcome, _ in results(office.journal()) if outcome != "completed"]
    assert len(ran) + len(unsure) >= len(prompts) - 2  # two turns were broken off, no other
