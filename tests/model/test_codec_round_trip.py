"""What is written is what is read: every body type, known and unknown fields alike."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.model.codec import decode_body, dumps, encode_body, loads, plain, type_of
from holdfast.model.entry import BODIES, Custom, Header, Meta, Unknown, Usage
from holdfast.model.message import (
    BlobRef,
    Image,
    Message,
    Text,
    ToolCall,
    ToolResult,
    UnknownPart,
    user,
)
from tests.model import strategies

relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)


def same_json(left: Any, right: Any) -> bool:
    """Compare as JSON does: 1 and true are different values, 1 and 1.0 are the same number."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_json(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def test_there_is_a_strategy_for_every_type():
    assert strategies.bodies.keys() == BODIES.keys() | {"x_future"}


@pytest.mark.parametrize("type_name", strategies.bodies)
def test_every_type_survives_a_round_trip(type_name):
    @relaxed
    @given(strategies.bodies[type_name])
    def check(body):
        data, again = encode_body(body)
        assert again == body
        assert type_of(again) == type_name
        assert decode_body(type_name, data) == body
        assert encode_body(again) == (data, again)

    check()


@relaxed
@given(strategies.any_body)
def test_a_line_is_plain_json_that_says_the_same(body):
    data, _ = encode_body(body)
    assert b"\n" not in data
    assert same_json(json.loads(data), plain(body))
    data.decode()  # valid UTF-8, whatever is in the strings


@relaxed
@given(st.sampled_from([*BODIES, "x_future", "", "Ünknown type"]), strategies.json_objects)
def test_any_object_of_any_type_is_taken_in_and_given_back(type_name, fields):
    """Foreign lines have whatever shape they like; nothing of their values is lost."""
    body = decode_body(type_name, dumps(fields))
    assert type_of(body) == type_name
    given_back = plain(body)
    # A field that says its default (null mostly) may be left out, and nothing else.
    assert same_json(given_back, {key: fields[key] for key in given_back})
    left_out = fields.keys() - given_back.keys()
    defaults = {} if type(body) in {Meta, Unknown} else _defaults(type(body))
    assert all(fields[key] == defaults[key] for key in left_out)


def _defaults(struct):
    return {
        field.encode_name: field.default
        for field in msgspec.structs.fields(struct)
        if field.default is not msgspec.NODEFAULT
    }


@relaxed
@given(st.data(), strategies.messages)
def test_a_field_from_the_future_survives_at_every_level(data, message):
    tree = plain(message)
    objects = [tree]
    for part in tree["content"]:
        objects += [part, *([part["blob"]] if isinstance(part.get("blob"), dict) else [])]
        inner = part.get("content")
        objects += (
            [each for each in inner if isinstance(each, dict)] if isinstance(inner, list) else []
        )
    chosen = data.draw(st.sampled_from(objects))
    chosen["from_2031"] = {"deep": [1, None, "\ud800"]}
    body = decode_body("message", dumps(tree))
    assert isinstance(body, Message)
    assert same_json(plain(body), tree)
    written, again = encode_body(body)
    assert again == body
    assert same_json(loads(written), tree)


def test_surrogate_halves_that_meet_become_the_character_they_are():
    _, again = encode_body(user("\ud83d\ude00"))
    assert again == user("\U0001f600")


UNKNOWN = {
    "entry": {"role": "user", "content": [], "from_2031": 1},
    "part": {"role": "user", "content": [{"type": "text", "text": "a", "from_2031": 1}]},
    "part type": {"role": "user", "content": [{"type": "hologram", "beams": [1, 2]}]},
    "part without type": {"role": "user", "content": [{"beams": 2}]},
    "part of a strange type": {"role": "user", "content": [{"type": 5, "beams": 2}]},
    "known part of another shape": {
        "role": "user",
        "content": [{"type": "text", "text": {"a": 1}}],
    },
    "known part without its field": {"role": "user", "content": [{"type": "text", "body": "a"}]},
    "nested part": {
        "role": "tool",
        "content": [
            {
                "type": "tool_result",
                "call_id": "c",
                "outcome": "completed",
                "content": [{"type": "image", "media_type": "image/png", "from_2031": [True]}],
            }
        ],
    },
    "nested part type": {
        "role": "tool",
        "content": [
            {
                "type": "tool_result",
                "call_id": "c",
                "outcome": "completed",
                "content": [{"type": "hologram"}],
            }
        ],
    },
    "blob": {
        "role": "user",
        "content": [
            {
                "type": "text",
                "text": "",
                "blob": {
                    "sha256": "s",
                    "size_bytes": 3,
                    "media_type": "m",
                    "encoding": "text",
                    "from_2031": 1,
                },
            }
        ],
    },
    "empty key in a blob": {
        "role": "user",
        "content": [
            {
                "type": "text",
                "text": "",
                "blob": {
                    "sha256": "s",
                    "size_bytes": 3,
                    "media_type": "m",
                    "encoding": "text",
                    "": {"from_2031": 1},
                },
            }
        ],
    },
    "empty key": {"role": "user", "content": [{"type": "text", "text": "a", "": {"x": 1}}]},
    "empty key on top": {"role": "user", "content": [], "": 7},
    "the tag of our own": {
        "role": "user",
        "content": [{"type": "\0unknown", "fields": {"type": "text", "text": "a"}}],
    },
}


