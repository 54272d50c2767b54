"""kimi-cli: contexts that are put aside, and the log beside them."""

from __future__ import annotations

import json
import os
import shutil

from tests.exchange.sources import copied, plain_totals, take_all


def contents(store, done):
    with store.open(done.session, mode="read") as session:
        return [message.text for message in session.context()], session.state.messages


def test_a_context_that_is_put_aside_goes_on(store, tmp_path):
    source = copied("kimi-cli/compacted", tmp_path)
    (folder,) = source.iterdir()
    newer = (folder / "context.jsonl").read_bytes()
    (folder / "context_1.jsonl").rename(folder / "context.jsonl")
    (first,) = take_all(store, "kimi-cli", source)
    assert first.counts.messages == 5
    (folder / "context.jsonl").rename(folder / "context_1.jsonl")
    (folder / "context.jsonl").write_bytes(newer)
    (again,) = take_all(store, "kimi-cli", source)
    assert (again.session, again.action) == (first.session, "grown")
    texts, recorded = contents(store, again)
    assert texts[1:] == ["a better one", "three", "third"]
    assert recorded == 7, "what a compaction kept is not said again"


def test_a_context_that_only_was_reverted(store, tmp_path):
    source = copied("kimi-cli/compacted", tmp_path)
    (folder,) = source.iterdir()
    lines = (folder / "context_1.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "context.jsonl").write_bytes(b"".join(lines[:4]))
    (done,) = take_all(store, "kimi-cli", source)
    assert contents(store, done) == (["You are Kimi.", "one", "first"], 5)


def test_without_the_log_there_are_messages(store, tmp_path):
    source = copied("kimi-cli/turns", tmp_path)
    (log,) = source.rglob("wire.jsonl")
    log.write_text("nonsense\n")
    done, *_ = take_all(store, "kimi-cli", source)
    assert done.counts.messages == 8
    assert done.counts.requests == 0


def test_requests_that_fit_no_message_are_counted(store, tmp_path):
    source = copied("kimi-cli/turns", tmp_path)
    (log,) = source.rglob("wire.jsonl")
    used = {"input_other": 1, "output": 1, "input_cache_read": 0, "input_cache_creation": 0}
    event = {"type": "StatusUpdate", "payload": {"token_usage": used}}
    line = json.dumps({"timestamp": 1775000200.0, "message": event}) + "\n"
    log.write_text(log.read_text() + line * 200)
    done, *_ = take_all(store, "kimi-cli", source)
    with store.open(done.session, mode="read") as session:
        assert plain_totals(session)["requests"] == 3 + 200


def test_a_folder_of_one_session_alone(store, tmp_path):
    source = copied("kimi-cli/turns", tmp_path)
    (log,) = source.rglob("wire.jsonl")
    alone = tmp_path / "alone"
    shutil.copytree(log.parent, alone / log.parent.name)
    done, _ = take_all(store, "kimi-cli", alone)
    assert done.action == "created"
    with store.open(done.session, mode="read") as session:
        assert session.meta["title"] == "Listing files"
        assert "workspace" not in session.meta


def test_one_context_that_cannot_be_read_is_passed_over(store, tmp_path):
    source = copied("kimi-cli/rotated", tmp_path)
    (folder,) = source.iterdir()
    (folder / "context_2.jsonl").unlink()
    (folder / "context_2.jsonl").symlink_to("/etc/hostname")
    (folder / "context_10.jsonl").unlink()
    os.mkfifo(folder / "context_10.jsonl")
    (done,) = take_all(store, "kimi-cli", source)
    assert done.action == "created"
    assert [(each.path, each.line) for each in done.problems] == [
        (str(folder / "context_2.jsonl"), None),
        (str(folder / "context_10.jsonl"), None),
    ]


def test_what_is_beside_and_cannot_be_read_is_reported(store, tmp_path):
    source = copied("kimi-cli/turns", tmp_path)
    (state,) = source.rglob("state.json")
    state.write_text("{torn")
    wire = state.with_name("wire.jsonl")
    wire.write_bytes(b"{torn\n" + wire.read_bytes())
    done = take_all(store, "kimi-cli", source)
    problems = [(each.path, each.line) for one in done for each in one.problems]
    assert (str(state), None) in problems
    assert (str(wire), 1) in problems
