"""Requests to Anthropic's Messages API: what of a conversation is sent, and how."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import (
    File,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    system,
    tool_result,
    user,
)
from holdfast.model.message import UnknownPart
from holdfast.runtime.providers.anthropic import Anthropic
from holdfast.runtime.providers.anthropic_request import parameters
from tests.runtime.providers.asking import KEY, LOOK, answer, request
from tests.runtime.providers.wire import FakeVendor, messages_reply, text_block
from tests.runtime.request_validators import anthropic_complaints

PNG = "iVBORw0KGgo="
MARK = {"type": "ephemeral"}


def sent(*messages, **more):
    """Send a request for real and return the body that arrived; the server checks it."""

    async def run():
        async with FakeVendor(messages_reply(text_block(0, "a"))) as vendor:
            provider = Anthropic(KEY, base_url=vendor.url)
            await answer(provider, request(*messages, **more))
            await provider.close()
            return vendor.body

    return asyncio.run(run())


def calls(*ids, first=()):
    content = [*first, *(ToolCall(id=each, name="look", arguments={"at": each}) for each in ids)]
    return Message(role="assistant", content=content)


def contents(*messages, **more):
    return [turn["content"] for turn in sent(*messages, **more)["messages"]]


def test_a_plain_request():
    body = sent(user("hi"), system="Be kind.", tools=[LOOK], max_tokens=99)
    assert body == {
        "model": "claude-haiku-4-5",
        "max_tokens": 99,
        "stream": True,
        "system": [{"type": "text", "text": "Be kind."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "tools": [
            {"name": "look", "description": "Looks.", "input_schema": LOOK.parameters},
        ],
    }


def test_thinking_and_opaque_blocks_go_back_as_they_came():
    redacted = {"type": "redacted_thinking", "data": "EmwKAhgB"}
    said = calls(
        "a",
        first=[
            Thinking(text="Hm.", signature="EqQB"),
            Thinking(text="", signature="hidden"),
            Thinking(text="of another vendor"),
            Opaque(vendor="anthropic", data=redacted),
            Opaque(vendor="gemini", data={"type": "thought"}),
            Opaque(vendor="anthropic", data="no block"),
            UnknownPart(fields={"type": "novel"}),
        ],
    )
    body = contents(user("q"), said, tool_result("a", "seen"), tools=[LOOK], thinking=2000)
    assert body[1] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
        {"type": "thinking", "thinking": "", "signature": "hidden"},
        redacted,
        {"type": "tool_use", "id": "a", "name": "look", "input": {"at": "a"}},
    ]


def test_results_of_parallel_calls_are_one_turn_and_stand_first():
    body = contents(
        user("q"),
        calls("a", "b"),
        tool_result("a", "one"),
        user("and hurry"),
        tool_result("b", [], outcome="failed"),
        tools=[LOOK],
    )
    assert len(body) == 3
    assert body[2] == [
        {
            "type": "tool_result",
            "tool_use_id": "a",
            "content": [{"type": "text", "text": "one"}],
        },
        {
            "type": "tool_result",
            "tool_use_id": "b",
            "content": [{"type": "text", "text": "(no output)"}],
            "is_error": True,
        },
        {"type": "text", "text": "and hurry"},
    ]


@pytest.mark.parametrize("outcome", ["failed", "cancelled", "denied", "never_ran", "unknown"])
def test_whatever_did_not_complete_is_an_error(outcome):
    result = tool_result("a", "x", outcome=outcome)
    body = contents(user("q"), calls("a"), result, tools=[LOOK])
    assert body[2][0]["is_error"] is True


def test_images_are_sent_by_data_or_address_and_inside_results():
    image = Image(media_type="image/png", data=PNG)
    linked = Image(media_type="image/png", url="https://example.org/a.png")
    result = tool_result("a", [Text(text="see"), image, Thinking(text="no")])
    body = contents(user([Text(text="q"), image, linked]), calls("a"), result, tools=[LOOK])
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    by_url = {"type": "url", "url": "https://example.org/a.png"}
    assert body[0][1:] == [
        {"type": "image", "source": source},
        {"type": "image", "source": by_url},
    ]
    assert body[2][0]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image", "source": source},
    ]


def test_files_are_documents_if_they_can_be():
    body = contents(
        user(
            [
                File(name="a.pdf", media_type="application/pdf", data="JVBERi0="),
                File(name="b.txt", media_type="text/plain", data="aGVsbG8="),
                File(name="c.txt", media_type="text/plain", data="/w=="),
                File(name="d.zip", media_type="application/zip", data="UEs="),
                Image(media_type="image/png"),
            ]
        )
    )
    assert [each.get("source", each.get("text")) for each in body[0]] == [
        {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
        {"type": "text", "media_type": "text/plain", "data": "hello"},
        "[file not shown: c.txt, text/plain]",
        "[file not shown: d.zip, application/zip]",
        "[image not shown: image/png]",
    ]
    assert body[0][0]["title"] == "a.pdf"


def test_what_is_empty_partial_or_out_of_place_is_left_out():
    half = ToolCall(id="x", name="look", arguments={}, partial='{"at')
    body = sent(
        user([Text(text="q"), ToolCall(id="y", name="look", arguments={})]),
        assistant([Text(text=" \n"), half]),
        assistant([Text(text="so far"), Image(media_type="image/png", data=PNG)]),
        assistant([ToolResult(call_id="y", content=[], outcome="completed")]),
        user(""),
        system("The rules have changed."),
        user("go on"),
    )
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "q"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "so far"}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "The rules have changed."},
                {"type": "text", "text": "go on"},
            ],
        },
    ]


def test_arguments_that_are_no_object_are_put_into_one():
    said = assistant([ToolCall(id="a", name="look", arguments="{at: a}")])
    body = contents(user("q"), said, tool_result("a", "no"), tools=[LOOK])
    assert body[1][0]["input"] == {"arguments": "{at: a}"}


def test_breakpoints_stand_after_their_messages_and_after_the_system_prompt():
    thought = Thinking(text="Hm.", signature="Eq")
    messages = [
        user("q"),
        assistant([Text(text="w"), thought]),
        user("e"),
        assistant("r"),
        user([Text(text="t"), Text(text="z")]),
    ]
    body = sent(*messages, system="s", cached=(0, 1, 2, 3, 4), thinking=2000)
    marked = [
        [block.get("cache_control") for block in turn["content"]] for turn in body["messages"]
    ]
    assert marked == [[None], [None, None], [MARK], [MARK], [None, MARK]]
    assert body["system"][0]["cache_control"] == MARK
    body = sent(*messages, cached=(0, 1, 3, 4), thinking=2000)
    marked = [
        [block.get("cache_control") for block in turn["content"]] for turn in body["messages"]
    ]
    assert marked == [[MARK], [MARK, None], [None], [MARK], [None, MARK]]


def test_a_breakpoint_after_nothing_that_can_carry_it_is_none():
    thought = Thinking(text="Hm.", signature="Eq")
    body = sent(user("q"), assistant([thought]), user("e"), cached=(1,))
    assert "cache_control" not in str(body)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("claude-3-7-sonnet-20250219", "enabled"),
        ("claude-sonnet-4-20250514", "enabled"),
        ("claude-opus-4-1", "enabled"),
        ("claude-haiku-4-5", "enabled"),
        ("claude-haiku-4-5-20251001", "enabled"),
        ("deepseek-chat", "enabled"),
        ("claude-opus-4-6", "adaptive"),
        ("claude-sonnet-5", "adaptive"),
        ("claude-opus-5-5", "adaptive"),
        ("claude-haiku-5-5", "adaptive"),
    ],
)
def test_thinking_is_asked_for_as_the_model_wants_it(model, kind):
    body = parameters(request(model=model, thinking=4000, max_tokens=1000))
    budget = {"type": "enabled", "budget_tokens": 4000}
    shown = {"type": "adaptive", "display": "summarized"}
    assert body["thinking"] == (budget if kind == "enabled" else shown)
    assert body["max_tokens"] == 5000
    assert anthropic_complaints(body) == []


def test_a_budget_is_never_below_the_smallest():
    assert sent(user("q"), thinking=1)["thinking"]["budget_tokens"] == 1024


def test_what_json_cannot_hold_is_replaced():
    said = assistant([ToolCall(id="a", name="look", arguments={"\ud800": [float("nan"), 1.5]})])
    body = contents(user("a\ud800b é"), said, tool_result("a", "\udfff"), tools=[LOOK])
    assert body[0][0]["text"] == "a\ufffdb é"
    assert body[1][0]["input"] == {"\ufffd": [None, 1.5]}
    assert body[2][0]["content"][0]["text"] == "\ufffd"


def test_thinking_is_left_out_where_it_is_not_asked_for():
    thought = Thinking(text="Hm.", signature="Eq")
    messages = [user("q"), assistant([thought, Text(text="so")]), user("w")]
    for model, thinking, kept in [
        ("claude-haiku-4-5", 0, False),
        ("claude-haiku-4-5", 2000, True),
        ("claude-opus-4-6", 0, False),
        ("claude-opus-4-6", 2000, True),
        ("claude-sonnet-5-5", 0, True),
    ]:
        body = parameters(request(*messages, model=model, thinking=thinking))
        assert ("Hm." in str(body)) is kept


def test_blocks_that_would_be_refused_are_left_out_or_told_in_words():
    opaque = [
        Opaque(vendor="anthropic", data=data)
        for data in ({"type": "tool_use", "id": "x"}, {"type": "text", "text": ""}, {"id": "y"})
    ]
    body = contents(
        user([Text(text="q"), Opaque(vendor="anthropic", data={"type": "container_upload"})]),
        assistant([*opaque, Thinking(text="", signature=""), Text(text="so")]),
        user([Image(media_type="image/bmp", data=PNG), Image(media_type="image/png", url="a.png")]),
        system=" ",
    )
    assert body == [
        [{"type": "text", "text": "q"}],
        [{"type": "text", "text": "so"}],
        [
            {"type": "text", "text": "[image not shown: image/bmp]"},
            {"type": "text", "text": "[image not shown: image/png]"},
        ],
    ]
