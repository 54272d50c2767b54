"""Content as the big vendors write it, as parts of ours: what several importers have in common.

A block that is not understood becomes an ``Opaque`` part: it is kept, and nobody sends it.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from holdfast.exchange.importing.json_fields import parsed, record, records, rows, text
from holdfast.model.codec import dumps
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

_IMAGE = "image/png"  # where nobody says what kind of image it is


def anthropic_parts(content: Any) -> list[AnyPart]:
    """Return the parts of an Anthropic message: text, or a list of blocks."""
    if type(content) is str:
        return [Text(text=content)] if content else []
    if type(content) is not list:
        return []
    return [_anthropic_part(block) for block in content]


def _anthropic_part(block: Any) -> AnyPart:  # noqa: PLR0911  one return a kind of block
    kind = text(block, "type")
    if kind == "text":
        return Text(text=text(block, "text"))
    if kind == "thinking":
        return Thinking(text=text(block, "thinking"), signature=text(block, "signature") or None)
    if kind == "tool_use":
        arguments = block.get("input", {})
        return ToolCall(id=text(block, "id"), name=text(block, "name"), arguments=arguments)
    if kind == "tool_result":
        return result(
            text(block, "tool_use_id"),
            anthropic_parts(block.get("content")),
            failed=block.get("is_error") is True,
        )
    if kind in ("image", "document"):
        return _anthropic_media(kind, block)
    if type(block) is str:
        return Text(text=block)
    return Opaque(vendor="anthropic", data=block)


def _anthropic_media(kind: str, block: dict[str, Any]) -> AnyPart:
    source = record(block, "source")
    data, url = text(source, "data"), text(source, "url") or None
    if not data and url is None:
        return Opaque(vendor="anthropic", data=block)
    if kind == "image":
        return Image(media_type=text(source, "media_type") or _IMAGE, data=data, url=url)
    name, media = text(block, "title") or "document", text(source, "media_type") or "text/plain"
    if text(source, "type") == "text":
        data = b64encode(data.encode("utf-8", "surrogatepass")).decode()
    return File(name=name, media_type=media, data=data, url=url)


def result(call_id: str, parts: list[AnyPart], *, failed: bool = False) -> ToolResult:
    """Return the result of a call."""
    return ToolResult(call_id=call_id, content=parts, outcome="failed" if failed else "completed")


def openai_parts(content: Any) -> list[AnyPart]:
    """Return the parts of a Chat Completions or Responses message's ``content``."""
    if type(content) is str:
        return [Text(text=content)] if content else []
    if type(content) is not list:
        return []
    return [_openai_part(block) for block in content]


def _openai_part(block: Any) -> AnyPart:
    kind = text(block, "type")
    if kind in ("text", "input_text", "output_text", "refusal", "summary_text"):
        return Text(text=text(block, "text") or text(block, "refusal"))
    if kind in ("image_url", "input_image"):
        url = block.get("image_url")
        return image_at(text(url, "url") if type(url) is dict else url)
    if type(block) is str:
        return Text(text=block)
    return Opaque(vendor="openai", data=block)


def image_at(url: Any) -> AnyPart:
    """Return the image behind a URL; a ``data:`` URL has it inside."""
    if type(url) is not str:
        return Opaque(vendor="openai", data={"image_url": url})
    head, comma, data = url.partition(",")
    if head.startswith("data:") and head.endswith(";base64") and comma:
        return Image(media_type=head[5:-7] or _IMAGE, data=data)
    return Image(media_type=_IMAGE, url=url)


def openai_message(line: dict[str, Any], model: str | None = None) -> Message | None:
    """Return a Chat Completions message, ``None`` if it is none.

    Reasoning stands in ``reasoning_content``; calls may be written with or without ``function``.
    """
    role = text(line, "role")
    parts = openai_parts(line.get("content"))
    if role == "tool":
        failed = line.get("is_error") is True
        answer = result(text(line, "tool_call_id"), parts, failed=failed)
        return Message(role="tool", content=[answer])
    if role in ("user", "system", "developer"):
        return Message(role="user" if role == "user" else "system", content=parts)
    if role != "assistant":
        return None
    reasoning = text(line, "reasoning_content")
    if reasoning:
        parts.insert(0, Thinking(text=reasoning))
    parts += [openai_call(call) for call in records(line, "tool_calls")]
    return Message(role="assistant", content=parts, model=text(line, "model") or model)


def openai_call(call: dict[str, Any]) -> ToolCall:
    """Return a tool call of a Chat Completions message."""
    function = record(call, "function") or call
    return call_of(text(call, "id"), text(function, "name"), function.get("arguments"))


def gemini_parts(content: list[Any]) -> list[AnyPart]:
    """Return the parts of one of Gemini's contents."""
    return [_gemini_part(part) for part in content]


def _gemini_part(part: Any) -> AnyPart:  # noqa: PLR0911  one return per kind of part
    if type(part) is str:
        return Text(text=part)
    if type(part) is dict and "text" in part:
        words = text(part, "text")
        return Thinking(text=words) if part.get("thought") is True else Text(text=words)
    inline, response = record(part, "inlineData"), record(part, "functionResponse")
    call = record(part, "functionCall")
    if call:
        return call_of(text(call, "id"), text(call, "name"), call.get("args"))
    if text(inline, "data"):
        media = text(inline, "mimeType") or _IMAGE
        if media.startswith("image/"):
            return Image(media_type=media, data=text(inline, "data"))
        return File(name="file", media_type=media, data=text(inline, "data"))
    if response:
        said = record(response, "response")
        words = text(said, "output") or text(said, "error") or dumps(said).decode()
        failed = "error" in said
        return result(text(response, "id"), [Text(text=words)], failed=failed)
    return Opaque(vendor="google", data=part)


def call_of(id: str, name: str, arguments: Any) -> ToolCall:
    """Return a tool call whose arguments may be JSON in a string.

    A string that is not whole JSON is a call that broke off: it is kept, and never sent.
    """
    value = parsed({} if arguments is None else arguments)
    if type(value) is str and value == arguments:
        return ToolCall(id=id, name=name, arguments={}, partial=value)
    return ToolCall(id=id, name=name, arguments=value)


def joined(value: Any, name: str) -> str:
    """Return a field that is text, or a list of texts, as one text."""
    found = text(value, name)
    return found or "\n".join(each for each in rows(value, name) if type(each) is str)
