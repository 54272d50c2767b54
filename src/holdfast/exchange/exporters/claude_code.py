"""A file that Claude Code resumes: put it where ``file_name`` says, below ``~/.claude/projects``.

One line a message, each hanging on the one before. A compaction becomes a boundary with its summary
where the kept messages begin, so that the context is the same.

Lost: system prompts (the agent brings its own), thinking that Anthropic did not sign, calls that
broke off, how a call ended but for failure, compactions before the last, prices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from holdfast.exchange.exporters.anthropic import blocks
from holdfast.exchange.exporters.portable_json import folder_name, line, uuid_of, words_in
from holdfast.exchange.exporting.transcript import Condensation, Line, Transcript
from holdfast.model.entry import Usage
from holdfast.model.message import Message

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9]")
_STOPS = {"end": "end_turn", "tools": "tool_use", "length": "max_tokens"}
_VERSION = "2.0.0"  # of the agent whose lines these could be
_NO_MODEL = "<synthetic>"  # what the agent itself writes where no model spoke
_NO_SUMMARY = "Earlier messages of this conversation were left out."


class ClaudeCodeExporter:
    """Sessions of Claude Code."""

    name = "claude-code"
    title = "Claude Code"

    def file_name(self, transcript: Transcript) -> str:
        """Return folder and name under which the agent looks for it."""
        folder = folder_name(_NOT_PLAIN.sub("-", _workspace(transcript)))
        return f"{folder}/{uuid_of(transcript.id)}.jsonl"

    def chunks(self, transcript: Transcript) -> Iterator[bytes]:
        """Yield the lines."""
        writer = _Writer(transcript)
        for item in transcript.as_seen():
            if isinstance(item, Line):
                yield from writer.said(item)
            else:
                yield from writer.condensed(item)
        if transcript.fact("title"):
            named = {"customTitle": transcript.fact("title"), "sessionId": writer.session}
            yield line({"type": "custom-title", **named})


def _workspace(transcript: Transcript) -> str:
    return transcript.fact("workspace") or "/"


class _Writer:
    def __init__(self, transcript: Transcript) -> None:
        self.session = uuid_of(transcript.id)
        self._provider = transcript.fact("provider")
        self._where = {
            "isSidechain": False,
            "userType": "external",
            "cwd": _workspace(transcript),
            "sessionId": self.session,
            "version": transcript.fact("agent_version") or _VERSION,
            "gitBranch": transcript.fact("git_branch"),
        }
        self._last: str | None = None
        self._requests: set[str] = set()
        self._count = 0

    def said(self, item: Line) -> Iterator[bytes]:
        """Write a message, if anything of it has a place."""
        message = item.message
        content: Any = blocks(message, self._provider)
        if message.role == "system" or not content:
            return
        if message.role == "assistant":
            reply = self._reply(message, content, item.usage)
            body: dict[str, Any] = {"type": "assistant", "message": reply}
        else:
            if len(content) == 1 and content[0]["type"] == "text":
                content = content[0]["text"]
            body = {"type": "user", "message": {"role": "user", "content": content}}
            if message.extra.get("generated") is True:
                body["isMeta"] = True
        yield self._line(body, item.at, self._last)

    def _reply(
        self, message: Message, content: list[dict[str, Any]], usage: Usage | None
    ) -> dict[str, Any]:
        request = message.request
        if not request or request in self._requests:  # lines of one id are read as one reply
            request = f"msg_{uuid_of(self.session, self._count).replace('-', '')[:24]}"
        self._requests.add(request)
        reply: dict[str, Any] = {
            "id": request,
            "type": "message",
            "role": "assistant",
            "model": message.model or _NO_MODEL,
            "content": content,
            "stop_reason": _STOPS.get(message.stop or "", message.stop),
            "stop_sequence": None,
        }
        if usage is not None:
            reply["usage"] = {
                "input_tokens": usage.input,
                "output_tokens": usage.output,
                "cache_read_input_tokens": usage.cache_read,
                "cache_creation_input_tokens": usage.cache_write,
            }
        return reply

    def condensed(self, item: Condensation) -> Iterator[bytes]:
        """Write the boundary of a compaction, and the summary behind it."""
        boundary = {
            "type": "system",
            "subtype": "compact_boundary",
            "logicalParentUuid": self._last,
            "content": "Conversation compacted",
            "isMeta": False,
            "level": "info",
            "compactMetadata": {"trigger": "manual", "preTokens": item.tokens or 0},
        }
        yield self._line(boundary, item.at, None)
        words = words_in(item.summary) or _NO_SUMMARY
        summary = {"type": "user", "message": {"role": "user", "content": words}}
        flags = {"isCompactSummary": True, "isVisibleInTranscriptOnly": True}
        yield self._line(summary | flags, item.at, self._last)

    def _line(self, body: dict[str, Any], at: str, parent: str | None) -> bytes:
        self._count += 1
        self._last = uuid_of(self.session, "line", self._count)
        own = {"uuid": self._last, "timestamp": at}
        return line({"parentUuid": parent, **self._where, **body, **own})
