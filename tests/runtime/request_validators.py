"""What the providers' documentation says of a request, as checks that name every breach.

Each returns a list of complaints, empty for a request that the provider accepts. They know the wire
only, nothing of the code that made the request.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_LONGEST_OPENAI_ID = 40
_THINKS_UNASKED = re.compile(r"claude-[a-z]+-[5-9]")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_IMAGES = {"image/jpeg", "image/png", "image/gif", "image/webp"}
_GONE = {"temperature", "top_p", "top_k"}
_THOUGHTS = {"thinking", "redacted_thinking"}


def anthropic_complaints(body: dict[str, Any]) -> list[str]:
    """Check a request to Anthropic's Messages API."""
    return [*_everywhere(body), *_anthropic_frame(body), *_anthropic_messages(body)]


def openai_complaints(body: dict[str, Any]) -> list[str]:
    """Check a request to OpenAI's Chat Completions."""
    return [*_everywhere(body), *_openai_frame(body), *_openai_messages(body)]


def _everywhere(body: dict[str, Any]) -> Iterator[str]:
    if not body.get("model"):
        yield "no model"
    if not body.get("messages"):
        yield "no messages"
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        yield "a lone surrogate"
    names = [tool.get("name") or tool.get("function", {}).get("name") for tool in _tools(body)]
    if len(set(names)) < len(names):
        yield "two tools of one name"
    if not all(name and _NAME.fullmatch(name) for name in names):
        yield "a tool's name is not allowed"


def _tools(body: dict[str, Any]) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = body.get("tools", [])
    return tools


# Anthropic


def _anthropic_frame(body: dict[str, Any]) -> Iterator[str]:
    if body.get("max_tokens", 0) < 1:
        yield "max_tokens is required"
    if _GONE & set(body):
        yield "sampling parameters are not accepted"
    for block in body.get("system", []):
        if not block["text"].strip():
            yield "an empty system block"
    for tool in _tools(body):
        if tool["input_schema"].get("type") != "object":
            yield "a tool's schema is no object"
    thinking = body.get("thinking", {})
    if thinking.get("type") == "enabled":
        if not 1024 <= thinking["budget_tokens"] < body["max_tokens"]:
            yield "the thinking budget is out of range"
        yield from _resumed_thinking(body["messages"])
    elif not thinking and not _THINKS_UNASKED.match(body.get("model", "")):
        yield from _unwanted_thinking(body["messages"])
    if json.dumps(body).count('"cache_control"') > 4:
        yield "more than four cache breakpoints"


def _resumed_thinking(messages: list[dict[str, Any]]) -> Iterator[str]:
    for before, answer in _last_answer(messages):
        follows_words = any(block["type"] != "tool_result" for block in before["content"])
        if follows_words and answer["content"][0]["type"] not in _THOUGHTS:
            yield "thinking is on, and the calls that are answered do not begin with thinking"


def _unwanted_thinking(messages: list[dict[str, Any]]) -> Iterator[str]:
    for _, answer in _last_answer(messages):
        if any(block["type"] in _THOUGHTS for block in answer["content"]):
            yield "thinking is off, and the calls that are answered hold thinking"


