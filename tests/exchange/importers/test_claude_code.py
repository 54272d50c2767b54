"""Claude Code: rounds, growth, compactions, prices, and lines that are there more than once."""

from __future__ import annotations

import json
import os

import pytest

from holdfast.exchange.importers import recognised
from holdfast.exchange.importing.source_files import SourceReader
from tests.exchange.growth import check_growth
from tests.exchange.sources import take_all

AT = "2026-05-06T18:00:00Z"


def asked(uuid, parent, text):
    message = {"role": "user", "content": text}
    line = {"type": "user", "uuid": uuid, "parentUuid": parent, "sessionId": "s", "timestamp": AT}
    return {**line, "message": message}


def replied(uuid, parent, id, text, output=10):
    usage = {"input_tokens": 100, "output_tokens": output}
    content = [{"type": "text", "text": text}]
    message = {"id": id, "role": "assistant", "model": "m", "content": content, "usage": usage}
    return {**asked(uuid, parent, ""), "type": "assistant", "message": message}


TALK = [
    asked("u1", None, "first"),
    replied("u2", "u1", "m1", "x"),
    asked("u3", "u2", "second"),
    replied("u4", "u3", "m2", "y"),
]


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "projects"
    made.mkdir()
    return made


def put(folder, name, lines):
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_reply_that_a_prompt_interrupts_is_counted_once(store, folder):
    lines = [*TALK[:3], replied("u4", "u3", "m1", "y", output=12)]
    put(folder, "a", lines)
    (done,) = take_all(store, "claude-code", folder)
    (summary,) = store.list()
    assert (summary.totals.input, summary.totals.output) == (100, 12)
    assert done.counts.messages == 4


def test_lines_that_a_file_repeats_are_reported_and_left_out(store, folder):
    put(folder, "a", TALK + TALK)
    (done,) = take_all(store, "claude-code", folder)
    assert (done.counts.messages, done.counts.requests) == (4, 2)
    assert [each.line for each in done.problems] == [5, 6, 7, 8]
    assert "repeats the line u1" in done.problems[0].reason


def test_a_fork_that_begins_with_a_line_of_its_own(store, folder):
    own = {"type": "attachment", "uuid": "z", "parentUuid": None, "timestamp": AT}
    put(folder, "a", TALK)
    put(folder, "b", [own, *TALK, asked("u5", "u4", "more"), replied("u6", "u5", "m3", "z")])
    first, second = take_all(store, "claude-code", folder)
    assert (first.counts.requests, second.counts.requests) == (2, 1)


def block(uuid, parent, id, part, stop="tool_use", output=10, **more):
    """One line of a reply, as the agent writes it."""
    line = replied(uuid, parent, id, "", output)
    line["message"] |= {"content": [part], "stop_reason": stop}
    return {**line, "requestId": "req", **more}


def text(words):
    return {"type": "text", "text": words}


def call(id):
    return {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "ls"}}


def answer(uuid, parent, id, failed=False):
    done = {"type": "tool_result", "tool_use_id": id, "content": "out", "is_error": failed}
    return asked(uuid, parent, [done])


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
ROUNDS = [
    {"type": "queue-operation", "operation": "enqueue", "sessionId": "s"},
    asked("u1", None, "first"),
    {**asked("n1", "u1", ""), "type": "attachment", "attachment": {"type": "prompt_snapshot"}},
    block("b1", "n1", "m1", THOUGHT),
    {"type": "atis-latch", "sessionId": "s"},
    block("b2", "b1", "m1", text("Looking.")),
    {"type": "mode", "mode": "normal", "sessionId": "s"},
    block("b3", "b2", "m1", call("t1")),
    block("b4", "b3", "m1", call("t2"), output=12),
    answer("r1", "b3", "t1"),
    {"type": "tools-used", "sessionId": "s"},
    answer("r2", "b4", "t2", failed=True),
    block(
        "b5", "r2", "m2", {"type": "thinking", "thinking": "so", "signature": "c2ln"}, "end_turn"
    ),
    block("b6", "b5", "m2", text("Done."), "end_turn"),
    {"type": "last-prompt", "lastPrompt": "first", "sessionId": "s"},
    {"type": "cost-state", "totalCostUSD": 0.25, "modelUsage": {}, "sessionId": "s"},
    {"type": "queue-operation", "operation": "enqueue", "sessionId": "s"},
    asked("u2", "b6", "second"),
    block("b7", "u2", "m3", text("Again."), "end_turn"),
    {"type": "last-prompt", "lastPrompt": "second", "sessionId": "s"},
    {"type": "cost-state", "totalCostUSD": 0.75, "modelUsage": {}, "sessionId": "s"},
]


