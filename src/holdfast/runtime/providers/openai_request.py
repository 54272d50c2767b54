"""Our messages as those of OpenAI's Chat Completions, and what servers of that kind differ in.

The protocol has no place for images in tool results: the context mirrors them into a user message.
It has no signed thinking either; what a model thought is left out, except for servers that want it
back with the calls it led to.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from holdfast.model.message import (
    AnyPart,
    File,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from holdfast.runtime.providers.base import Request
from holdfast.runtime.providers.encoding import (
    NO_OUTPUT,
    file_as_text,
    image_url,
    note,
    sendable,
    text_of,
)

OFFICIAL_HOST = "api.openai.com"
_IMAGE_KINDS = ("jpeg", "png", "gif", "webp")
_REASONING = re.compile(r"(?:.*/)?(?:o[1-9]|gpt-(?:[5-9]|\d\d))(?:\b|[.-])")
# From 5.4 on, OpenAI's models do not reason and call tools in one Chat Completions request. These
# two cannot stop reasoning: they need another protocol for tools, and the server will say so.
_CHOOSES = re.compile(r"gpt-(?:5\.(?:[4-9]|\d\d)|[6-9]|\d\d)")
_ALWAYS_REASONS = ("gpt-6-astra", "gpt-6.1-sol")
_ADDRESSES = ("https://", "http://", *(f"data:image/{kind};" for kind in _IMAGE_KINDS))
_WANT_REASONING_BACK = ("deepseek", "kimi", "moonshot")


class Quirks(Struct, frozen=True):
    """What one server and model want that others do not.

    ``limit`` is the name of the limit on tokens; ``effort`` is sent along if it is not ``None``;
    ``reasoning_back``: thinking goes back with the calls it led to.
    """

    limit: str = "max_tokens"
    effort: str | None = None
    reasoning_back: bool = False


def quirks(endpoint: str, model: str, *, tools: bool, official: bool | None = None) -> Quirks:
    """Return the quirks of a server; ``official`` overrides what its address says."""
    if official is None:
        official = urlsplit(endpoint).hostname == OFFICIAL_HOST
    reasons = official or _REASONING.match(model) is not None
    silent = official and tools and _CHOOSES.match(model) and not model.startswith(_ALWAYS_REASONS)
    name = f"{endpoint} {model}".lower()
    return Quirks(
        limit="max_completion_tokens" if reasons else "max_tokens",
        effort="none" if silent else None,
        reasoning_back=any(word in name for word in _WANT_REASONING_BACK),
    )


def parameters(request: Request, wants: Quirks) -> dict[str, Any]:
    """Return a request as the arguments of ``chat.completions.create``."""
    messages: list[dict[str, Any]] = []
    if request.system and request.system.strip():
        messages.append({"role": "system", "content": request.system})
    for message in request.messages:
        messages += _messages(message, wants)
    given: dict[str, Any] = {
        "model": request.model,
        "messages": messages,
        wants.limit: request.max_tokens + request.thinking,
    }
    if request.tools:
        given["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in request.tools
        ]
    if wants.effort:
        given["reasoning_effort"] = wants.effort
    cleaned: dict[str, Any] = sendable(given)
    return cleaned


def _messages(message: Message, wants: Quirks) -> list[dict[str, Any]]:
    if message.role == "assistant":
        return _assistant(message, wants)
    results = [part for part in message.content if isinstance(part, ToolResult)]
    answers: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": part.call_id, "content": _result(part)} for part in results
    ]
    content = [block for part in message.content for block in _blocks(part)]
    if content:
        role = "system" if message.role == "system" else "user"
        answers.append({"role": role, "content": _joined(content)})
    return answers


def _assistant(message: Message, wants: Quirks) -> list[dict[str, Any]]:
    calls = [
        {
            "id": part.id,
            "type": "function",
            "function": {"name": part.name, "arguments": _arguments(part)},
        }
        for part in message.content
        if isinstance(part, ToolCall) and part.partial is None
    ]
    answer: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    if calls:
        answer["tool_calls"] = calls
        thoughts = [
            part.text
            for part in message.content
            if isinstance(part, Thinking) and part.signature is None
        ]
        if wants.reasoning_back and thoughts:
            answer["reasoning_content"] = "\n".join(thoughts)
    return [answer] if calls or message.text.strip() else []


def _arguments(part: ToolCall) -> str:
    # Always an object: servers that put calls into a template fail on anything else.
    given = part.arguments if isinstance(part.arguments, dict) else {"arguments": part.arguments}
    return json.dumps(sendable(given), ensure_ascii=False)


def _result(part: ToolResult) -> str:
    pieces = [
        inner.text if isinstance(inner, Text) else note(inner)
        for inner in part.content
        if isinstance(inner, Text | Image | File)
    ]
    text = "\n".join(piece for piece in pieces if piece) or NO_OUTPUT
    return text if part.outcome == "completed" else f"[{part.outcome}] {text}"


def _blocks(part: AnyPart) -> list[dict[str, Any]]:
    match part:
        case Text(text=text):
            return [{"type": "text", "text": text}] if text else []
        case Image():
            url = image_url(part)
            if url is None or not url.startswith(_ADDRESSES):
                return [_words(note(part))]
            return [{"type": "image_url", "image_url": {"url": url}}]
        case File():
            return [_file(part)]
    return []


def _file(part: File) -> dict[str, Any]:
    if (text := text_of(part)) is not None:
        return _words(file_as_text(part.name, text))
    if part.media_type == "application/pdf" and part.data:
        data = image_url(part)
        return {"type": "file", "file": {"filename": part.name, "file_data": data}}
    return _words(note(part))


def _words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _joined(content: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Return text alone as a string, which every server understands."""
    if all(block["type"] == "text" for block in content):
        return "\n".join(block["text"] for block in content)
    return content
