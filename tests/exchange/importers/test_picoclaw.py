"""picoclaw: summaries that move on, and the older form that becomes the newer."""

from __future__ import annotations

import json

from tests.exchange.sources import copied, take_all


def contents(store, done):
    with store.open(done.session, mode="read") as session:
        texts = [message.text for message in session.context()]
        return texts, session.state.messages


def test_a_summary_that_moves_on_costs_no_messages(store, tmp_path):
    source = copied("picoclaw/lines", tmp_path)
    first, _ = take_all(store, "picoclaw", source)
    path, meta = source / "telegram_42.jsonl", source / "telegram_42.meta.json"
    with path.open("a") as file:
        file.write('{"role":"user","content":"one more"}\n')
    said = json.loads(meta.read_text())
    meta.write_text(json.dumps({**said, "skip": 6, "summary": "Notes and thanks.", "count": 7}))
    again, _ = take_all(store, "picoclaw", source)
    assert again.session == first.session
    assert contents(store, again) == (["Notes and thanks.", "one more"], 7)


def test_all_lines_may_be_left_out(store, tmp_path):
    source = copied("picoclaw/lines", tmp_path)
    meta = source / "telegram_42.meta.json"
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "skip": 6}))
    done, _ = take_all(store, "picoclaw", source)
    assert contents(store, done) == (["They read notes."], 6)


def test_the_older_form_becomes_the_newer_within_one_session(store, tmp_path):
    source = copied("picoclaw/legacy", tmp_path)
    first, _ = take_all(store, "picoclaw", source)
    path = source / "discord_7.json"
    document = json.loads(path.read_text())
    lines = [{**message, "created_at": "2026-05-01T00:00:00Z"} for message in document["messages"]]
    path.rename(path.with_suffix(".json.migrated"))
    text = "".join(json.dumps(line) + "\n" for line in lines)
    path.with_suffix(".jsonl").write_text(text)
    facts = {"key": "discord:7", "summary": document["summary"], "skip": 0, "count": 4}
    path.with_name("discord_7.meta.json").write_text(json.dumps(facts))
    again, _ = take_all(store, "picoclaw", source)
    assert again.session == first.session
    assert contents(store, again)[1] == 4


def test_lines_that_are_empty_are_not_among_those_left_out(store, tmp_path):
    lines = [json.dumps({"role": "user", "content": f"m{number}"}) for number in range(6)]
    (tmp_path / "k.jsonl").write_text("\n".join([lines[0], "", " ", "{torn", *lines[1:]]) + "\n")
    (tmp_path / "k.meta.json").write_text('{"key":"k","summary":"so far","skip":3,"count":6}')
    (done,) = take_all(store, "picoclaw", tmp_path / "k.jsonl")
    assert contents(store, done) == (["so far", "m2", "m3", "m4", "m5"], 6)


def test_facts_that_cannot_be_read_are_reported(store, tmp_path):
    source = copied("picoclaw/lines", tmp_path)
    (source / "telegram_42.meta.json").write_text('{"key":"k","skip":')
    done, _ = take_all(store, "picoclaw", source)
    assert done.action == "created"
    (problem,) = done.problems
    assert (problem.path, problem.line) == (str(source / "telegram_42.meta.json"), None)
