"""Reasonix: which of the files beside each other counts."""

from __future__ import annotations

import json

from tests.exchange.sources import copied, take_all

STEM = "20260603-090000.000000001-deepseek-chat"


def texts(store, done):
    with store.open(done.session, mode="read") as session:
        return [message.text for message in session.context()]


def test_events_of_another_kind_are_left_alone(store, tmp_path):
    source = copied("reasonix/events", tmp_path)
    (source / f"{STEM}.events.jsonl").write_text('{"id":1,"type":"user.message"}\n')
    done, _ = take_all(store, "reasonix", source)
    assert texts(store, done) == ["You are a coding agent.", "the checkpoint is behind"]


def test_events_of_a_later_version_are_left_alone(store, tmp_path):
    source = copied("reasonix/events", tmp_path)
    (source / f"{STEM}.events.jsonl").write_text('{"schema_version":2,"type":"log"}\n')
    done, _ = take_all(store, "reasonix", source)
    assert texts(store, done) == ["You are a coding agent.", "the checkpoint is behind"]


def test_facts_that_cannot_be_read_cost_nothing_else(store, tmp_path):
    source = copied("reasonix/messages", tmp_path)
    next(source.glob("*.meta")).write_text("{")
    done, _ = take_all(store, "reasonix", source)
    assert done.action == "created"
    assert done.counts.messages == 5


def test_messages_that_become_events_are_the_same_session(store, tmp_path):
    path = tmp_path / "source" / f"{STEM}.jsonl"
    path.parent.mkdir()
    messages = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    path.write_text("".join(json.dumps(message) + "\n" for message in messages))
    (first,) = take_all(store, "reasonix", path.parent)
    event = {"schema_version": 1, "type": "replace", "revision": 1, "messages": messages}
    more = {"schema_version": 1, "type": "append", "revision": 2, "message_index": 2}
    more["messages"] = [{"role": "user", "content": "three"}]
    events = path.with_name(f"{STEM}.events.jsonl")
    events.write_text(json.dumps(event) + "\n" + json.dumps(more) + "\n")
    (again,) = take_all(store, "reasonix", path.parent)
    assert (again.session, again.action) == (first.session, "grown")
    assert again.counts.messages == 1
    assert texts(store, again) == ["one", "two", "three"]


def test_what_the_screen_alone_shows_counts_as_a_message_for_appends(store, tmp_path):
    path = tmp_path / "source" / f"{STEM}.events.jsonl"
    path.parent.mkdir()
    shown = {"role": "tool", "content": "half", "local_only": True}
    asked, done = {"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}
    events: list[dict[str, object]] = [
        {"type": "replace", "messages": [asked, shown]},
        {"type": "append", "message_index": 2, "messages": [done]},
        {"type": "replace", "messages": [{"role": "user", "content": "in short"}, shown, done]},
        {"type": "append", "message_index": 3, "messages": [{"role": "user", "content": "three"}]},
    ]
    path.write_text("".join(json.dumps({"schema_version": 1, **each}) + "\n" for each in events))
    (imported,) = take_all(store, "reasonix", path.parent)
    assert imported.problem_count == 0
    assert texts(store, imported) == ["in short", "two", "three"]


def test_facts_that_cannot_be_read_are_reported(store, tmp_path):
    source = copied("reasonix/events", tmp_path)
    (source / f"{STEM}.jsonl.meta").write_text("{torn")
    done, _ = take_all(store, "reasonix", source)
    assert done.problems[0].path == str(source / f"{STEM}.jsonl.meta")
