"""Gemini CLI: results, resumed sessions, parallel calls, several files of one session."""

from __future__ import annotations

import json

import pytest

from tests.exchange.growth import check_growth
from tests.exchange.sources import take_all

SESSION = "1f2e3d4c-aaaa-4bbb-8ccc-000000000001"
META = {"sessionId": SESSION, "projectHash": "ab", "startTime": "2026-11-01T10:00:00.000Z"}
CONTEXT = {"id": "c0", "type": "user", "content": [{"text": "<session_context>\nlinux"}]}


def at(second):
    return f"2026-11-01T10:00:{second:02d}.000Z"


def prompt(id, words, second=1):
    return {"id": id, "timestamp": at(second), "type": "user", "content": [{"text": words}]}


def response(id, output, key="output"):
    return {"functionResponse": {"id": id, "name": "shell", "response": {key: output}}}


def reply(id, words, second=2, **more):
    tokens = {"input": 100, "output": 20, "cached": 40, "thoughts": 3, "tool": 0}
    line = {"id": id, "timestamp": at(second), "type": "gemini", "content": words}
    thoughts = [{"subject": "", "description": "hm"}]
    return {**line, "thoughts": thoughts, "tokens": tokens, "model": "gemini-3", **more}


def called(id, result, status="success"):
    call = {"id": id, "name": "shell", "args": {"command": id}, "status": status}
    return {**call, "timestamp": at(3), "result": result}


ONE, TWO = response("t1", "out 1"), response("t2", "out 2")
CALLS = {"toolCalls": [called("t1", [ONE]), called("t2", [TWO])]}
LINES = [
    META,
    {"$set": {"messages": [CONTEXT]}},
    prompt("m1", "list the files"),
    {"$set": {"lastUpdated": at(2)}},
    reply("m2", "Looking."),
    {"$set": {"lastUpdated": at(2)}},
    reply("m2", "Looking.", **CALLS),
    {"id": "m3", "timestamp": at(4), "type": "user", "content": [ONE, TWO]},
    reply("m4", "Done.", 5),
]
RESUMED = [
    CONTEXT | {"timestamp": at(9), "content": [{"text": "<session_context>\nanother day"}]},
    prompt("m1", "list the files", 9),
    {
        "id": "m2",
        "timestamp": at(9),
        "type": "gemini",
        "content": [
            {"text": "hm", "thought": True},
            {"text": "Looking."},
            {"functionCall": {"id": "t1", "name": "shell", "args": {"command": "t1"}}},
            {"functionCall": {"id": "t2", "name": "shell", "args": {"command": "t2"}}},
        ],
    },
    {"id": "m2_response", "timestamp": at(9), "type": "user", "content": [ONE, TWO]},
    {"id": "m4", "timestamp": at(9), "type": "gemini", "content": [{"text": "Done."}]},
]
RESUME = [
    {**META, "startTime": at(9)},
    {"$set": {"messages": RESUMED[:1]}},
    {"$set": {"sessionId": SESSION}},
    {"$set": {"messages": RESUMED}},
    prompt("m5", "again please", 10),
    reply("m6", "Again.", 11),
]


@pytest.fixture
def chats(tmp_path):
    made = tmp_path / "tmp" / "app" / "chats"
    made.mkdir(parents=True)
    return made


def put(chats, lines, time="10-00", session=SESSION):
    path = chats / f"session-2026-11-01T{time}-{session[:8]}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def opened(store):
    (summary,) = store.list()
    return store.open(summary.id, mode="read")


def told(store):
    with opened(store) as session:
        return [(message.role, message.text) for message in session.messages]


def results(store):
    with opened(store) as session:
        return [
            (part.call_id, "".join(each.text for each in part.content), part.outcome)
            for message in session.messages
            if message.role == "tool"
            for part in message.content
        ]


TALK = ["user", "user", "assistant", "tool", "tool", "assistant"]


def test_results_are_said_once_and_are_no_prompts(store, chats):
    path = put(chats, LINES)
    take_all(store, "gemini-cli", chats)
    assert [role for role, _ in told(store)] == TALK
    assert results(store) == [("t1", "out 1", "completed"), ("t2", "out 2", "completed")]
    (summary,) = store.list()
    assert summary.title == "list the files"
    assert (summary.totals.requests, summary.totals.output) == (2, 46)
    check_growth("gemini-cli", path, exact=False)


def test_results_that_only_a_line_of_their_own_has(store, chats):
    bad = response("t2", "no", "error")
    lines = [*LINES[:4], RESUMED[2], {**LINES[7], "content": [ONE, bad]}, LINES[8]]
    put(chats, lines)
    take_all(store, "gemini-cli", chats)
    assert results(store) == [("t1", "out 1", "completed"), ("t2", "no", "failed")]


def test_a_resumed_session_says_nothing_again(store, chats):
    path = put(chats, [*LINES, *RESUME])
    take_all(store, "gemini-cli", chats)
    assert [role for role, _ in told(store)] == [*TALK, "user", "assistant"]
    with opened(store) as session:
        assert session.state.messages == 8
        assert session.totals.output == 69
    check_growth("gemini-cli", path, exact=False)


def test_results_under_the_id_of_the_reply(store, chats):
    again = [*RESUMED[:3], {**RESUMED[3], "id": "m2"}, *RESUMED[4:]]
    put(chats, [*LINES, {"$set": {"messages": again}}, prompt("m5", "again please", 10)])
    take_all(store, "gemini-cli", chats)
    assert [role for role, _ in told(store)] == [*TALK, "user"]
    with opened(store) as session:
        assert session.state.messages == 7


def test_each_parallel_call_gets_its_own_result(store, chats):
    both = {"toolCalls": [called("t1", [ONE, TWO]), called("t2", [ONE, TWO])]}
    put(chats, [*LINES[:6], reply("m2", "Looking.", **both), *LINES[7:]])
    take_all(store, "gemini-cli", chats)
    assert results(store) == [("t1", "out 1", "completed"), ("t2", "out 2", "completed")]


def test_files_of_one_session_are_one_session(store, chats):
    put(chats, LINES)
    take_all(store, "gemini-cli", chats)
    path = put(chats, RESUME, "10-05")
    other = SESSION[:8] + "-bbbb-4bbb-8ccc-000000000002"
    lines = [{**META, "sessionId": other}, prompt("x1", "another one")]
    put(chats, lines, "10-07", other)
    done = take_all(store, "gemini-cli", chats)
    assert [each.action for each in done] == ["grown", "created"]
    store.delete(str(done[1].session))
    assert [role for role, _ in told(store)] == [*TALK, "user", "assistant"]
    check_growth("gemini-cli", path, exact=False)


def test_a_conversation_that_was_replaced_has_its_results(store, chats):
    summary = prompt("s1", "Summary.", 9)
    put(chats, [*LINES, {"$set": {"messages": [summary, *RESUMED[2:]]}}])
    take_all(store, "gemini-cli", chats)
    assert [role for role, _ in told(store)] == ["user", "assistant", "tool", "tool", "assistant"]
    with opened(store) as session:
        assert session.totals.output == 46


def test_a_call_that_runs_is_still_being_written(store, chats):
    running = {"toolCalls": [called("t1", None, "executing")]}
    put(chats, [*LINES[:4], reply("m2", "Looking.", **running)])
    (done,) = take_all(store, "gemini-cli", chats)
    assert (done.counts.messages, done.is_open) == (2, True)
    put(chats, LINES)
    (done,) = take_all(store, "gemini-cli", chats)
    assert (done.action, done.is_open) == ("grown", False)
    with opened(store) as session:
        assert session.state.messages == 6
