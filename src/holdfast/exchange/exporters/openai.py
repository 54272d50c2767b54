"""JSON Lines in the shape of OpenAI's Chat Completions: a message a line.

Each result is a line of its own. What a model thought stands in ``reasoning_content``, as servers
of this kind write it.

Lost: title and facts, times, models, usage and cost, compactions, how a reply ended; signatures,
calls that broke off, how a call ended, images and files within results (a note takes their place),
blocks of vendors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.exchange.exporters.portable_json import data_url, inside, line
from holdfast.exchange.exporting.transcript import Transcript
from holdfast.exchange.redaction.messages import text_in
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


class OpenAIExporter:
    """Messages as Chat Completions take them."""

    name = "openai"
    title = "messages in OpenAI's shape"

    def file_name(self, transcript: Transcript) -> str:
        """Return the session's id with an ending that tells the shape."""
        return f"{transcript.id}.openai.jsonl"

    def chunks(self, transcript: Transcript) -> Iterator[bytes]:
        """Yield the lines."""
        for message in transcript.messages():
            for said in _said(message):
                yield line(said)


def _said(message: Message) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        for part in message.content:
            if isinstance(part, ToolResult):
                words = "\n".join(words_of(inner) for inner in part.content)
                yield {"role": "tool", "tool_call_id": part.call_id, "content": words}
    elif message.role == "assistant":
        reply = _reply(message)
        if len(reply) > 1:
            yield reply
    else:
        content = [block for part in message.content for block in _block(part)]
        if content:
            alone = content[0] if len(content) == 1 else {}
            yield {"role": message.role, "content": alone.get("text") or content}


def _reply(message: Message) -> dict[str, Any]:
    reply: dict[str, Any] = {"role": "assistant"}
    thoughts = "\n".join(part.text for part in message.content if isinstance(part, Thinking))
    calls = [_call(p) for p in message.content if isinstance(p, ToolCall) and p.partial is None]
    if message.text or calls:
        reply["content"] = message.text or None
    if thoughts:
        reply["reasoning_content"] = thoughts
    if calls:
        reply["tool_calls"] = calls
    return reply


def _call(part: ToolCall) -> dict[str, Any]:
    function = {"name": part.name, "arguments": inside(part.arguments)}
    return {"id": part.id, "type": "function", "function": function}


def _block(part: AnyPart) -> Iterator[dict[str, Any]]:
    if isinstance(part, Image) and (part.data or part.url):
        yield {"type": "image_url", "image_url": {"url": data_url(part)}}
    elif isinstance(part, File) and part.data and text_in(part) is None:
        held = {"filename": part.name, "file_data": data_url(part)}
        yield {"type": "file", "file": held}
    elif words := words_of(part):
        yield {"type": "text", "text": words}


def words_of(part: AnyPart) -> str:
    """Return a part in words, for a format that has no better place for it."""
    match part:
        case Text():
            return part.text
        case File():
            text = text_in(part)
            where = f" at {part.url}" if part.url else ""
            note = f"[{part.name}, {part.media_type}{where}]"
            return note if text is None else f"{note}\n{text}"
        case Image():
            return f"[image, {part.media_type}{f' at {part.url}' if part.url else ''}]"
        case _:
            return ""
