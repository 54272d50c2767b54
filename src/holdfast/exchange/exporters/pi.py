"""A file that pi resumes: put it where ``file_name`` says, below ``~/.pi/agent/sessions``.

Version 3: a line of facts, then entries, each hanging on the one before. Compactions stand where
they were made and name the first entry that they keep.

Lost: system prompts (the agent brings its own), calls that broke off, how a call ended but for
failure, vendors' own blocks, images behind addresses (a note takes their place); attached files
become text, summaries too. A request whose cost is not known costs nothing there.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from holdfast.exchange.exporters.anthropic import arguments
from holdfast.exchange.exporters.openai import words_of
from holdfast.exchange.exporters.portable_json import folder_name, line, uuid_of, words_in
from holdfast.exchange.exporting.transcript import Condensation, Line, Transcript
from holdfast.model.entry import Usage
from holdfast.model.message import AnyPart, Image, Message, Thinking, ToolCall, ToolResult

_SEPARATORS = re.compile(r"[/\\:\x00-\x1f]")
_STOPS = {"end": "stop", "tools": "toolUse", "interrupted": "aborted"}
_APIS = {"anthropic": "anthropic-messages", "openai": "openai-responses"}
_MOST_NAMES = 1000
_KNOWN_STOPS = ("stop", "length", "toolUse", "error", "aborted")


class PiExporter:
    """Sessions of pi."""

    name = "pi"
    title = "pi"

    def file_name(self, transcript: Transcript) -> str:
        """Return folder and name under which the agent looks for it."""
        folder = folder_name(_SEPARATORS.sub("-", _workspace(transcript).lstrip("/\\")))
        at = re.sub(r"[:.]", "-", transcript.started)
        return f"--{folder}--/{at}_{uuid_of(transcript.id)}.jsonl"

    def chunks(self, transcript: Transcript) -> Iterator[bytes]:
        """Yield the lines."""
        writer = _Writer(transcript)
        yield line(
            {
                "type": "session",
                "version": 3,
                "id": uuid_of(transcript.id),
                "timestamp": transcript.started,
                "cwd": _workspace(transcript),
            }
        )
        for item in transcript.items():
            if isinstance(item, Line):
                yield from writer.said(item)
            else:
                yield writer.condensed(item)
        if transcript.fact("title"):
            named = {"name": transcript.fact("title")}
            yield writer.entry("session_info", transcript.updated, named)


def _workspace(transcript: Transcript) -> str:
    return transcript.fact("workspace") or "/"


class _Writer:
    def __init__(self, transcript: Transcript) -> None:
        self._provider = transcript.fact("provider") or "unknown"
        self._model = transcript.fact("model") or "unknown"
        self._count = 0
        self._last: str | None = None
        self._said = array("q")  # the number of each message's entry, and of its line
        self._lines = array("q")
        self._names: dict[str, str] = {}  # of calls that were not answered yet

    def said(self, item: Line) -> Iterator[bytes]:
        """Write a message, if anything of it has a place."""
        message, at = item.message, item.at
        if message.role == "system":
            return
        if item.seq is not None:
            self._said.append(item.seq)
            self._lines.append(self._count + 1)
        if message.role == "tool":
            for part in message.content:
                if isinstance(part, ToolResult):
                    yield self._message(self._result(part), at)
        elif message.role == "assistant":
            reply = self._reply(message, item.usage)
            if reply["content"]:
                yield self._message(reply, at)
        elif content := _content(message.content):
            if message.extra.get("generated") is True:
                shown = {"customType": "holdfast", "content": content, "display": True}
                yield self.entry("custom_message", at, shown)
            else:
                yield self._message({"role": "user", "content": content}, at)

    def _reply(self, message: Message, usage: Usage | None) -> dict[str, Any]:
        content = [block for part in message.content for block in self._block(part)]
        calls = any(block["type"] == "toolCall" for block in content)
        stop = _STOPS.get(message.stop or "", message.stop)
        if stop not in _KNOWN_STOPS:
            stop = "toolUse" if calls else "stop"
        return {
            "role": "assistant",
            "content": content,
            "api": _APIS.get(self._provider, "openai-completions"),
            "provider": self._provider,
            "model": message.model or self._model,
            "usage": _usage(usage or Usage(0, 0, None)),
            "stopReason": stop,
        }

    def _block(self, part: AnyPart) -> list[dict[str, Any]]:
        if isinstance(part, Thinking):
            block: dict[str, Any] = {"type": "thinking", "thinking": part.text}
            if part.signature:
                block["thinkingSignature"] = part.signature
            return [block]
        if isinstance(part, ToolCall) and part.partial is None:
            if len(self._names) < _MOST_NAMES:
                self._names[part.id] = part.name
            named = {"id": part.id, "name": part.name, "arguments": arguments(part)}
            return [{"type": "toolCall", **named}]
        return _content([part])

    def _result(self, part: ToolResult) -> dict[str, Any]:
        return {
            "role": "toolResult",
            "toolCallId": part.call_id,
            "toolName": self._names.pop(part.call_id, "unknown"),
            "content": _content(part.content),
            "isError": part.outcome != "completed",
        }

    def condensed(self, item: Condensation) -> bytes:
        """Return the entry of a compaction."""
        place = bisect_left(self._said, item.keep_from)
        kept = self._lines[place] if place < len(self._lines) else self._count + 1
        about = {
            "summary": words_in(item.summary),
            "firstKeptEntryId": _id(kept),
            "tokensBefore": item.tokens or 0,
        }
        return self.entry("compaction", item.at, about)

    def _message(self, message: dict[str, Any], at: str) -> bytes:
        return self.entry("message", at, {"message": message | {"timestamp": _milliseconds(at)}})

    def entry(self, kind: str, at: str, fields: dict[str, Any]) -> bytes:
        """Return an entry behind the others."""
        self._count += 1
        parent, self._last = self._last, _id(self._count)
        placed = {"id": self._last, "parentId": parent, "timestamp": at}
        return line({"type": kind, **placed, **fields})


def _id(number: int) -> str:
    return f"{number:08x}"


def _milliseconds(at: str) -> int:
    try:
        return int(datetime.fromisoformat(at).timestamp() * 1000)
    except ValueError:
        return 0  # an entry's time is what its journal says


def _content(parts: list[AnyPart]) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, Image) and part.data:
            content.append({"type": "image", "data": part.data, "mimeType": part.media_type})
        elif words := words_of(part):
            content.append({"type": "text", "text": words})
    return content


def _usage(usage: Usage) -> dict[str, Any]:
    whole = usage.input + usage.output + usage.cache_read + usage.cache_write
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    return {
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
        "totalTokens": whole,
        "cost": cost | {"total": usage.cost_usd or 0},
    }
