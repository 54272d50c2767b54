"""Messages and states are pure values with a few words of their own."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.model.entry import BODIES, ENVELOPE, TREE, TYPES, Entry, Meta, Position
from holdfast.model.lock_holder import Holder
from holdfast.model.message import (
    Image,
    Message,
    Text,
    Thinking,
    ToolResult,
    assistant,
    system,
    tool_result,
    user,
)
from holdfast.model.state import OpenTurn, State


def test_messages_are_made_from_text_a_part_or_parts():
    text, image = Text(text="hi"), Image(media_type="image/png")
    assert user("hi") == user(text) == user([text]) == Message(role="user", content=[text])
    assert user([text, image]).content == user((text, image)).content == [text, image]
    assert system("be brief").role == "system"
    reply = assistant("yes", model="m", stop="end")
    assert (reply.role, reply.model, reply.stop) == ("assistant", "m", "end")


def test_a_list_of_parts_is_copied():
    parts = [Text(text="a")]
    message = user(parts)
    parts.append(Text(text="b"))
    assert len(message.content) == 1


def test_a_tool_result_answers_one_call():
    message = tool_result("call_1", "done", outcome="failed")
    assert message.role == "tool"
    assert message.content == [
        ToolResult(call_id="call_1", content=[Text(text="done")], outcome="failed")
    ]
    assert tool_result("c", "x").content[0] == ToolResult(
        call_id="c", content=[Text(text="x")], outcome="completed"
    )


def test_the_text_of_a_message_is_what_was_said():
    message = assistant(
        [Thinking(text="hm"), Text(text="a"), Image(media_type="m"), Text(text="b")]
    )
    assert message.text == "ab"


def test_equal_messages_are_equal_wherever_they_came_from():
    assert user("a") == user("a") != user("b")
    assert holdfast.user is user


def test_every_type_has_a_struct_and_back():
    assert {TYPES[struct] for struct in BODIES.values()} == set(BODIES)
    assert set(BODIES) >= TREE


def test_no_body_uses_a_name_of_the_envelope():
    for struct in BODIES.values():
        if struct is not Meta:
            assert not set(struct.__struct_fields__) & set(ENVELOPE)


def test_an_entry_knows_where_it_is():
    line = b'{"seq":5,"at":"t","type":"meta","sum":"1c291ca3"}'
    entry = Entry(5, "t", "meta", Meta({}), line=line, offset=77, segment=2)
    assert entry.position == Position(seq=5, offset=77, segment=2)
    assert entry.sum == b"1c291ca3"


@pytest.mark.parametrize(
    ("meta", "first", "title"),
    [
        ({}, None, None),
        ({}, "fix the build", "fix the build"),
        ({"title": "Mine"}, "fix the build", "Mine"),
        ({"title": ""}, "fix the build", "fix the build"),
        ({"title": 5}, "fix the build", "fix the build"),
    ],
)
def test_the_title_is_the_one_given_else_the_first_text(meta, first, title):
    assert State(meta=meta, first_text=first).title == title


@pytest.mark.parametrize(
    ("turn", "is_open"),
    [
        (None, False),
        (OpenTurn(1, "started"), True),
        (OpenTurn(1, "waiting"), True),
        (OpenTurn(1, "completed"), False),
        (OpenTurn(1, "failed"), False),
    ],
)
def test_a_turn_without_an_end_is_open(turn, is_open):
    assert State(turn=turn).turn_is_open is is_open


def test_a_holder_describes_itself():
    assert str(Holder(1, "tower", "now")) == "process 1 on tower since now"
    assert str(Holder()) == "another process"


def test_a_position_equals_no_other_thing():
    assert (Position(3) == 3) is False
    assert Position(3, known=True) == Position(3)