def _last_answer(
    messages: list[dict[str, Any]],
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the assistant's messages of the tool loop at the end, each with the one before it."""
    at = len(messages) - 2
    while at > 0 and any(b["type"] == "tool_result" for b in messages[at + 1]["content"]):
        yield messages[at - 1], messages[at]
        at -= 2


def _anthropic_messages(body: dict[str, Any]) -> Iterator[str]:
    before: dict[str, Any] = {"role": "assistant", "content": []}
    seen: set[str] = set()
    servers: dict[str, int] = {}
    for message in body.get("messages", []):
        if message["role"] == before["role"]:
            yield "user and assistant do not take turns, or the first is not the user"
        if not message["content"]:
            yield "a message without content"
        for block in message["content"]:
            yield from _anthropic_block(block, message["role"])
        yield from _answers(before, message)
        yield from _server_tools(message, servers)
        ids = [block["id"] for block in _of_type(message, "tool_use")]
        if len(set(ids)) < len(ids) or seen & set(ids):
            yield "a call's id is not unique"
        seen |= set(ids)
        before = message
    if not all(servers.values()):
        yield "a call at the provider without its result"
    if before["role"] == "assistant" and before["content"]:
        yield "the last message is the assistant's"


def _of_type(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [block for block in message["content"] if block["type"] == kind]


def _server_tools(message: dict[str, Any], servers: dict[str, int]) -> Iterator[str]:
    """Count the results of each call that runs at the provider."""
    for block in message["content"]:
        if block["type"] == "server_tool_use":
            servers.setdefault(block["id"], 0)
        elif block["type"].endswith("_tool_result"):
            if block["tool_use_id"] not in servers:
                yield "a result of the provider's without its call"
            else:
                servers[block["tool_use_id"]] += 1


def _answers(before: dict[str, Any], message: dict[str, Any]) -> Iterator[str]:
    calls = [block["id"] for block in _of_type(before, "tool_use")]
    results = [block["tool_use_id"] for block in _of_type(message, "tool_result")]
    if sorted(calls) != sorted(results):
        yield f"calls {calls} are answered by results {results}"
    kinds = [block["type"] == "tool_result" for block in message["content"]]
    if kinds != sorted(kinds, reverse=True):
        yield "tool results are not first"


def _anthropic_block(block: dict[str, Any], role: str) -> Iterator[str]:
    kind = block["type"]
    of_user = {"image", "document", "tool_result"}
    of_model = {"tool_use", "server_tool_use", "web_search_tool_result", *_THOUGHTS}
    if kind in (of_user if role == "assistant" else of_model):
        yield f"{kind} in a message of the {role}"
    if kind == "text" and not block["text"].strip():
        yield "an empty text block"
    elif kind == "thinking" and not block.get("signature"):
        yield "thinking without its signature"
    elif kind == "tool_use":
        if not _CALL_ID.fullmatch(block["id"]) or not _NAME.fullmatch(block["name"]):
            yield "a call's id or name is not allowed"
        if not isinstance(block["input"], dict):
            yield "a call's input is no object"
    elif kind == "image":
        yield from _anthropic_image(block["source"])
    elif kind == "tool_result":
        yield from _anthropic_result(block, role)
    if kind in _THOUGHTS and "cache_control" in block:
        yield "a cache breakpoint on thinking"


def _anthropic_result(block: dict[str, Any], role: str) -> Iterator[str]:
    kinds = {inner["type"] for inner in block["content"]}
    if not kinds <= {"text", "image", "document"}:
        yield f"{kinds} in a tool result"
    if block.get("is_error") and kinds != {"text"}:
        yield "an error that is not text alone"
    for inner in block["content"]:
        yield from _anthropic_block(inner, role)


def _anthropic_image(source: dict[str, Any]) -> Iterator[str]:
    if source["type"] == "url":
        if not source["url"].startswith(("http://", "https://")):
            yield "an image's address is none"
    elif source["media_type"] not in _IMAGES or not b64decode(source["data"], validate=True):
        yield "an image's type or data is not allowed"


# OpenAI


def _openai_frame(body: dict[str, Any]) -> Iterator[str]:
    if len({"max_tokens", "max_completion_tokens"} & set(body)) > 1:
        yield "two limits on tokens"
    if "stream_options" in body and not body.get("stream"):
        yield "stream_options without stream"
    for tool in _tools(body):
        if tool["type"] != "function" or tool["function"]["parameters"].get("type") != "object":
            yield "a tool is no function, or its schema no object"


def _openai_messages(body: dict[str, Any]) -> Iterator[str]:
    waiting: list[str] = []
    if not any(message["role"] == "user" for message in body.get("messages", [])):
        yield "nothing from the user"
    for message in [*body.get("messages", []), {"role": "end", "content": "."}]:
        if message["role"] == "tool":
            if message["tool_call_id"] in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                yield f"an orphan tool message {message['tool_call_id']!r}"
        else:
            if waiting:
                yield f"calls {waiting} are not answered directly"
            waiting = [call["id"] for call in message.get("tool_calls", [])]
        yield from _openai_message(message)


def _openai_message(message: dict[str, Any]) -> Iterator[str]:
    calls = message.get("tool_calls")
    content = message.get("content")
    if message["role"] == "assistant":
        if "content" not in message or (calls is None and not content):
            yield "an assistant message without content and calls"
        if calls is not None:
            yield from _openai_calls(calls)
    elif not content:
        yield f"an empty {message['role']} message"
    if isinstance(content, list):
        for part in content:
            yield from _openai_part(part, message["role"])


def _openai_calls(calls: list[dict[str, Any]]) -> Iterator[str]:
    ids = [call["id"] for call in calls]
    if not ids or not all(ids) or len(set(ids)) < len(ids):
        yield "calls without ids of their own"
    if any(len(call_id) > _LONGEST_OPENAI_ID for call_id in ids):
        yield "a call's id is too long"
    for call in calls:
        if call["type"] != "function" or not _NAME.fullmatch(call["function"]["name"]):
            yield "a call is no function, or its name is not allowed"
        try:
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                yield "a call's arguments are no object"
        except ValueError:
            yield "a call's arguments are no JSON"


def _openai_part(part: dict[str, Any], role: str) -> Iterator[str]:
    if part["type"] == "text" and not part["text"]:
        yield "an empty text part"
    if part["type"] in {"image_url", "file"} and role != "user":
        yield f"{part['type']} in a message of the {role}"
    url = part.get("image_url", {}).get("url", "https://")
    kinds = tuple(f"data:{kind};base64," for kind in _IMAGES)
    if not url.startswith(("http://", "https://", *kinds)):
        yield "an image's address is none"
