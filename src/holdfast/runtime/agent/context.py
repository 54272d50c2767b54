"""What a provider gets to see: the one place where a request is made from a session's messages.

In this order: the system prompt apart; signed thoughts left out that would be refused; calls and
results paired (``pairing``); old tool output cut if it would not fit; images of tools shown where
the provider can see them; user and assistant in turns, the user first and last; cache breakpoints.

The result depends on the messages and the frame alone. As long as neither the frame nor what is cut
changes, what stands in one request stands unchanged in the next: providers charge a tenth for a
prefix that they have seen.

A signed thought may be sent back only to the model that thought it, and newer models refuse it if
anything before it has changed since. So it stays out if another model or nobody knows which thought
it, if the system prompt was recorded anew after it, and if something before it is cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

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
    user,
)
from holdfast.runtime.agent.pairing import paired
from holdfast.runtime.providers.base import Request, ToolSpec

WINDOW_TOKENS = 200_000
CUT_OFF = "[Your answer was cut off here. Go on where it stopped; do not repeat what is there.]"
GO_ON = "[Go on.]"
_EARLIER = "[What was said before this is left out.]"
_FOLLOWS = "[shown below]"
_SHOWN = "[Images and files that the tools above returned:]"
_LEFT_OUT = "\n[… {count:,} characters left out to save room …]\n"
_MEDIA_LEFT_OUT = "[left out to save room]"
_CHARACTERS_PER_TOKEN = 3.5  # on the careful side for English and code
_MEDIA_TOKENS = 1_600
_MESSAGE_TOKENS = 8
_SHORT = 2_000  # characters that a result is cut to when there is no room
_CUTS = 8  # in which the room is made: were it made bit by bit, every request would differ

# Chat Completions has no place for images and files in a tool's result.
_MIRRORS_MEDIA = frozenset({"openai"})
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})


class Frame(Struct, frozen=True):
    """All that a request has beside the messages."""

    provider: str
    model: str
    system: str | None = None
    tools: list[ToolSpec] = field(default_factory=list)
    max_tokens: int = 8192
    thinking: int = 0
    window_tokens: int = WINDOW_TOKENS


def build(messages: Iterable[Message], frame: Frame) -> Request:
    """Return the request for what has been said so far."""
    sent = paired(_with_valid_thoughts(messages, frame))
    sent = _fitting(sent, frame)
    if frame.provider in _MIRRORS_MEDIA:
        sent = _mirrored(sent)
    sent = _in_turns(message for message in sent if _says_something(message, frame))
    return Request(
        model=frame.model,
        messages=sent,
        system=frame.system,
        tools=frame.tools,
        cached=_breakpoints(sent),
        max_tokens=frame.max_tokens,
        thinking=frame.thinking,
    )


def system_prompt(messages: Iterable[Message]) -> str | None:
    """Return the system prompt that was recorded last."""
    recorded = None
    for message in messages:
        if message.role == "system":
            recorded = message.text
    return recorded


def estimate_tokens(messages: Iterable[Message]) -> int:
    """Return about how many tokens messages take; rather too many than too few."""
    return sum(_MESSAGE_TOKENS + _weight(message.content) for message in messages)


def _weight(parts: Iterable[AnyPart]) -> int:
    total = 0.0
    for part in parts:
        match part:
            case Text(text=text) | Thinking(text=text):
                total += len(text) / _CHARACTERS_PER_TOKEN
            case Image() | File():
                total += _MEDIA_TOKENS
            case ToolCall():
                total += len(_json(part.arguments)) / _CHARACTERS_PER_TOKEN + _MESSAGE_TOKENS
            case ToolResult(content=content):
                total += _weight(content) + _MESSAGE_TOKENS
            case Opaque(data=data):
                total += len(_json(data)) / _CHARACTERS_PER_TOKEN
    return int(total)


def _json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError):  # such as a lone surrogate: the length is all that is wanted
        return repr(value).encode("utf-8", "replace")


def _with_valid_thoughts(messages: Iterable[Message], frame: Frame) -> list[Message]:
    """Return what was said, with the thoughts of this model under the present system prompt."""
    said: list[Message] = []
    for message in messages:
        if message.role == "system":
            said = [_without_thoughts(earlier) for earlier in said]
        elif message.model == frame.model:
            said.append(message)
        else:
            said.append(_without_thoughts(message))
    return said


def _without_thoughts(message: Message) -> Message:
    kept = [part for part in message.content if not _is_signed_thought(part)]
    return message if len(kept) == len(message.content) else replace(message, content=kept)


def _is_signed_thought(part: AnyPart) -> bool:
    if isinstance(part, Opaque):
        return isinstance(part.data, dict) and part.data.get("type") in _THOUGHTS
    return isinstance(part, Thinking) and part.signature is not None


def _says_something(message: Message, frame: Frame) -> bool:
    """Tell whether anything in a message is sent to this provider, beside thoughts."""
    answers = message.role == "assistant"
    for part in message.content:
        match part:
            case Text(text=text):
                says = bool(text.strip())
            case ToolCall():
                says = answers
            case Opaque(vendor=vendor):
                says = answers and vendor == frame.provider and not _is_signed_thought(part)
            case ToolResult() | Image() | File():
                says = not answers
            case _:
                says = False
        if says:
            return True
    return False


def _fitting(messages: list[Message], frame: Frame) -> list[Message]:
    """Cut tool output, the oldest first, until the request fits; nothing else is ever cut."""
    room = frame.window_tokens - frame.max_tokens - frame.thinking
    room -= int(len(frame.system or "") / _CHARACTERS_PER_TOKEN)
    surplus = estimate_tokens(messages) - room
    step = max(room // _CUTS, 1)
    surplus = -(-surplus // step) * step
    fitting: list[Message] = []
    changed = False
    for message in messages:
        sent = _without_thoughts(message) if changed else message
        if surplus > 0 and message.role == "tool":
            sent = replace(message, content=[_cut(part) for part in message.content])
            surplus -= _weight(message.content) - _weight(sent.content)
            changed = changed or sent != message
        fitting.append(sent)
    return fitting


def _cut(part: AnyPart) -> AnyPart:
    if isinstance(part, ToolResult):
        return replace(part, content=[_cut(inner) for inner in part.content])
    if isinstance(part, Text) and len(part.text) > 2 * _SHORT:
        half = _SHORT // 2
        note = _LEFT_OUT.format(count=len(part.text) - 2 * half)
        return replace(part, text=part.text[:half] + note + part.text[-half:])
    if isinstance(part, Image | File):
        return Text(text=_MEDIA_LEFT_OUT)
    return part


def _mirrored(messages: list[Message]) -> list[Message]:
    """Show images and files of tool results in a user message behind them."""
    shown: list[Message] = []
    for message in messages:
        media: list[AnyPart] = []
        content = [_without_media(part, media) for part in message.content]
        shown.append(replace(message, content=content) if media else message)
        if media:
            shown.append(user([Text(text=_SHOWN), *media]))
    return shown


def _without_media(part: AnyPart, media: list[AnyPart]) -> AnyPart:
    """Return a result with its images and files moved to ``media``."""
    if not isinstance(part, ToolResult):
        return part
    content: list[AnyPart] = []
    for inner in part.content:
        if isinstance(inner, Image | File):
            media.append(inner)
            content.append(Text(text=_FOLLOWS))
        else:
            content.append(inner)
    return replace(part, content=content)


def _in_turns(messages: Iterable[Message]) -> list[Message]:
    """Put a word of the user's before, between and behind messages of the assistant's."""
    turns: list[Message] = []
    for message in messages:
        if message.role == "assistant" and not (turns and turns[-1].role != "assistant"):
            turns.append(user(_urging(turns[-1]) if turns else _EARLIER))
        turns.append(message)
    if not turns:
        return [user(GO_ON)]
    if turns[-1].role == "assistant":
        turns.append(user(_urging(turns[-1])))
    return turns


def _urging(message: Message) -> str:
    return CUT_OFF if message.stop in ("interrupted", "length") else GO_ON


def _breakpoints(messages: list[Message]) -> tuple[int, ...]:
    """Return where caches may end: at the last message, and where the request before ended."""
    last = len(messages) - 1
    answers = [n for n, message in enumerate(messages) if message.role == "assistant"]
    return tuple(sorted({answers[-1] - 1, last})) if answers else (last,)
