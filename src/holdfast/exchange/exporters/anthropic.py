"""JSON Lines in the shape of Anthropic's Messages API: a message a line, ``role`` and ``content``.

System prompts stand where they were said, as ``{"role": "system", "content": …}``: the API takes
them as a parameter of its own. Calls and results are blocks; results are the user's.

Lost: title and facts, times, models, usage and cost, compactions, how a reply ended; thinking
without the vendor's signature, calls that broke off, how a call ended but for failure, blocks of
other vendors; a file that holds text is text/plain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.exchange.exporters.portable_json import is_of, line
from holdfast.exchange.exporting.transcript import Transcript
from holdfast.exchange.redaction.messages import text_in
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

# Blocks that parts of ours stand for: as opaque ones they would come back as something else.
_OURS = {"text", "thinking", "tool_use", "tool_result", "image", "document"}


class AnthropicExporter:
    """Messages as Anthropic's API takes them."""

    name = "anthropic"
    title = "messages in Anthropic's shape"

    def file_name(self, transcript: Transcript) -> str:
        """Return the session's id with an ending that tells the shape."""
        return f"{transcript.id}.anthropic.jsonl"

    def chunks(self, transcript: Transcript) -> Iterator[bytes]:
        """Yield the lines."""
        provider = transcript.fact("provider")
        for message in transcript.messages():
            if message.role == "system":
                said: dict[str, Any] = {"role": "system", "content": message.text}
            else:
                role = "assistant" if message.role == "assistant" else "user"
                said = {"role": role, "content": blocks(message, provider)}
            if said["content"]:
                yield line(said)


def blocks(message: Message, provider: str) -> list[dict[str, Any]]:
    """Return a message's content as blocks; those that the API has no place for are left out."""
    if message.role != "assistant":
        return [block for part in message.content for block in _asked(part)]
    own = is_of("anthropic", message, provider)
    return [block for part in message.content for block in _replied(part, own=own)]


def _asked(part: AnyPart) -> list[dict[str, Any]]:
    match part:
        case Text(text=text) if text:
            return [{"type": "text", "text": text}]
        case Image():
            return [_image(part)] if part.data or part.url else []
        case File():
            return [_file(part)]
        case ToolResult():
            return [_result(part)]
        case Opaque(vendor="anthropic"):
            return _opaque(part)
        case _:
            return []


def _replied(part: AnyPart, *, own: bool) -> list[dict[str, Any]]:
    match part:
        case Text(text=text) if text:
            return [{"type": "text", "text": text}]
        case Thinking(text=text, signature=str(signature)) if own and signature:
            return [{"type": "thinking", "thinking": text, "signature": signature}]
        case ToolCall(partial=None):
            return [
                {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments(part)}
            ]
        case Opaque(vendor="anthropic"):
            return _opaque(part)
        case _:
            return []


def arguments(call: ToolCall) -> dict[str, Any]:
    """Return a call's arguments as an object, which is all that vendors take."""
    given = call.arguments
    return given if isinstance(given, dict) else {"arguments": given}


def _opaque(part: Opaque) -> list[dict[str, Any]]:
    data = part.data
    kind = data.get("type") if isinstance(data, dict) else None
    return [data] if isinstance(kind, str) and kind not in _OURS else []


def _result(part: ToolResult) -> dict[str, Any]:
    content = [
        block
        for inner in part.content
        if isinstance(inner, Text | Image | File | Opaque)
        for block in _asked(inner)
    ]
    block = {"type": "tool_result", "tool_use_id": part.call_id, "content": content}
    return block if part.outcome == "completed" else block | {"is_error": True}


def _image(part: Image) -> dict[str, Any]:
    if part.data:
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    else:
        source = {"type": "url", "url": part.url or ""}
    return {"type": "image", "source": source}


def _file(part: File) -> dict[str, Any]:
    text = text_in(part)
    if text is not None:
        source = {"type": "text", "media_type": "text/plain", "data": text}
    elif part.data:
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    elif part.url:
        source = {"type": "url", "url": part.url}
    else:
        return {"type": "text", "text": f"[{part.name}, {part.media_type}]"}
    return {"type": "document", "source": source, "title": part.name}