@pytest.mark.parametrize("where", UNKNOWN)
def test_what_is_not_known_is_written_back(where):
    fields = UNKNOWN[where]
    body = decode_body("message", dumps(fields))
    assert isinstance(body, Message)
    written, again = encode_body(body)
    assert loads(written) == fields
    assert again == body


def test_the_places_of_unknown_things_are_where_they_belong():
    def content(where):
        body = decode_body("message", dumps(UNKNOWN[where]))
        assert isinstance(body, Message)
        return body.content[0]

    assert content("part") == Text(text="a", extra={"from_2031": 1})
    assert content("part type") == UnknownPart(fields={"type": "hologram", "beams": [1, 2]})
    blob = content("blob").blob
    assert blob is not None
    assert blob.extra == {"from_2031": 1}
    inner = content("nested part").content[0]
    assert inner == Image(media_type="image/png", extra={"from_2031": [True]})
    assert content("empty key").extra == {"": {"x": 1}}


@pytest.mark.parametrize("strange", ["from_2031", ""])
def test_a_headers_inner_objects_are_kept_too(strange):
    fields = {
        "format": 1,
        "session": "s",
        "uid": "u",
        "forked_from": {"session": "t", "seq": 3, strange: {"a": 1}},
        "continues": {"seq": 3, "sum": "00000000", strange: {"a": 1}},
    }
    body = decode_body("header", dumps(fields))
    assert isinstance(body, Header)
    assert body.continues is not None
    assert body.continues.extra == {strange: {"a": 1}}
    data, again = encode_body(body)
    assert again == body
    assert loads(data) == fields


def test_a_message_of_a_foreign_shape_is_kept_whole():
    fields = {"role": "user", "content": "just a string"}
    body = decode_body("message", dumps(fields))
    assert body == Unknown(type="message", fields=fields)


@pytest.mark.parametrize("content", [[5], ["text"], [None], {"type": "text"}])
def test_content_that_is_not_parts_is_kept_whole(content):
    fields = {"role": "user", "content": content}
    assert decode_body("message", dumps(fields)) == Unknown(type="message", fields=fields)


def test_an_unknown_entry_can_be_appended_again():
    body = Unknown(type="x_future", fields={"must": True, "": None})
    assert body.must
    data, again = encode_body(body)
    assert again == body
    assert loads(data) == body.fields


def test_must_is_read_from_the_fields_alone():
    assert not Unknown(type="x", fields={"must": 1}).must
    assert not Unknown(type="x", fields={}).must
    assert not Unknown(type="x", fields=None).must


def test_extra_can_hold_a_field_that_only_looks_known():
    blob = BlobRef(sha256="s", size_bytes=1, media_type="m", encoding="text", extra={"n": 1})
    message = user(Text(text="", blob=blob))
    data, again = encode_body(message)
    assert again == message
    assert json.loads(data)["content"][0]["blob"]["n"] == 1


def test_a_value_where_json_is_wanted_becomes_json():
    call = ToolCall(id="c", name="n", arguments={"part": Text(text="a"), "pair": (1, 2)})
    _, again = encode_body(Message(role="assistant", content=[call]))
    assert isinstance(again, Message)
    assert again.content == [
        ToolCall(
            id="c", name="n", arguments={"part": {"type": "text", "text": "a"}, "pair": [1, 2]}
        )
    ]


def test_changing_the_callers_objects_changes_nothing_stored():
    arguments: dict[str, Any] = {"list": [1], "dict": {"a": 1}}
    inner: list[Any] = [Text(text="x")]
    message = Message(
        role="assistant",
        content=[
            ToolCall(id="c", name="n", arguments=arguments),
            ToolResult(call_id="c", content=inner, outcome="completed"),
        ],
        extra={"own": [1]},
    )
    data, again = encode_body(message)
    before = plain(again)
    arguments["list"].append(2)
    arguments["dict"]["b"] = 2
    inner.append(Text(text="y"))
    message.content.append(Text(text="late"))
    message.extra["own"].append(2)
    assert plain(again) == before
    assert plain(decode_body("message", data)) == before


def test_meta_and_events_are_copied_too():
    fields = {"tags": ["a"]}
    _, meta = encode_body(Meta(fields=fields))
    fields["tags"].append("b")
    assert meta == Meta(fields={"tags": ["a"]})
    data = {"n": [1]}
    _, event = encode_body(Custom(name="e", data=data))
    data["n"].append(2)
    assert event == Custom(name="e", data={"n": [1]})


def test_defaults_are_left_out():
    assert encode_body(user("hi"))[0] == b'{"role":"user","content":[{"type":"text","text":"hi"}]}'
    assert b"holds" not in encode_body(Header(format=1, session="s", uid="u"))[0]
    assert encode_body(Usage(input=1, output=2, cost_usd=None))[0] == (
        b'{"input":1,"output":2,"cost_usd":null}'
    )