def opened(store):
    (summary,) = store.list()
    return store.open(summary.id, mode="read")


def test_a_session_that_grows_has_no_reply_twice(folder):
    put(folder, "a", ROUNDS)
    check_growth("claude-code", folder / "a.jsonl")


def test_a_round_is_said_whole_and_in_order(store, folder):
    put(folder, "a", ROUNDS)
    take_all(store, "claude-code", folder)
    with opened(store) as session:
        roles = [message.role for message in session.messages]
        assert roles == ["user", "assistant", "tool", "tool", "assistant", "user", "assistant"]
        outcomes = [message.content[0].outcome for message in session.messages[2:4]]
        assert outcomes == ["completed", "failed"]


def test_the_price_is_what_the_session_says(store, folder):
    put(folder, "a", ROUNDS)
    take_all(store, "claude-code", folder)
    with opened(store) as session:
        assert session.totals.cost_usd == pytest.approx(0.75)
        assert (session.totals.input, session.totals.output) == (300, 32)


def test_the_price_on_a_line(store, folder):
    put(folder, "a", [TALK[0], {**TALK[1], "costUSD": 0.5}, TALK[2], {**TALK[3], "costUSD": 0.25}])
    take_all(store, "claude-code", folder)
    (summary,) = store.list()
    assert summary.totals.cost_usd == pytest.approx(0.75)


def test_prices_on_lines_and_of_the_session_are_one_price(store, folder):
    state = {"type": "cost-state", "totalCostUSD": 1.0}
    put(folder, "a", [TALK[0], {**TALK[1], "costUSD": 0.5}, *TALK[2:], state])
    take_all(store, "claude-code", folder)
    (summary,) = store.list()
    assert summary.totals.cost_usd == pytest.approx(1.0)


def test_what_the_agent_is_still_writing_is_left_out_until_it_is_done(store, folder):
    put(folder, "a", ROUNDS[:8])
    (done,) = take_all(store, "claude-code", folder)
    assert (done.action, done.counts.messages, done.is_open) == ("created", 1, True)
    (again,) = take_all(store, "claude-code", folder)
    assert (again.action, again.is_open) == ("unchanged", True)
    put(folder, "a", ROUNDS)
    (rest,) = take_all(store, "claude-code", folder)
    assert (rest.action, rest.counts.messages, rest.is_open) == ("grown", 6, False)


def test_a_source_that_is_quiet_is_finished(store, folder):
    put(folder, "a", ROUNDS[:8])
    os.utime(folder / "a.jsonl", (1_700_000_000, 1_700_000_000))
    (done,) = take_all(store, "claude-code", folder)
    assert (done.counts.messages, done.is_open) == (2, False)


def test_an_interrupted_reply(store, folder):
    cut = block("b1", "u1", "m1", text("I was abo"), None, isAbortedMidStream=True)
    put(folder, "a", [TALK[0], cut])
    take_all(store, "claude-code", folder)
    with opened(store) as session:
        assert session.messages[1].stop == "interrupted"


@pytest.mark.parametrize(
    "words",
    [
        "<command-name>/model</command-name>",
        "<local-command-stdout>set</local-command-stdout>",
        "<bash-input>ls</bash-input>",
        "<bash-stdout>a</bash-stdout>",
        "[Request interrupted by user]",
    ],
)
def test_what_the_program_says_is_not_what_the_user_said(store, folder, words):
    put(folder, "a", [asked("u0", None, words), {**TALK[0], "parentUuid": "u0"}, *TALK[1:]])
    take_all(store, "claude-code", folder)
    (summary,) = store.list()
    assert summary.title == "first"
    with opened(store) as session:
        marks = [message.extra.get("generated", False) for message in session.messages]
        assert marks == [True, False, False, False, False]


