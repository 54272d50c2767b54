"""How much of a conversation an export shows.

messages     what people and models said to each other, and attachments
tools        also calls and what came of them, long ones shortened
everything   all of it: thinking, system prompts, vendors' own blocks, nothing shortened
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.errors import UsageError
from holdfast.model.message import AnyPart, File, Image, Message, Text, ToolCall, ToolResult

MESSAGES, TOOLS, EVERYTHING = "messages", "tools", "everything"
DEPTHS = (MESSAGES, TOOLS, EVERYTHING)
LONGEST_SHOWN_CHARACTERS = 4000
MOST_SHOWN_LINES = 60
_SAID = (Text, Image, File)


def check_depth(depth: str) -> str:
    """Return ``depth`` if it is one, else raise ``UsageError``."""
    if depth not in DEPTHS:
        raise UsageError(f"{depth!r} is not a depth. Use {', '.join(DEPTHS)}.")
    return depth


def selected(message: Message, depth: str) -> Message | None:
    """Return the parts of a message that a depth shows, ``None`` if there is none."""
    if depth == EVERYTHING:
        return message
    if message.role == "system" or (depth == MESSAGES and message.role == "tool"):
        return None
    shown = _SAID if depth == MESSAGES else (*_SAID, ToolCall, ToolResult)
    kept = [part for part in message.content if isinstance(part, shown)]
    return msgspec.structs.replace(message, content=kept) if kept else None


def abridged(message: Message, depth: str) -> Message:
    """Return a message with long calls and results shortened, where a depth wants that."""
    if depth != TOOLS or message.role not in ("assistant", "tool"):
        return message
    content = [
        _shortened(part) if isinstance(part, ToolCall | ToolResult) else part
        for part in message.content
    ]
    return msgspec.structs.replace(message, content=content)


def _shortened(part: ToolCall | ToolResult) -> AnyPart:
    if isinstance(part, ToolCall):
        partial = None if part.partial is None else shortened(part.partial)
        arguments = _shortened_value(part.arguments)
        return msgspec.structs.replace(part, arguments=arguments, partial=partial)
    content: list[AnyPart] = [
        msgspec.structs.replace(inner, text=shortened(inner.text))
        if isinstance(inner, Text)
        else inner
        for inner in part.content
        if isinstance(inner, _SAID)
    ]
    return msgspec.structs.replace(part, content=content)


def _shortened_value(value: Any) -> Any:
    if isinstance(value, str):
        return shortened(value)
    if isinstance(value, dict):
        return {key: _shortened_value(held) for key, held in value.items()}
    if isinstance(value, list):
        return [_shortened_value(each) for each in value]
    return value


def shortened(text: str) -> str:
    """Return the beginning of a text that is long, with a note of how much is left out."""
    lines = text.split("\n", MOST_SHOWN_LINES)
    shown = "\n".join(lines[:MOST_SHOWN_LINES])[:LONGEST_SHOWN_CHARACTERS]
    left = len(text) - len(shown)
    return f"{shown}\n… ({left} more characters)" if left > 0 else text
