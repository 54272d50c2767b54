"""pi: copies of one conversation, and what summaries cost."""

from __future__ import annotations

import json
from pathlib import Path

from holdfast import Checkpoint
from holdfast.exchange.importers import importer
from tests.exchange.growth import check_growth
from tests.exchange.sources import copied, plain_totals, take_all

AT = "2026-05-06T18:00:00Z"


def cost(store, done):
    found = 0.0
    for each in done:
        with store.open(each.session, mode="read") as session:
            found += plain_totals(session)["cost_usd"]
    return round(found, 6)


def test_a_fork_that_is_imported_first_is_not_counted_twice(store, tmp_path):
    source = copied("pi/fork", tmp_path)
    parent, fork = sorted(source.rglob("*.jsonl"))
    done = [*take_all(store, "pi", fork), *take_all(store, "pi", parent)]
    assert [each.action for each in done] == ["created", "created"]
    assert cost(store, done) == 0.033


def test_the_leaf_is_the_last_entry_also_if_it_says_nothing(store, tmp_path):
    source = copied("pi/fork", tmp_path)
    _, fork = sorted(source.rglob("*.jsonl"))
    lines = fork.read_text("utf-8").splitlines()
    (done,) = take_all(store, "pi", fork)
    with store.open(done.session, mode="read") as session:
        assert [message.text for message in session.messages] == ["read a.txt"]
    told = {"role": "user", "content": "from the start"}
    said = {"type": "message", "id": "000000f4", "parentId": "000000f3", "message": told}
    fork.write_text("\n".join([*lines, json.dumps(said)]) + "\n", "utf-8")
    (again,) = take_all(store, "pi", fork)
    assert again.action == "grown"
    with store.open(again.session, mode="read") as session:
        texts = [message.text for message in session.messages]
        assert texts == ["read a.txt", "from the start"]


def test_how_large_a_context_was_before_its_compaction(store, tmp_path):
    lines = [
        {"type": "session", "version": 3, "id": "s", "timestamp": AT, "cwd": "/p"},
        {"type": "message", "id": "a", "message": {"role": "user", "content": "x"}},
        {"type": "compaction", "id": "b", "parentId": "a", "summary": "so far", "tokensBefore": 50},
    ]
    path = tmp_path / "x_s.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (done,) = take_all(store, "pi", path)
    with store.open(done.session, mode="read") as session:
        (tokens,) = [e.body.tokens for e in session.branch() if isinstance(e.body, Checkpoint)]
    assert tokens == 50


def test_what_summaries_cost_and_system_prompts(store, tmp_path):
    usage = {"input": 10, "output": 3, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0.5}}
    at = "2026-11-01T00:00:0{}.000Z".format
    system = {"role": "system", "sections": {"base": "You are pi.", "tools": "Use them."}}
    lines = [
        {"type": "session", "version": 3, "id": "s", "timestamp": at(0), "cwd": "/p"},
        {"type": "message", "id": "a", "parentId": None, "timestamp": at(1), "message": system},
        {
            "type": "message",
            "id": "b",
            "parentId": "a",
            "timestamp": at(2),
            "message": {"role": "user", "content": "hi"},
        },
        {
            "type": "compaction",
            "id": "c",
            "parentId": "b",
            "timestamp": at(3),
            "summary": "They met.",
            "firstKeptEntryId": "b",
            "usage": usage,
        },
        {
            "type": "branch_summary",
            "id": "d",
            "parentId": "c",
            "timestamp": at(4),
            "summary": "A detour.",
            "usage": usage,
        },
    ]
    path = tmp_path / "2026_s.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (done,) = take_all(store, "pi", tmp_path)
    with store.open(done.session, mode="read") as session:
        assert (session.totals.requests, session.totals.output) == (2, 6)
        assert session.totals.cost_usd == 1.0
        assert session.messages[0].role == "system"
        texts = [part.text for part in session.messages[0].content]
        assert texts == ["You are pi.", "Use them."]
    check_growth("pi", path)


def test_where_sessions_are():
    pi = importer("pi")
    found = pi.found(Path("/home/me"), {"PI_CODING_AGENT_SESSION_DIR": "/data/pi"})
    assert list(found) == [Path("/data/pi")]
