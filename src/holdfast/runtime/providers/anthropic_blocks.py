"""Our messages as the blocks of Anthropic's Messages API.

The API wants user and assistant in turns, tool results first in the user's turn, no empty text, and
thinking only with its signature; all of that is seen to here. Which messages are sent, and that
each call has its result, is the context's business.
"""

from __future__ import annotations

import re
from typing import Any

from holdfast.model.message import (
    AnyPart,
    File,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from holdfast.runtime.providers.contract import Request
from holdfast.runtime.providers.outgoing import NO_OUTPUT, note, sendable, text_of

VENDOR = "anthropic"
_MARK = {"type": "ephemeral"}
_MOST_MARKS = 4  # that a request may carry
_SMALLEST_BUDGET_TOKENS = 1024
_UNCACHEABLE = {"thinking", "redacted_thinking"}
# Claude's models up to 4.5 take a budget of thinking tokens; later ones decide for themselves and
# refuse a budget. Other vendors' models behind this API know the budget only.
_ADAPTIVE = re.compile(
    r"claude-(?!3|(?:(?:opus|sonnet|haiku)-4(?:-[0-5])?|4-\w+)(?:-\d{8}|-latest|-v\d|@|$))"
)


def parameters(request: Request) -> dict[str, Any]:
    """Return a request as the arguments of ``messages.create``."""
    marked = _marked(request)
    given: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "messages": _turns(request.messages, marked),
    }
    if request.system:
        given["system"] = [{"type": "text", "text": request.system}]
        if marked:
            given["system"][0]["cache_control"] = _MARK
    if request.tools:
        given["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in request.tools
        ]
    if request.thinking:
        given |= _thinking(request)
    cleaned: dict[str, Any] = sendable(given)
    return cleaned


def _marked(request: Request) -> set[int]:
    """Return after which messages a breakpoint stands: the last ones, with one left for system."""
    return set(request.cached[-(_MOST_MARKS - bool(request.system)) :])


def _thinking(request: Request) -> dict[str, Any]:
    """Return how much to think, in the way the model wants to be told.

    Thinking comes out of ``max_tokens``: the room for the answer is kept.
    """
    budget = max(request.thinking, _SMALLEST_BUDGET_TOKENS)
    mode: dict[str, Any] = {"type": "enabled", "budget_tokens": budget}
    if _ADAPTIVE.match(request.model):
        mode = {"type": "adaptive", "display": "summarized"}
    return {"thinking": mode, "max_tokens": request.max_tokens + budget}


def _turns(messages: list[Message], marked: set[int]) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = []
    for index, message in enumerate(messages):
        role = "assistant" if message.role == "assistant" else "user"
        blocks = [block for part in message.content for block in _blocks(part, role)]
        if index in marked:
            _mark(blocks)
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    for turn in turns:
        turn["content"].sort(key=lambda block: block["type"] != "tool_result")
    return turns


def _mark(blocks: list[dict[str, Any]]) -> None:
    for block in reversed(blocks):
        if block["type"] not in _UNCACHEABLE:
            block["cache_control"] = _MARK
            return


def _blocks(part: AnyPart, role: str) -> list[dict[str, Any]]:
    """Return the block for a part, none if it is nothing that this API takes."""
    blocks: list[dict[str, Any]] = []
    match part:
        case Text(text=text) if text.strip():
            blocks = [{"type": "text", "text": text}]
        case Thinking(text=text, signature=str(signature)) if role == "assistant":
            blocks = [{"type": "thinking", "thinking": text, "signature": signature}]
        case Opaque(vendor="anthropic", data=dict(data)):
            blocks = [dict(data)]
        case ToolCall(partial=None) if role == "assistant":
            blocks = [_call(part)]
        case ToolResult() if role == "user":
            blocks = [_result(part)]
        case Image() | File() if role == "user":
            blocks = [_media(part)]
    return blocks


def _call(part: ToolCall) -> dict[str, Any]:
    given = part.arguments if isinstance(part.arguments, dict) else {"arguments": part.arguments}
    return {"type": "tool_use", "id": part.id, "name": part.name, "input": given}


def _result(part: ToolResult) -> dict[str, Any]:
    content = [
        block
        for inner in part.content
        if isinstance(inner, Text | Image | File)
        for block in _blocks(inner, "user")
    ]
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": part.call_id,
        "content": content or [{"type": "text", "text": NO_OUTPUT}],
    }
    if part.outcome != "completed":
        block["is_error"] = True
    return block


def _media(part: Image | File) -> dict[str, Any]:
    kind = "image" if isinstance(part, Image) else "document"
    if (text := text_of(part) if isinstance(part, File) else None) is not None:
        source = {"type": "text", "media_type": "text/plain", "data": text}
    elif kind == "document" and part.media_type != "application/pdf":
        return {"type": "text", "text": note(part)}
    elif part.url:
        source = {"type": "url", "url": part.url}
    elif part.data:
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    else:
        return {"type": "text", "text": note(part)}
    block: dict[str, Any] = {"type": kind, "source": source}
    if isinstance(part, File):
        block["title"] = part.name
    return block