def test_lines_without_ids(store, folder):
    lines = [
        {"type": "user", "message": {"role": "user", "content": "hello"}, "timestamp": AT},
        {"type": "assistant", "message": {"role": "assistant", "content": [text("Hi.")]}},
        {"type": "user", "message": {"role": "user", "content": "bye"}},
    ]
    put(folder, "a", lines)
    found = recognised(folder, SourceReader())
    assert found is not None
    assert found.name == "claude-code"
    take_all(store, "claude-code", folder)
    with opened(store) as session:
        assert [message.text for message in session.messages] == ["hello", "Hi.", "bye"]
    check_growth("claude-code", folder / "a.jsonl")


def boundary(uuid, parent, **metadata):
    line = asked(uuid, None, "")
    del line["message"]
    more = {"logicalParentUuid": parent, "compactMetadata": {"trigger": "manual", **metadata}}
    return {**line, "type": "system", "subtype": "compact_boundary", **more}


def summary_of(uuid, parent):
    return {**asked(uuid, parent, "Summary."), "isCompactSummary": True}


def context(store):
    with opened(store) as session:
        return [message.text for message in session.context()]


SEGMENT = {"headUuid": "u3", "anchorUuid": "c2", "tailUuid": "u4"}


@pytest.mark.parametrize(
    "kept", [{"preservedSegment": SEGMENT}, {"preservedMessages": {"uuids": ["u3", "u4"]}}]
)
@pytest.mark.parametrize("logical", ["u4", "u2"])  # "summarize up to here" names the one before
@pytest.mark.parametrize("follows", ["c2", "u4"])
def test_a_compaction_keeps_what_it_preserves(store, folder, kept, logical, follows):
    lines = [*TALK, boundary("c1", logical, **kept), summary_of("c2", "c1")]
    put(folder, "a", [*lines, asked("u5", follows, "third"), replied("u6", "u5", "m3", "z")])
    take_all(store, "claude-code", folder)
    assert context(store) == ["Summary.", "second", "y", "third", "z"]
    with opened(store) as session:
        texts = [message.text for message in session.messages]
        assert texts == ["first", "x", "second", "y", "third", "z"]
    check_growth("claude-code", folder / "a.jsonl")


def test_a_compaction_keeps_a_round_from_any_of_its_lines(store, folder):
    segment = {"headUuid": "b3", "anchorUuid": "c2", "tailUuid": "r2"}
    lines = [*ROUNDS[:12], boundary("c1", "r2", preservedSegment=segment), summary_of("c2", "c1")]
    put(folder, "a", [*lines, asked("u5", "c2", "third")])
    take_all(store, "claude-code", folder)
    with opened(store) as session:
        roles = [message.role for message in session.context()]
        assert roles == ["user", "assistant", "tool", "tool", "user"]


def test_summarize_from_here(store, folder):
    segment = {"headUuid": "u1", "anchorUuid": "c1", "tailUuid": "u2"}
    lines = [*TALK, boundary("c1", "u4", preservedSegment=segment), summary_of("c2", "c1")]
    put(folder, "a", [*lines, asked("u5", "c2", "third")])
    take_all(store, "claude-code", folder)
    assert context(store) == ["first", "x", "Summary.", "third"]


def test_a_compaction_that_keeps_nothing(store, folder):
    lines = [*TALK, boundary("c1", "u4"), summary_of("c2", "c1"), asked("u5", "c2", "third")]
    put(folder, "a", lines)
    take_all(store, "claude-code", folder)
    assert context(store) == ["Summary.", "third"]


def test_facts_beside_a_subagent(store, folder):
    agents = folder / "a" / "subagents"
    agents.mkdir(parents=True)
    put(agents, "agent-1", [{**line, "isSidechain": True} for line in TALK])
    (agents / "agent-1.meta.json").write_text('{"agentType":"Explore","description":"Find it"}')
    (done,) = take_all(store, "claude-code", folder)
    assert done.source.id == "a/agent-1"
    (summary,) = store.list()
    assert summary.title == "Find it"
