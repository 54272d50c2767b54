"""Cline: ``~/.cline/data/sessions/<id>/<id>.messages.json``, one document with all messages.

Blocks are Anthropic's; a result's content is a list of what each command came to. ``<id>.json``
beside it has facts about the session.

Lost: the system prompt, which the agent makes for every run; how messages were shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.exchange.importers.base import MOST_SNIFFED, document_beside
from holdfast.exchange.importing.content_blocks import anthropic_parts, result
from holdfast.exchange.importing.items import (
    Item,
    MessageItem,
    MetaItem,
    RawItem,
    Source,
    UsageItem,
)
from holdfast.exchange.importing.json_fields import amount, count, parse_time, record, records, text
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.model.codec import dumps
from holdfast.model.entry import Usage
from holdfast.model.message import AnyPart, Message, Text, ToolCall, ToolResult

_ENDING = ".messages.json"
_WRAPPED = re.compile(r"\s*<user_input[^>]*>(.*)</user_input>\s*", re.DOTALL)


class ClineImporter:
    """Sessions of Cline's command line."""

    name = "cline"
    title = "Cline"

    def found(self, home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
        """Return the folder of sessions."""
        configured = environment.get("CLINE_DATA_DIR")
        return [(Path(configured) if configured else home / ".cline" / "data") / "sessions"]

    def sniff(self, path: Path, reading: SourceReader) -> bool:
        """Look at the beginning of a document of messages."""
        files = islice(reading.files_below(path, _ENDING), MOST_SNIFFED)
        return any(b'"messages"' in reading.head(file) for file in files)

    def sessions(self, path: Path, reading: SourceReader) -> Iterator[Source]:
        """Yield one session per document; its name is the session's id."""
        for file in reading.files_below(path, _ENDING):
            yield reading.source(self.name, _id(file), file, _facts_of(file))

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Read the facts, then the messages."""
        path = Path(source.path)
        facts = document_beside(_facts_of(path), reading)
        yield MetaItem(
            {
                "title": text(record(facts, "metadata"), "title") or text(facts, "prompt"),
                "workspace": text(facts, "cwd") or text(facts, "workspace_root"),
                "provider": text(facts, "provider"),
                "model": text(facts, "model"),
            },
            parse_time(text(facts, "started_at")),
        )
        for told in records(reading.document(path), "messages"):
            yield from _said(told)


def _id(file: Path) -> str:
    return file.name.removesuffix(_ENDING)


def _facts_of(file: Path) -> Path:
    return file.with_name(f"{_id(file)}.json")


def _said(told: dict[str, Any]) -> Iterator[Item]:
    role, at = text(told, "role"), parse_time(told.get("ts"))
    parts = [_part(block) for block in anthropic_parts(told.get("content"))]
    if role == "assistant":
        yield from _reply(told, parts, at)
        return
    if role != "user" or not parts:
        yield RawItem("cline.message", told, at)
        return
    blocks = {text(each, "tool_use_id"): each for each in records(told, "content")}
    answers: list[AnyPart] = [
        _answer(part, blocks.get(part.call_id, {}))
        for part in parts
        if isinstance(part, ToolResult)
    ]
    rest: list[AnyPart] = [part for part in parts if not isinstance(part, ToolResult)]
    if answers:
        yield MessageItem(Message(role="tool", content=answers), at)
    if rest:
        yield MessageItem(Message(role="user", content=rest), at)


def _reply(told: dict[str, Any], parts: list[AnyPart], at: str | None) -> Iterator[Item]:
    model = text(record(told, "modelInfo"), "id") or None
    stop = "tools" if any(isinstance(part, ToolCall) for part in parts) else None
    id = text(told, "id") or None
    said = Message(role="assistant", content=parts, model=model, stop=stop, request=id)
    yield MessageItem(said, at)
    metrics = record(told, "metrics")
    if metrics:
        read, written = count(metrics, "cacheReadTokens"), count(metrics, "cacheWriteTokens")
        usage = Usage(
            input=max(0, count(metrics, "inputTokens") - read - written),
            output=count(metrics, "outputTokens"),
            cost_usd=amount(metrics, "cost"),
            cache_read=read,
            cache_write=written,
            model=model,
            request=id,
        )
        yield UsageItem(usage, at)


def _part(part: AnyPart) -> AnyPart:
    """Return a part; what the agent puts around a prompt is taken off."""
    wrapped = _WRAPPED.fullmatch(part.text) if isinstance(part, Text) else None
    return Text(text=wrapped[1]) if wrapped else part


def _answer(part: ToolResult, block: dict[str, Any]) -> ToolResult:
    """Return a result; each command of a call has its own outcome."""
    runs = [each for each in records(block, "content") if "result" in each or "error" in each]
    if not runs:
        return part
    shown: list[AnyPart] = []
    for run in runs:
        output = run.get("result")
        words = output if type(output) is str else dumps(output).decode() if output else ""
        shown.append(Text(text=words or text(run, "error")))
    failed = part.outcome == "failed" or any(run.get("success") is False for run in runs)
    return result(part.call_id, shown, failed=failed)
