"""Claude Code: lines and requests that are there more than once."""

from __future__ import annotations

import json

import pytest

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
