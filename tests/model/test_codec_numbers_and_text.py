"""JSON that other programs write and that breaks readers: numbers, surrogates, nesting, NULs."""

from __future__ import annotations

import json
import math

import msgspec
import pytest
from msgspec import Raw

from holdfast.model.codec import decode_body, dumps, encode_body, loads, plain
from holdfast.model.entry import BODIES, Custom, Meta, Unknown
from holdfast.model.message import Message, Text, user


def test_a_lone_surrogate_is_escaped_and_comes_back():
    message = user("a\ud800b\udfffc")
    data, again = encode_body(message)
    assert rb"a\ud800b\udfffc" in data
    assert again == message


def test_a_lone_surrogate_among_other_text_leaves_that_text_readable():
    data, again = encode_body(user("grün \ud800 \u2028 \0 \U0001f600"))
    assert "grün".encode() in data
    assert isinstance(again, Message)
    assert again.text == "grün \ud800 \u2028 \0 \U0001f600"


def test_lone_surrogates_in_keys_and_foreign_fields():
    body = decode_body("meta", rb'{"\ud800":{"\udfff":["\ud8ff"]}}')
    assert body == Meta(fields={"\ud800": {"\udfff": ["\ud8ff"]}})
    assert encode_body(body) == (rb'{"\ud800":{"\udfff":["\ud8ff"]}}', body)


@pytest.mark.parametrize("odd", ["\ud800", {"\ud800": 1}, ["\ud800"], [{"\ud800": 1}]])
@pytest.mark.parametrize("type_name", BODIES)
def test_lone_surrogates_where_something_else_is_wanted(type_name, odd):
    """Whatever stands in a line of ours, reading it comes to a body that is written as it was."""
    for field in msgspec.structs.fields(BODIES[type_name]):
        fields = {field.encode_name: odd}
        body = decode_body(type_name, dumps(fields))
        assert plain(body) == fields


@pytest.mark.parametrize(
    "character", ["\0", "\u2028", "\u2029", "\x85", "\n", "\r", "\x1c", "\ufeff"]
)
def test_line_breaks_of_all_kinds_stay_inside_the_line(character):
    message = user(f"a{character}b")
    data, again = encode_body(message)
    assert b"\n" not in data
    assert b"\0" not in data
    assert again == message


NUMBERS = [
    "1" * 30,
    "-" + "9" * 30,
    "7" * 4000,
    "1" * 5000,
    "1e400",
    "-1e400",
    "1E+999",
    "0.1e-999",
]


@pytest.mark.parametrize("digits", NUMBERS, ids=[digits[:9] for digits in NUMBERS])
@pytest.mark.parametrize("type_name", ["meta", "event", "x_future", "message"])
def test_a_number_of_any_size_is_written_back_as_it_was(type_name, digits):
    fields = b'{"name":"e","role":"user","content":[],"data":{"n":[%s]}}' % digits.encode()
    body = decode_body(type_name, fields)
    data, again = encode_body(body)
    assert again == body
    # 0.1e-999 is 0.0 in every program that reads numbers as doubles.
    assert digits.encode() in data or float(digits) == 0.0
    assert encode_body(again)[0] == data


def test_numbers_that_python_holds_are_numbers():
    assert loads(b"1" * 30) == int("1" * 30)
    assert loads(b"[" + b"7" * 4000 + b"]") == [int("7" * 4000)]
    assert isinstance(loads(b"[1e400]")[0], Raw)
    assert isinstance(loads(b"7" * 5000), Raw)


def test_a_huge_number_beside_a_lone_surrogate_survives_too():
    data = rb'{"big":1e400,"huge":' + b"9" * 5000 + rb',"text":"\ud800","list":[true,null,0.5]}'
    body = decode_body("meta", data)
    assert encode_body(body) == (data, body)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("make", "place"),
    [
        (lambda value: Custom(name="e", data={"a": [0, value]}), "event.data.a[1]"),
        (lambda value: Meta(fields={"a": value}), "meta.a"),
        (lambda value: Unknown(type="x_future", fields={"a": value}), "x_future.a"),
        (lambda value: Message(role="user", content=[], extra={"n": value}), "message.n"),
        (
            lambda value: user(Text(text="\ud800", extra={"n": {"m": value}})),
            "message.content[0].n.m",
        ),
    ],
    ids=["event", "meta", "unknown", "extra", "beside a surrogate"],
)
def test_nan_and_infinity_are_refused_with_the_place_named(make, place, value, refused):
    error = refused(make(value))
    assert place in str(error)
    assert str(value) in str(error)


@pytest.mark.parametrize("text", [b"NaN", b"Infinity", b"-Infinity"])
def test_nan_and_infinity_can_be_read_in_foreign_lines(text):
    body = decode_body("meta", b'{"a":%s}' % text)
    assert isinstance(body, Meta)
    value = body.fields["a"]
    assert isinstance(value, float)
    assert not math.isfinite(value)


def test_of_a_repeated_key_the_last_one_counts_as_it_does_everywhere():
    data = b'{"role":"user","role":"system","content":[],"x":1,"x":2}'
    body = decode_body("message", data)
    assert body == Message(role="system", content=[], extra={"x": 2})
    assert plain(body) == json.loads(data)


def test_text_that_is_not_json_is_a_value_error():
    for data in [b"", b"{", b"\xff\xfe", b'{"a":1}{', b"[1]", b"nul", b'"a', b'{"a":\xff}']:
        with pytest.raises(ValueError, match=r"."):
            decode_body("message", data)


def test_deep_nesting_is_a_recursion_error_and_nothing_worse():
    for depth in (2_000, 100_000):
        with pytest.raises(RecursionError):
            loads(b"[" * depth + b"]" * depth)


def test_nesting_that_the_interpreter_can_follow_is_kept():
    value: list[object] = []
    for _ in range(150):
        value = [value]
    body = Custom(name="e", data=value)
    assert encode_body(body)[1] == body


def test_dumps_spells_everything_beside_a_surrogate_as_usual():
    value = {
        "s": "\ud800é\0\n",
        "t": True,
        "f": False,
        "n": None,
        "i": -3,
        "r": 1.5,
        "e": {},
        "l": [],
    }
    assert loads(dumps(value)) == value
    assert dumps(value) == (
        '{"s":"\\ud800é\\u0000\\n","t":true,"f":false,"n":null,"i":-3,"r":1.5,"e":{},"l":[]}'.encode()
    )
