"""Qwen Code: ``~/.qwen/projects/<folder>/chats/<session>.jsonl``, one JSON object per line.

Lines form a tree through ``parentUuid``; what they say is Gemini's content (``parts``). A line has
a whole reply, or the result of one call. A compression has the context that it leaves.

Lost: how results were shown, and what the screen counted (``ui_telemetry`` is kept as an event).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.exchange.importers.base import MOST_SNIFFED
from holdfast.exchange.importing.content_blocks import gemini_parts
from holdfast.exchange.importing.items import (
    FOLLOWS,
    Item,
    MessageItem,
    MetaItem,
    RawItem,
    Source,
    SummaryItem,
    UsageItem,
)
from holdfast.exchange.importing.json_fields import count, parse_time, record, records, rows, text
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.model.entry import Usage
from holdfast.model.message import AnyPart, Message, ToolCall, ToolResult

_OUTCOMES = {"error": "failed", "cancelled": "cancelled"}


class QwenCodeImporter:
    """Sessions of Qwen Code."""

    name = "qwen-code"
    title = "Qwen Code"

    def found(self, home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
        """Return the folder of projects."""
        configured = environment.get("QWEN_HOME")
        return [(Path(configured) if configured else home / ".qwen") / "projects"]

    def sniff(self, path: Path, reading: SourceReader) -> bool:
        """Look for lines of a session with parts."""
        for file in islice(reading.files_below(path, ".jsonl"), MOST_SNIFFED):
            for line in reading.first_records(file):
                if "sessionId" in line and rows(record(line, "message"), "parts"):
                    return True
        return False

    def sessions(self, path: Path, reading: SourceReader) -> Iterator[Source]:
        """Yield one session per file; its name is the session's id."""
        for file in reading.files_below(path, ".jsonl"):
            yield reading.source(self.name, file.stem, file)

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Read the lines."""
        chat = _Chat()
        for line in reading.records(source.path):
            yield from chat.take(line)


class _Chat:
    def __init__(self) -> None:
        self._version: str | None = None
        self._has_family = False

    def take(self, line: dict[str, Any]) -> Iterator[Item]:
        """Take one line."""
        uuid, at = text(line, "uuid"), parse_time(line.get("timestamp"))
        parent = (text(line, "parentUuid") or None) if uuid else FOLLOWS
        if self._version is None and uuid:
            yield MetaItem({"workspace": text(line, "cwd"), "provider": "qwen"})
        if uuid and text(line, "version") != self._version:
            self._version = text(line, "version")
            facts = {"agent_version": self._version, "git_branch": text(line, "gitBranch")}
            yield MetaItem(facts)
        kind = text(line, "type")
        if not rows(record(line, "message"), "parts"):
            yield from self._aside(line, kind, uuid, parent, at)
        elif kind == "assistant":
            yield from self._reply(line, uuid, parent, at)
        else:
            yield from _said(line, uuid, parent, at)

    def _aside(
        self, line: dict[str, Any], kind: str, uuid: str, parent: str | None, at: str | None
    ) -> Iterator[Item]:
        """Take a line that is no message: a compression, a title, what the screen counted."""
        payload, subtype = record(line, "systemPayload"), text(line, "subtype")
        history = [_content(each) for each in records(payload, "compressedHistory")]
        if subtype == "chat_compression" and history:
            tokens = count(record(payload, "info"), "originalTokenCount") or None
            yield SummaryItem(history, None, tokens, at, uuid or None, parent)
            return
        if subtype == "custom_title" and text(payload, "customTitle"):
            yield MetaItem({"title": text(payload, "customTitle")})
        name = ".".join(each for each in ("qwen-code", kind, subtype) if each)
        yield RawItem(name, line, at, uuid or None, parent)

    def _reply(
        self, line: dict[str, Any], uuid: str, parent: str | None, at: str | None
    ) -> Iterator[Item]:
        if not self._has_family and uuid:
            self._has_family = True
            yield MetaItem({"family": uuid})
        model = text(line, "model") or None
        said = _content(record(line, "message"), model)
        yield MessageItem(said, at, uuid or None, parent)
        used = record(line, "usageMetadata")
        if used:
            yield UsageItem(_usage(used, model, uuid or None), at)


def _content(content: dict[str, Any], model: str | None = None) -> Message:
    """Return one of Gemini's contents as a message."""
    parts = gemini_parts(rows(content, "parts"))
    if text(content, "role") != "model":
        answers = [part for part in parts if isinstance(part, ToolResult)]
        return Message(role="tool" if answers else "user", content=[*answers] or parts)
    stop = "tools" if any(isinstance(part, ToolCall) for part in parts) else None
    return Message(role="assistant", content=parts, model=model, stop=stop)


def _said(line: dict[str, Any], uuid: str, parent: str | None, at: str | None) -> Iterator[Item]:
    """Yield a prompt, or results of calls."""
    parts = gemini_parts(rows(record(line, "message"), "parts"))
    outcome = _OUTCOMES.get(text(record(line, "toolCallResult"), "status"))
    answers: list[AnyPart] = []
    for part in parts:
        if isinstance(part, ToolResult):
            id = part.call_id or text(record(line, "toolCallResult"), "callId")
            answers.append(
                ToolResult(call_id=id, content=part.content, outcome=outcome or part.outcome)
            )
    rest: list[AnyPart] = [part for part in parts if not isinstance(part, ToolResult)]
    if answers:
        yield MessageItem(Message(role="tool", content=answers), at, uuid or None, parent)
        parent = FOLLOWS
    if rest:
        also = (uuid,) if uuid else ()
        yield MessageItem(Message(role="user", content=rest), at, None, parent, also)


def _usage(used: dict[str, Any], model: str | None, request: str | None) -> Usage:
    prompt, cached = count(used, "promptTokenCount"), count(used, "cachedContentTokenCount")
    said, thought = count(used, "candidatesTokenCount"), count(used, "thoughtsTokenCount")
    if count(used, "totalTokenCount") == prompt + said:
        thought = 0  # counted among what was said
    return Usage(
        input=max(0, prompt - cached),
        output=said + thought,
        cost_usd=None,
        cache_read=cached,
        model=model,
        request=request,
    )
