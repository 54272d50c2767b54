"""Requests to Chat Completions servers: what of a conversation is sent, and how."""

from __future__ import annotations

import asyncio
import json

import pytest

from holdfast import (
    File,
    Image,
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
from holdfast.runtime.providers.openai import ENDPOINT, OpenAI
from holdfast.runtime.providers.openai_request import Quirks, quirks
from tests.runtime.providers.asking import LOOK, answer, request
from tests.runtime.providers.wire import FakeVendor, chat_reply

PNG = "iVBORw0KGgo="


def sent(*messages, official=None, model="m", **more):
    """Send a request for real and return the body that arrived; the server checks it."""

    async def run():
        async with FakeVendor(chat_reply([{"content": "a"}])) as vendor:
            provider = OpenAI(base_url=vendor.url + "/v1", official=official)
            await answer(provider, request(*messages, model=model, **more))
            await provider.close()
            return vendor.body

    return asyncio.run(run())


def test_a_plain_request():
    body = sent(user("hi"), system="Be kind.", tools=[LOOK], max_tokens=99)
    assert body == {
        "model": "m",
        "max_tokens": 99,
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "hi"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "look",
                    "description": "Looks.",
                    "parameters": LOOK.parameters,
                },
            }
        ],
    }


def test_parallel_calls_and_their_results():
    calls = [ToolCall(id=each, name="look", arguments={"at": each}) for each in "ab"]
    body = sent(
        user("q"),
        assistant([Thinking(text="Hm.", signature="x"), Text(text="I look."), *calls]),
        tool_result("a", [Text(text="one"), Image(media_type="image/png", data=PNG)]),
        tool_result("b", [], outcome="denied"),
        tools=[LOOK],
    )
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {
                    "id": each,
                    "type": "function",
                    "function": {"name": "look", "arguments": json.dumps({"at": each})},
                }
                for each in "ab"
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "a",
            "content": "one\n[image not shown: image/png]",
        },
        {"role": "tool", "tool_call_id": "b", "content": "[denied] (no output)"},
    ]


def test_results_and_words_in_one_message_are_parted():
    body = sent(
        user("q"),
        assistant([ToolCall(id="a", name="look", arguments={})]),
        user(
            [
                Text(text="and hurry"),
                ToolResult(call_id="a", content=[Text(text="x")], outcome="completed"),
            ]
        ),
        system("The rules have changed."),
        tools=[LOOK],
    )
    assert body["messages"][1]["content"] is None
    assert body["messages"][2:] == [
        {"role": "tool", "tool_call_id": "a", "content": "x"},
        {"role": "user", "content": "and hurry"},
        {"role": "system", "content": "The rules have changed."},
    ]


def test_images_and_files_of_the_user():
    body = sent(
        user(
            [
                Text(text="q"),
                Image(media_type="image/png", data=PNG),
                Image(media_type="image/png", url="https://example.org/a.png"),
                File(name="a.pdf", media_type="application/pdf", data="JVBERi0="),
            ]
        ),
        user(
            [
                Image(media_type="image/png"),
                File(name="b.txt", media_type="text/plain", data="aGVsbG8="),
                File(name="c.pdf", media_type="application/pdf", url="https://example.org/c.pdf"),
                Text(text=""),
            ]
        ),
    )
    first, second = (message["content"] for message in body["messages"])
    assert first[1:] == [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {
            "type": "file",
            "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
        },
    ]
    assert second == (
        '[image not shown: image/png]\n<file name="b.txt">\nhello\n</file>\n'
        "[file not shown: c.pdf, application/pdf]"
    )


def test_what_is_empty_or_partial_is_left_out():
    half = ToolCall(id="x", name="look", arguments={}, partial='{"at')
    body = sent(
        user("q"),
        assistant([half, Thinking(text="Hm."), Opaque(vendor="anthropic", data={"type": "x"})]),
        user(""),
        user("go on"),
    )
    assert body["messages"] == [
        {"role": "user", "content": "q"},
        {"role": "user", "content": "go on"},
    ]


@pytest.mark.parametrize("arguments", ["{at: a}", [1, float("inf")], None])
def test_arguments_are_always_an_object_in_json(arguments):
    said = assistant([ToolCall(id="a", name="look", arguments=arguments)])
    body = sent(user("q"), said, tool_result("a", "no"), tools=[LOOK])
    call = body["messages"][1]["tool_calls"][0]["function"]
    assert set(json.loads(call["arguments"])) == {"arguments"}


def test_what_json_cannot_hold_is_replaced():
    said = assistant([ToolCall(id="a", name="look", arguments={"at": "\ud800"})])
    body = sent(user("a\ud800"), said, tool_result("a", "é\udfff"), tools=[LOOK])
    assert body["messages"][0]["content"] == "a\ufffd"
    assert body["messages"][2]["content"] == "é\ufffd"


def test_thinking_goes_back_to_those_who_want_it_with_the_calls_it_led_to():
    thoughts = [Thinking(text="Hm."), Thinking(text="signed", signature="x")]
    messages = [
        user("q"),
        assistant([*thoughts, ToolCall(id="a", name="look", arguments={})]),
        tool_result("a", "x"),
        assistant([*thoughts, Text(text="done")]),
        user("more"),
    ]
    body = sent(*messages, model="deepseek-chat", tools=[LOOK])
    assert [one.get("reasoning_content") for one in body["messages"]] == [
        None,
        "Hm.",
        None,
        None,
        None,
    ]
    assert "reasoning_content" not in str(sent(*messages, model="m", tools=[LOOK]))


def test_the_limit_and_the_effort_are_those_that_the_vendor_wants():
    body = sent(user("q"), official=True, model="gpt-6-sol", tools=[LOOK], thinking=500)
    assert body["max_completion_tokens"] == 8692
    assert body["reasoning_effort"] == "none"
    assert "max_tokens" not in body


@pytest.mark.parametrize(
    ("endpoint", "model", "tools", "limit", "effort"),
    [
        (ENDPOINT, "gpt-4.1", True, "max_completion_tokens", None),
        (ENDPOINT, "gpt-5", True, "max_completion_tokens", None),
        (ENDPOINT, "gpt-5.4-mini", True, "max_completion_tokens", "none"),
        (ENDPOINT, "gpt-5.6-sol", True, "max_completion_tokens", "none"),
        (ENDPOINT, "gpt-6-luna", True, "max_completion_tokens", "none"),
        (ENDPOINT, "gpt-6-luna", False, "max_completion_tokens", None),
        (ENDPOINT, "gpt-6.1-sol", True, "max_completion_tokens", None),
        (ENDPOINT, "gpt-6-astra", True, "max_completion_tokens", None),
        ("http://localhost:11434/v1", "llama3.3", True, "max_tokens", None),
        ("http://localhost:11434/v1", "gpt-oss:20b", True, "max_tokens", None),
        ("http://localhost:11434/v1", "olmo", True, "max_tokens", None),
        ("https://proxy.example/v1", "gpt-5.4", True, "max_completion_tokens", None),
        ("https://proxy.example/v1", "openai/o3-mini", True, "max_completion_tokens", None),
    ],
)
def test_quirks(endpoint, model, tools, limit, effort):
    assert quirks(endpoint, model, tools=tools) == Quirks(limit=limit, effort=effort)


def test_images_that_would_be_refused_are_told_in_words():
    images = [Image(media_type="image/bmp", data=PNG), Image(media_type="image/png", url="a.png")]
    body = sent(user(images), system=" ")
    assert body["messages"] == [
        {"role": "user", "content": "[image not shown: image/bmp]\n[image not shown: image/png]"}
    ]
