"""Approvals: asked for once, durable before the tool runs, bound to what was approved."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.model.entry import Turn
from holdfast.model.message import Text, ToolCall
from holdfast.runtime.agent.cancellation import CancelToken
from holdfast.runtime.agent.tool_calls import ToolCalls
from holdfast.runtime.policy.policy import Policy, approval
from tests.runtime.bench import FakeProvider, calling, entries_of, results, saying, shapes

ASKING = {"policy": Policy("ask")}


class FakePerson:
    """Answers questions from a list; keeps them."""

    def __init__(self, *answers: bool | None) -> None:
        self.answers = list(answers)
        self.questions: list[str] = []

    async def __call__(self, question):
        self.questions.append(question.subject)
        return self.answers.pop(0)


def test_what_is_allowed_runs_and_what_is_denied_does_not(bench):
    person = FakePerson(True, False)
    outcome = bench.prompt("parallel:\nrun: touch a\nrun: touch b", ask=person, **ASKING)
    assert outcome.state == "completed"
    assert person.questions == ["touch a", "touch b"]
    assert (bench.file("a").exists(), bench.file("b").exists()) == (True, False)
    assert [one.subject for one in outcome.denied] == ["touch b"]
    assert results(bench.entries())["call-1-2"].outcome == "denied"


def test_without_an_answer_the_turn_waits_and_is_asked_again(bench):
    person = FakePerson(None)
    outcome = bench.prompt("run: touch a", ask=person, **ASKING)
    assert outcome.state == "waiting"
    assert shapes(bench.entries())[-1] == "turn waiting"
    found = bench.run(lambda agent: agent.interrupted())
    assert found is not None
    assert found.waiting
    assert str(found).splitlines()[0] == "The last turn is waiting for approval: “run: touch a”"
    again = FakePerson(None, True)
    for state in ("waiting", "completed"):
        outcome = bench.run(lambda agent: agent.continue_turn(), ask=again, **ASKING)
        assert outcome is not None
        assert outcome.state == state
    assert again.questions == ["touch a", "touch a"]
    assert bench.file("a").exists()
    assert bench.run(lambda agent: agent.interrupted()) is None


def test_nothing_runs_before_all_are_answered_and_an_approval_is_not_asked_for_twice(bench):
    prompt = "parallel:\nrun: echo a >> a\nrun: echo b >> b\nrun: echo c >> c"
    outcome = bench.prompt(prompt, ask=FakePerson(True, None, False), **ASKING)
    assert outcome.state == "waiting"
    assert not bench.file("a").exists()
    person = FakePerson(True)
    outcome = bench.run(lambda agent: agent.continue_turn(), ask=person, **ASKING)
    assert outcome is not None
    assert outcome.state == "completed"
    assert person.questions == ["echo b >> b"]
    assert [bench.file(name).exists() for name in "abc"] == [True, True, False]
    assert shapes(bench.entries()).count("call-1-1 allow") == 1


def test_an_answer_is_durable_before_the_next_question(bench):
    async def ask(question):
        if question.subject == "touch b":
            assert shapes(entries_of(session))[-1] == "call-1-1 allow"
        return True

    with bench.session() as session:
        agent = bench.agent(session, ask=ask, **ASKING)
        prompt = [Text(text="parallel:\nrun: touch a\nrun: touch b")]
        assert asyncio.run(agent.prompt(prompt)).state == "completed"


def test_a_new_prompt_instead_closes_the_turn_and_nothing_runs(bench):
    bench.prompt("run: touch a", ask=FakePerson(None), **ASKING)
    assert bench.prompt("say: never mind").state == "completed"
    assert results(bench.entries())["call-1-1"].outcome == "never_ran"
    assert not bench.file("a").exists()


def test_a_decision_holds_only_for_the_arguments_that_were_approved(bench):
    with bench.session() as session:
        session.append(Turn("started"))
        person = FakePerson(True)
        equipment = bench.equipment(session, ask=person, **ASKING)
        part = ToolCall(id="a", name="bash", arguments={"command": "touch b"})
        given = approval("a", {"command": "touch a"}, "allow")

        async def work():
            round_ = ToolCalls(equipment, CancelToken(), 0, [part], [])
            await round_.run([part], {"a": given})

        asyncio.run(work())
        assert person.questions == ["touch b"]
        assert [shape for shape in shapes(entries_of(session)) if "allow" in shape] == ["a allow"]


@pytest.mark.parametrize("mode", ["ask", "allow-all", "deny"])
def test_reads_inside_the_workspace_are_never_asked_about(bench, mode):
    bench.file("notes").write_text("hello")
    provider = FakeProvider(calling(("a", "read", {"path": "notes"})), saying("done"))
    assert bench.prompt("go", provider, policy=Policy(mode)).state == "completed"
    assert results(bench.entries())["a"].outcome == "completed"
    assert "a allow" not in shapes(bench.entries())


def test_after_waiting_and_going_on_it_does_not_wait_any_more(bench):
    bench.prompt("run: touch a", ask=FakePerson(None), **ASKING)
    with bench.session() as session:
        session.append(approval("call-1-1", {"command": "touch a"}, "allow"))
    found = bench.run(lambda agent: agent.interrupted())
    assert found is not None
    assert not found.waiting
    assert str(found).splitlines() == [
        "The last turn was interrupted: “run: touch a”",
        "  bash “touch a” never ran",
    ]
