"""The validators find what they look for."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.runtime.request_validators import anthropic_complaints, openai_complaints

CALL = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "x"}]}
SERVER_CALL = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
SERVER_RESULT = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
THOUGHT = {"type": "thinking", "thinking": "", "signature": "s"}
TEXT = {"type": "text", "text": "q"}


def image(**source):
    return {"type": "image", "source": source}


ANTHROPIC: dict[str, Any] = {
    "model": "m",
    "max_tokens": 2000,
    "system": [TEXT],
    "tools": [{"name": "look", "input_schema": {"type": "object"}}],
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "messages": [
        {
            "role": "user",
            "content": [TEXT, image(type="base64", media_type="image/png", data="aGk=")],
        },
        {"role": "assistant", "content": [THOUGHT, CALL, {**CALL, "id": "b"}]},
        {"role": "user", "content": [{**RESULT, "tool_use_id": "b"}, RESULT, TEXT]},
    ],
}


def at(path, value):
    """Return a change that puts ``value`` at a path like ``messages.1.content.0``."""

    def change(body):
        *steps, last = path.split(".")
        for step in steps:
            body = body[int(step) if step.isdigit() else step]
        if value is None:
            del body[int(last) if last.isdigit() else last]
        elif last == "+":
            body.append(value)
        else:
            body[int(last) if last.isdigit() else last] = value

    return change


def complaints(check, body, change):
    body = copy.deepcopy(body)
    change(body)
    return " / ".join(check(body))


def test_a_right_request_to_anthropic():
    assert anthropic_complaints(ANTHROPIC) == []


def test_later_rounds_of_an_answer_that_began_with_thinking_need_none():
    later = {"role": "assistant", "content": [{**CALL, "id": "c"}]}
    results = {"role": "user", "content": [{**RESULT, "tool_use_id": "c"}]}
    quiet = {"role": "user", "content": ANTHROPIC["messages"][2]["content"][:2]}
    messages = [*ANTHROPIC["messages"][:2], quiet, later, results]
    assert anthropic_complaints(ANTHROPIC | {"messages": messages}) == []
    messages[2] = ANTHROPIC["messages"][2]
    complaint = anthropic_complaints(ANTHROPIC | {"messages": messages})
    assert complaint == [
        "thinking is on, and the calls that are answered do not begin with thinking"
    ]


def test_a_call_at_the_provider_may_be_answered_in_a_later_message():
    messages = [
        {"role": "user", "content": [TEXT]},
        {"role": "assistant", "content": [THOUGHT, SERVER_CALL, CALL]},
        {"role": "user", "content": [RESULT]},
        {"role": "assistant", "content": [SERVER_RESULT, TEXT]},
        {"role": "user", "content": [TEXT]},
    ]
    assert anthropic_complaints(ANTHROPIC | {"messages": messages}) == []


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("model", "", "no model"),
        ("messages", [], "no messages"),
        ("messages.0.content.0", {"type": "text", "text": "\ud800"}, "lone surrogate"),
        ("tools.+", {"name": "look", "input_schema": {"type": "object"}}, "two tools"),
        ("tools.0.name", "l o", "name is not allowed"),
        ("max_tokens", 0, "max_tokens"),
        ("temperature", 1, "sampling"),
        ("system.+", {"type": "text", "text": " "}, "empty system"),
        ("tools.0.input_schema", {}, "schema"),
        ("thinking.budget_tokens", 2000, "budget"),
        ("messages.1.content.0", None, "do not begin with thinking"),
        ("thinking", None, "thinking is off"),
        ("messages.1.content.+", SERVER_CALL, "without its result"),
        ("messages.1.content.+", SERVER_RESULT, "without its call"),
        ("messages.0.content.+", SERVER_CALL, "server_tool_use in a message of the user"),
        ("messages.2.content.0.content", [CALL], "in a tool result"),
        ("messages.2.content.0", {**RESULT, "is_error": True, "content": []}, "not text alone"),
        ("messages.0", None, "take turns"),
        ("messages.0.content", [], "without content"),
        ("messages.1.content.2.id", "a", "not unique"),
        ("messages.+", {"role": "assistant", "content": [TEXT]}, "last message"),
        ("messages.2.content.0", None, "are answered by"),
        ("messages.1.content.2", None, "are answered by"),
        ("messages.2.content.+", {**RESULT, "tool_use_id": "b"}, "not first"),
        ("messages.0.content.+", CALL, "tool_use in a message of the user"),
        ("messages.1.content.+", image(type="url", url="http://x"), "image in a message of the a"),
        ("messages.0.content.0.text", " ", "empty text"),
        ("messages.1.content.0.signature", "", "signature"),
        ("messages.1.content.1.id", "a b", "id or name"),
        ("messages.1.content.1.input", "x", "no object"),
        ("messages.0.content.1", image(type="url", url="x"), "address"),
        ("messages.0.content.1.source.media_type", "image/bmp", "type or data"),
        ("messages.2.content.0.content", [{"type": "text", "text": ""}], "empty text"),
        ("messages.1.content.0.cache_control", {}, "breakpoint on thinking"),
        ("more", [{"cache_control": {}}] * 5, "more than four"),
    ],
)
def test_breaches_of_anthropics_rules(path, value, words):
    assert words in complaints(anthropic_complaints, ANTHROPIC, at(path, value))


FUNCTION = {"name": "look", "parameters": {"type": "object"}}
OPENAI_CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
OPENAI = {
    "model": "m",
    "stream": True,
    "stream_options": {},
    "max_tokens": 5,
    "tools": [{"type": "function", "function": FUNCTION}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "q"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [OPENAI_CALL, {**OPENAI_CALL, "id": "b"}],
        },
        {"role": "tool", "tool_call_id": "b", "content": "x"},
        {"role": "tool", "tool_call_id": "a", "content": "x"},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "more"},
    ],
}


def test_a_right_request_to_openai():
    assert openai_complaints(OPENAI) == []


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("max_completion_tokens", 5, "two limits"),
        ("stream", None, "stream_options"),
        ("tools.0.type", "custom", "no function"),
        ("messages.2", None, "not answered directly"),
        ("messages.1", None, "orphan"),
        ("messages.3.tool_call_id", "b", "orphan"),
        ("messages.4.content", "", "without content and calls"),
        ("messages.5.content", "", "empty user"),
        ("messages.3.content", "", "empty tool"),
        ("messages.1.tool_calls", [], "ids of their own"),
        ("messages.1.tool_calls.0.id", "", "ids of their own"),
        ("messages.1.tool_calls.1.id", "a", "ids of their own"),
        ("messages.1.tool_calls.1.id", "a" * 41, "too long"),
        ("messages.1.content", None, "without content and calls"),
        ("messages", [{"role": "assistant", "content": "hi"}], "nothing from the user"),
        ("messages.1.tool_calls.1.function.name", "", "name is not allowed"),
        ("messages.1.tool_calls.1.function.arguments", "[]", "no object"),
        ("messages.1.tool_calls.1.function.arguments", "{", "no JSON"),
        ("messages.0.content.0.text", "", "empty text part"),
        ("messages.0.content.1.image_url.url", "x", "address"),
        ("messages.0.role", "system", "image_url in a message of the system"),
    ],
)
def test_breaches_of_openais_rules(path, value, words):
    assert words in complaints(openai_complaints, OPENAI, at(path, value))
