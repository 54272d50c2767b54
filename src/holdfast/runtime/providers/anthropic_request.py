"""Our messages as the blocks of Anthropic's Messages API.

The API wants user and assistant in turns, tool results first in the user's turn, no empty text,
thinking only with its signature and only in a request that asks for it, and of tools that run at
the provider both call and result; all of that is seen to here. Which messages are sent, and that
each call of ours has its result, is the context's business.
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
from holdfast.runtime.providers.base import Request
from holdfast.runtime.providers.encoding import NO_OUTPUT, note, sendable, text_of

VENDOR = "anthropic"
_MARK = {"type": "ephemeral"}
_MOST_MARKS = 4  # that a request may carry
_SMALLEST_BUDGET_TOKENS = 1024
_THOUGHTS = {"thinking", "redacted_thinking"}
_IMAGES = {"image/jpeg", "image/png", "image/gif", "image/webp"}
# Blocks that our own parts stand for: as opaque ones they would get past the rules for these.
_NEVER_OPAQUE = {"text", "thinking", "tool_use", "tool_result", "image", "document"}
# Claude's models up to 4.5 take a budget of thinking tokens; later ones decide for themselves and
# refuse a budget. Other vendors' models behind this API know the budget only.
_ADAPTIVE = re.compile(
    r"claude-(?!3|(?:(?:opus|sonnet|haiku)-4(?:-[0-5])?|4-\w+)(?:-\d{8}|-latest|-v\d|@|$))"
)
# The first of those that decide do not think unasked; the later ones do.
_QUIET = re.compile(r"claude-\w+-4-")


def parameters(request: Request) -> dict[str, Any]:
    """Return a request as the arguments of ``messages.create``."""
    turns = _turns(request, thoughts=True)
    thinking = _thinking(request, turns)
    if not thinking and not _thinks_unasked(request.model):
        turns = _turns(request, thoughts=False)
    given: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "messages": turns,
    }
    if request.system and request.system.strip():
        given["system"] = [{"type": "text", "text": request.system}]
        if request.cached:
            given["system"][0]["cache_control"] = _MARK
    if request.tools:
        given["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in request.tools
        ]
    cleaned: dict[str, Any] = sendable(given | thinking)
    return cleaned


def _marked(request: Request) -> set[int]:
    """Return after which messages a breakpoint stands: the last ones, with one left for system."""
    return set(request.cached[-(_MOST_MARKS - bool(request.system)) :])


def _thinking(request: Request, turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how much to think, in the way the model wants to be told; nothing for not at all.

    Thinking comes out of ``max_tokens``: the room for the answer is kept.
    """
    if not request.thinking:
        return {}
    budget = max(request.thinking, _SMALLEST_BUDGET_TOKENS)
    mode: dict[str, Any] = {"type": "enabled", "budget_tokens": budget}
    if _ADAPTIVE.match(request.model):
        mode = {"type": "adaptive", "display": "summarized"}
    elif not _began_with_thinking(turns):
        return {}
    return {"thinking": mode, "max_tokens": request.max_tokens + budget}


def _thinks_unasked(model: str) -> bool:
    return _ADAPTIVE.match(model) is not None and not _QUIET.match(model)


def _began_with_thinking(turns: list[dict[str, Any]]) -> bool:
    """Tell whether the calls that are answered now go back to thinking.

    For the API all calls and results up to the next words of the user are one answer. It refuses a
    budget if that answer did not begin with thinking; later rounds of it need not.
    """
    for prompt, answer, results in zip(turns[-3::-2], turns[-2::-2], turns[::-2], strict=False):
        if results["content"][0]["type"] != "tool_result":
            return True
        spoken = any(block["type"] != "tool_result" for block in prompt["content"])
        if spoken and answer["content"][0]["type"] not in _THOUGHTS:
            return False
    return True


def _turns(request: Request, *, thoughts: bool) -> list[dict[str, Any]]:
    marked = _marked(request)
    whole = _whole_pairs(request.messages)
    turns: list[dict[str, Any]] = []
    for index, message in enumerate(request.messages):
        role = "assistant" if message.role == "assistant" else "user"
        blocks = [
            block
            for part in message.content
            for block in _blocks(part, role)
            if (thoughts or block["type"] not in _THOUGHTS) and _pair(block) in whole
        ]
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


def _pair(block: dict[str, Any]) -> str | None:
    """Return the id that a call at the provider and its result share, ``None`` for other blocks."""
    kind = block["type"]
    if kind in _NEVER_OPAQUE:
        return None
    if kind.endswith("_tool_result"):
        return str(block.get("tool_use_id"))
    return str(block.get("id")) if kind.endswith("_tool_use") else None


def _whole_pairs(messages: list[Message]) -> set[str | None]:
    """Return which pairs are whole: a stream that broke off in between leaves one half."""
    called: set[str | None] = set()
    whole: set[str | None] = {None}
    for message in messages:
        for part in message.content:
            for block in _blocks(part, message.role) if isinstance(part, Opaque) else ():
                pair = _pair(block)
                if block["type"].endswith("_tool_use"):
                    called.add(pair)
                elif pair in called:
                    whole.add(pair)
    return whole


def _mark(blocks: list[dict[str, Any]]) -> None:
    for block in reversed(blocks):
        if block["type"] not in _THOUGHTS:
            block["cache_control"] = _MARK
            return


def _blocks(part: AnyPart, role: str) -> list[dict[str, Any]]:
    """Return the block for a part, none if it is nothing that this API takes."""
    blocks: list[dict[str, Any]] = []
    match part:
        case Text(text=text) if text.strip():
            blocks = [{"type": "text", "text": text}]
        case Thinking(text=text, signature=str(signature)) if role == "assistant" and signature:
            blocks = [{"type": "thinking", "thinking": text, "signature": signature}]
        case Opaque(vendor="anthropic", data={"type": str(kind)}) if role == "assistant":
            blocks = [] if kind in _NEVER_OPAQUE else [dict(part.data)]
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
    content = content or [{"type": "text", "text": NO_OUTPUT}]
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": part.call_id,
        "content": content,
    }
    if part.outcome == "completed":
        return block
    if all(inner["type"] == "text" for inner in content):
        return block | {"is_error": True}
    # An error may hold nothing but text: what went wrong is said in words.
    return block | {"content": [{"type": "text", "text": f"[{part.outcome}]"}, *content]}


def _media(part: Image | File) -> dict[str, Any]:
    kind = "image" if isinstance(part, Image) else "document"
    taken = part.media_type in _IMAGES if kind == "image" else part.media_type == "application/pdf"
    if (text := text_of(part) if isinstance(part, File) else None) is not None:
        source = {"type": "text", "media_type": "text/plain", "data": text}
    elif part.url and part.url.startswith(("https://", "http://")) and (kind == "image" or taken):
        source = {"type": "url", "url": part.url}
    elif part.data and taken:
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    else:
        return {"type": "text", "text": note(part)}
    block: dict[str, Any] = {"type": kind, "source": source}
    if isinstance(part, File):
        block["title"] = part.name
    return block
