"""JSON that is nested too deep or has too many values is refused before it does harm."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.errors import UsageError
from holdfast.model import codec
from holdfast.model.codec import (
    DEEPEST_LEVELS,
    TooDeep,
    decode_body,
    decode_line,
    encode_body,
    in_known_shape,
    loads,
    shown,
)
from holdfast.model.entry import Checkpoint, Custom, Entry, Meta, Queued, Unknown
from holdfast.model.message import Message, Text, ToolResult, UnknownPart


@given(st.integers(1, DEEPEST_LEVELS + 60))
@example(DEEPEST_LEVELS)
@example(DEEPEST_LEVELS + 1)
def test_the_depth_is_told_exactly(levels):
    data = b"[" * levels + b"]" * levels
    if levels <= DEEPEST_LEVELS:
        assert loads(data) is not None
        return
    with pytest.raises(TooDeep):
        loads(data)


def test_brackets_in_text_are_no_depth():
    text = "[{" * 1000
    assert loads(codec.dumps(text)) == text
    assert loads(codec.dumps({"text": text})) == {"text": text}
    assert decode_body("event", codec.dumps({"name": text})) == Custom(name=text)
    assert encode_body(Custom(name=text))[1] == Custom(name=text)


def test_many_values_are_not_built(monkeypatch):
    monkeypatch.setattr(codec, "MOST_VALUES", 1000)
    assert loads(b"[" + b"1," * 900 + b"1]")
    with pytest.raises(TooDeep, match="more than 1000 values"):
        loads(b"[" + b"1," * 1100 + b"1]")


@pytest.mark.parametrize("type_name", ["event", "message", "invention"])
def test_a_body_that_is_too_deep_is_neither_read_nor_written(type_name):
    deep = b"[" * 300 + b"]" * 300
    with pytest.raises(RecursionError):
        decode_body(type_name, b'{"name":"e","data":%s}' % deep)
    line = b'{"seq":1,"at":"","type":"event","name":"e","data":%s,"sum":""}'
    assert decode_line(line % b"[]") is not None
    with pytest.raises(RecursionError):
        decode_line(line % deep)
    data: list[object] = []
    for _ in range(300):
        data = [data]
    with pytest.raises(UsageError, match="nested too deeply"):
        encode_body(Custom(name="e", data=data))


def entry(body, type_name="message"):
    return Entry(3, "2026-01-01T00:00:00.000Z", type_name, body)


def test_what_is_shown_has_the_shape_that_its_name_promises():
    odd = UnknownPart(fields={"type": "tool_result", "content": "x"})
    result = ToolResult(call_id="c", content=[odd], outcome="completed")
    message = Message(role="tool", content=[Text(text="a"), odd, result])
    parts = shown(entry(message))["content"]
    assert [part["type"] for part in parts] == ["text", "unknown", "tool_result"]
    assert parts[2]["content"] == [{"type": "unknown"}]
    assert shown(entry(Unknown("message", None)))["type"] == "unknown"
    summary = shown(entry(Checkpoint(summary=[message], keep_from=1), "checkpoint"))["summary"]
    assert summary[0]["content"][1] == {"type": "unknown"}
    assert shown(entry(Queued(content=[odd]), "queued"))["content"] == [{"type": "unknown"}]
    assert shown(entry(Meta({"title": "t"}), "meta"))["title"] == "t"


def test_a_decoded_line_is_brought_into_shape():
    line = {"seq": 3, "at": "x", "type": "message", "role": "user", "content": ["text"]}
    assert in_known_shape(line) == {"seq": 3, "at": "x", "type": "unknown"}
    good = {**line, "content": [{"type": "text", "text": "a"}], "sum": "00000000"}
    assert in_known_shape(good)["content"] == [{"type": "text", "text": "a"}]
