"""Exporting: the conversation as text, with what the disk did not take."""

from __future__ import annotations

import errno
import json

import pytest

import holdfast
from holdfast import (
    ToolCall,
    assistant,
    user,
)
from holdfast.store.read.markdown import markdown
from holdfast.store.read.text_formats import text_of


def exported(session):
    return [
        message["content"][0]["text"]
        for message in map(json.loads, session.export("jsonl").split())
    ]


def test_messages_that_wait_for_room_are_in_it(fragile, files):
    session = fragile.create()
    session.append(user("safe"))
    with files.full_disk():
        with pytest.raises(holdfast.DiskFull):
            session.append(user("waiting"))
        session.submit(user("submitted"))
        assert exported(session) == ["safe", "waiting", "submitted"]


@pytest.mark.parametrize("text", ["small", "x" * 300_000])
def test_messages_that_could_not_be_written_are_in_it(fragile, files, monkeypatch, text):
    monkeypatch.setattr("holdfast.journal.pool.BackgroundTask.wake", lambda _: None)
    session = fragile.create()
    session.append(user("safe"))
    files.fail("sync", errno.EIO, name="journal", times=None)
    ticket = session.submit([user(text), holdfast.Meta({"n": 1})])
    session.submit(user("two"))
    with pytest.raises(holdfast.WriteFailed):
        ticket.wait()
    with pytest.raises(holdfast.WriteFailed):
        session.append(user("never accepted"))
    assert exported(session) == ["safe", text, "two"]
    session.close()
    assert exported(session) == ["safe", text, "two"]


def nested(levels):
    value: list[object] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("format_name", ["json", "jsonl", "markdown"])
def test_what_is_nested_too_deep_is_refused_in_words(format_name):
    call = ToolCall(id="1", name="x", arguments=nested(100_000))
    with pytest.raises(holdfast.UsageError, match="nested too deeply"):
        text_of(format_name, "20260102-030405-aaaabbbb", {}, [assistant([call])], None)


def test_a_summary_stands_in_markdown_where_the_compaction_was():
    summary = [user("so far: one"), assistant([ToolCall(id="1", name="look", arguments={})])]
    text = "".join(markdown("id", {}, [user("one"), summary, user("two")]))
    one, so_far, two = text.index("one"), text.index("> so far: one"), text.index("two")
    assert one < so_far < two
    assert "look" in text[so_far:two]
