"""A turn without an end: what is said of it, and whether it can be gone on with."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import assistant, user
from holdfast.model.entry import Turn
from holdfast.model.message import AnyPart, Message, Text, ToolResult
from holdfast.runtime.tools.base import Call
from tests.disk import snapshot
from tests.runtime.bench import FakeProvider, entries_of, results, saying, shapes, text_of
from tests.runtime.interrupted_session import call, leave_command, result, started


def test_nothing_is_interrupted_where_a_turn_has_ended_or_none_began(bench):
    bench.prompt("say: hi")
    assert bench.run(lambda agent: agent.interrupted()) is None
    assert bench.run(lambda agent: agent.continue_turn()) is None
    with bench.session() as session:
        session.append([user("from a library"), assistant("without turns")])
    assert bench.run(lambda agent: agent.interrupted()) is None


def test_a_session_without_entries_has_nothing_interrupted(bench):
    assert bench.run(lambda agent: agent.interrupted()) is None


def test_a_prompt_without_an_answer_is_asked_again(bench):
    with bench.session() as session:
        session.append([Turn("started"), user("do it")])
    found = bench.run(lambda agent: agent.interrupted())
    assert str(found) == "The last turn was interrupted: “do it”\n  there was no answer yet"
    outcome = bench.run(lambda agent: agent.continue_turn(), FakeProvider(saying("done")))
    assert outcome.state == "completed"
    assert [one for one in shapes(bench.entries()) if one.startswith("turn")] == [
        "turn started",
        "turn completed",
    ]


def test_an_answer_that_broke_off_is_gone_on_with_and_its_calls_are_not_run(bench):
    with bench.session() as session:
        session.append([Turn("started"), user("do it")])
        content: list[AnyPart] = [Text(text="I shall "), call()]
        session.append(Message(role="assistant", content=content, stop="interrupted"))
    found = bench.run(lambda agent: agent.interrupted())
    assert str(found).splitlines()[1:] == [
        "  an answer was interrupted; the received part is saved"
    ]
    provider = FakeProvider(saying("done"))
    assert bench.run(lambda agent: agent.continue_turn(), provider).state == "completed"
    assert "cut off" in provider.requests[0].messages[-1].text
    assert not bench.file("log").exists()


def test_the_report_has_a_line_for_each_call(wreck):
    wreck.leave(
        result("completed"),
        result("failed", one="b"),
        result("cancelled", one="c"),
        result("denied", one="d"),
        started("gone", one="f"),
        calls=[
            *(call(one=each) for each in "abcde"),
            call("gone", {}, "f"),
            call("bash", {"command": "x" * 100 + "\n\x1b[31m"}, "g"),
        ],
    )
    assert str(wreck.look()).splitlines() == [
        "The last turn was interrupted: “do it”",
        "  bash “echo ran >> log” completed",
        "  bash “echo ran >> log” ended with an error",
        "  bash “echo ran >> log” was cancelled",
        "  bash “echo ran >> log” was denied",
        "  bash “echo ran >> log” never ran",
        "  gone “” may have run",
        f"  bash “{'x' * 80}…” never ran",
    ]


def test_a_reader_changes_nothing(wreck):
    leave_command(
        wreck, status=b'{"exit":0,"ended_by":null,"size_bytes":300000}', output=b"x" * 300_000
    )
    with wreck.bench.session() as session:
        session.append(started(one="b"))
    folder = wreck.bench.store.path
    before = snapshot(folder)
    assert [found.state for found in wreck.look(claim=False).calls] == ["completed"]
    assert snapshot(folder) == before


@pytest.mark.parametrize("to", ["prompt", "answer", "announcement"])
def test_a_turn_that_the_head_has_left_is_not_gone_on_with(bench, to):
    bench.prompt("run: echo ran >> log")
    wanted = {
        "prompt": "user",
        "answer": "assistant tool_calls",
        "announcement": "call-1-1 started",
    }
    with bench.session() as session:
        entries = [
            one for one in entries_of(session) if one.type not in ("header", "meta", "writer")
        ]
        (seq,) = [one.seq for one in entries if shapes([one]) == [wanted[to]]]
        session.rewind(seq)
    assert bench.run(lambda agent: agent.interrupted()) is None
    assert bench.run(lambda agent: agent.continue_turn()) is None
    provider = FakeProvider(saying("done"))
    assert bench.prompt("go on", provider).state == "completed"
    assert bench.file("log").read_text() == "ran\n"
    if to != "prompt":
        (stub,) = provider.requests[0].messages[2].content
        assert isinstance(stub, ToolResult)
        assert "may have done" in text_of(stub)


def test_a_crashed_turn_that_the_head_has_left_is_not_gone_on_with_either(wreck):
    wreck.leave(started("gone"), calls=[call("gone")])
    with wreck.bench.session() as session:
        session.rewind(wreck.seq)
    assert wreck.bench.run(lambda agent: agent.interrupted()) is None


def test_a_limit_that_was_reached_does_not_make_a_running_command_one_that_never_ran(
    wreck, eventually
):
    bench = wreck.bench

    async def interrupt(agent):
        turn = asyncio.ensure_future(agent._with.tools["bash"].run(order))
        await asyncio.to_thread(eventually, bench.file("running").exists)
        agent.cancel("time is up", limit=True)
        try:
            return await agent.continue_turn()
        finally:
            bench.file("go").touch()
            await turn

    command = {"command": "touch running; until [ -e go ]; do sleep 0.01; done"}
    wreck.leave(started(), calls=[call(arguments=command)])
    with bench.session() as session:
        order = Call("a", command, bench.workspace, wreck.spool(session), print, session.keep)
    outcome = bench.run(interrupt)
    assert (outcome.state, outcome.cause, outcome.limit) == ("cancelled", "time is up", True)
    found = results(bench.entries())["a"]
    assert found.outcome == "unknown"
    assert text_of(found).startswith("[the command is still running as process ")
