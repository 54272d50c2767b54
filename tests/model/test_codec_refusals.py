"""A body that cannot be stored faithfully is refused with ``UsageError``, and nothing else."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast.errors import UsageError
from holdfast.journal.bounded import LONGEST_LINE_BYTES
from holdfast.model.codec import LARGEST_BODY_BYTES, encode_body
from holdfast.model.entry import (
    ENVELOPE,
    Checkpoint,
    Custom,
    Head,
    Label,
    Meta,
    Queued,
    Unknown,
    Usage,
)
from holdfast.model.message import (
    BlobRef,
    Message,
    Text,
    ToolCall,
    ToolResult,
    UnknownPart,
    assistant,
    user,
)


@dataclass
class Point:
    x: int = 0


class Colour(enum.Enum):
    RED = object()


ODD_VALUES: dict[str, Any] = {
    "bytes": b"abc",
    "bytearray": bytearray(b"abc"),
    "set": {1},
    "object": object(),
    "class": Point,
    "function": len,
    "dataclass": Point(),
    "datetime": dt.datetime(2026, 11, 15, tzinfo=dt.UTC),
    "decimal": decimal.Decimal("1.5"),
    "complex": 1j,
    "enum": Colour.RED,
    "integer keys": {1: "a"},
    "none key": {None: "a"},
    "tuple keys": {(1, 2): "a"},
    "bytes keys": {b"a": 1},
    "integer of 5,000 digits": 10**5000,
    "an exception": ValueError("x"),
}


@pytest.mark.parametrize("name", ODD_VALUES)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda value: Custom(name="e", data={"a": [value]}),
        lambda value: Meta(fields={"a": value}),
        lambda value: Unknown(type="x_future", fields={"a": value}),
        lambda value: assistant(ToolCall(id="c", name="n", arguments={"a": value})),
        lambda value: user(Text(text="\ud800", extra={"a": value})),
        lambda value: user(UnknownPart(fields={"type": "x", "a": value})),
    ],
    ids=["event", "meta", "unknown", "arguments", "extra beside a surrogate", "unknown part"],
)
def test_values_that_json_cannot_hold(wrap, name, refused):
    assert "a" in str(refused(wrap(ODD_VALUES[name])))


def test_the_place_is_named(refused):
    error = refused(assistant([Text(text="a"), ToolCall(id="c", name="n", arguments={"k": b""})]))
    assert "message.content[1].arguments.k has the type bytes" in str(error)
    assert "message.content[0].arguments has a key that is not a string: 1" in str(
        refused(assistant(ToolCall(id="c", name="n", arguments={1: 2})))
    )


WRONG_SHAPES: dict[str, Any] = {
    "text is a number": user(Text(text=5)),  # type: ignore[arg-type]
    "content is a number": user(5),  # type: ignore[arg-type]
    "text is none": user(Text(text=None)),  # type: ignore[arg-type]
    "text is bytes": user(Text(text=b"x")),  # type: ignore[arg-type]
    "role is a number": Message(role=5, content=[]),  # type: ignore[arg-type]
    "content is text": Message(role="user", content="hi"),  # type: ignore[arg-type]
    "content is none": Message(role="user", content=None),  # type: ignore[arg-type]
    "content holds text": Message(role="user", content=["hi"]),  # type: ignore[list-item]
    "content holds none": Message(role="user", content=[None]),  # type: ignore[list-item]
    "content holds a message": Message(role="user", content=[user("x")]),  # type: ignore[list-item]
    "summary holds parts": Checkpoint(summary=[Text(text="x")], keep_from=0),  # type: ignore[list-item]
    "keep_from is text": Checkpoint(summary=[], keep_from="0"),  # type: ignore[arg-type]
    "tokens are a boolean": Usage(input=True, output=0, cost_usd=None),
    "cost is text": Usage(input=1, output=0, cost_usd="1"),  # type: ignore[arg-type]
    "head is text": Head(to="1"),  # type: ignore[arg-type]
    "head is a fraction": Head(to=1.5),  # type: ignore[arg-type]
    "label without a name": Label(name=None, to=1),  # type: ignore[arg-type]
    "queued text": Queued(content="x"),  # type: ignore[arg-type]
    "meta is a list": Meta(fields=[]),  # type: ignore[arg-type]
    "meta is none": Meta(fields=None),  # type: ignore[arg-type]
    "unknown without fields": Unknown(type="x", fields=None),
    "unknown with a number for a type": Unknown(type=5, fields={}),  # type: ignore[arg-type]
    "unknown with a known type": Unknown(type="turn", fields={"state": "started"}),
    "blob is text": user(Text(text="", blob="x")),  # type: ignore[arg-type]
    "blob lacks a field": user(Text(text="", blob={"sha256": "x"})),  # type: ignore[arg-type]
    "extra is a list": user(Text(text="", extra=[1])),  # type: ignore[arg-type]
    "extra is none": Message(role="user", content=[], extra=None),  # type: ignore[arg-type]
    "extra repeats a known field": Message(role="user", content=[], extra={"role": "system"}),
    "extra of a part repeats its type": user(Text(text="a", extra={"type": "image"})),
    "extra of a part repeats a field": user(Text(text="a", extra={"text": "b"})),
    "unknown part holds a list": user(UnknownPart(fields=[])),  # type: ignore[arg-type]
    "unknown part with extra": user(UnknownPart(fields={"a": 1}, extra={"b": 1})),
    "wrong beside unknown": user([UnknownPart(fields={"a": 1}), Text(text=5)]),  # type: ignore[arg-type]
    "wrong beside extra": Message(
        role="user",
        content=[Text(text=5)],  # type: ignore[arg-type]
        extra={"x": 1},
    ),
    "wrong inside a result": user(
        ToolResult(call_id="c", content=[Text(text=5)], outcome="failed")  # type: ignore[arg-type]
    ),
    "wrong type inside a blob": user(
        Text(text="", blob=BlobRef(sha256="s", size_bytes="3", media_type="m", encoding="text"))  # type: ignore[arg-type]
    ),
}


@pytest.mark.parametrize("name", WRONG_SHAPES)
def test_wrong_shapes(name, refused):
    assert str(refused(WRONG_SHAPES[name]))


@pytest.mark.parametrize(
    "thing", [None, "text", {"role": "user"}, 5, b"x", Text(text="a"), object()]
)
def test_things_that_are_no_bodies(thing, refused):
    error = refused(thing)
    assert type(thing).__name__ in str(error)
    assert "holdfast.user" in str(error)


def _cycles():
    loop_list: list[Any] = []
    loop_list.append(loop_list)
    loop_dict: dict[str, Any] = {}
    loop_dict["self"] = {"again": loop_dict}
    content: list[Any] = []
    content.append(ToolResult(call_id="c", content=content, outcome="completed"))
    return {
        "list": Custom(name="e", data=loop_list),
        "dict": Meta(fields=loop_dict),
        "unknown": Unknown(type="x_future", fields=loop_dict),
        "extra": Message(role="user", content=[], extra=loop_dict),
        "parts": Message(role="user", content=content),
        "surrogate": user(Text(text="\ud800", extra=loop_dict)),
    }


@pytest.mark.parametrize("name", _cycles())
def test_a_cycle_is_nested_too_deep(name, refused):
    assert "nested too deep" in str(refused(_cycles()[name]))


def _stored_or_refused(body):
    try:
        return encode_body(body)[1]
    except UsageError as error:
        return str(error).partition(" is ")[2].removesuffix(" to be stored.")


@pytest.mark.parametrize("depth", [400, 700, 1_000, 3_000, 100_000])
def test_nesting_is_kept_or_refused_and_nothing_else(depth):
    value: Any = "bottom"
    for _ in range(depth):
        value = [value]
    parts: Any = Text(text="bottom")
    for _ in range(min(depth, 1_000)):
        parts = ToolResult(call_id="c", content=[parts], outcome="completed")
    for body in (
        Custom(name="e", data=value),
        Meta(fields={"a": value}),
        user(parts),
        user(Text(text="\ud800", extra={"a": value})),
    ):
        assert _stored_or_refused(body) in (body, "nested too deeply")


@pytest.mark.parametrize("name", ENVELOPE)
def test_the_names_of_the_envelope_belong_to_the_journal(name, refused):
    assert repr(name) in str(refused(Meta(fields={name: 1})))
    assert repr(name) in str(refused(Unknown(type="x_future", fields={name: 1})))
    assert repr(name) in str(refused(Message(role="user", content=[], extra={name: 1})))


def test_a_body_too_large_for_any_reader_is_refused(monkeypatch, refused):
    assert LARGEST_BODY_BYTES + 100_000 < LONGEST_LINE_BYTES
    monkeypatch.setattr("holdfast.model.codec.LARGEST_BODY_BYTES", 1000)
    encode_body(user("x" * 900))
    error = refused(user("x" * 1001))
    assert "too large" in str(error)
    assert "too large" in str(refused(Meta(fields={"a": "x" * 1001})))
