"""pi: copies of one conversation."""

from __future__ import annotations

import json

from holdfast import Checkpoint
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
