"""ggcode: ``~/.ggcode/sessions/<id>.jsonl``, one record a line.

A compaction is a ``checkpoint``: older ones hold the messages that go on in the place of all; newer
ones name the message that sums up, which stands among the others, and the context goes on from it.
A line of a message that was there already (a version wrote all of them again at each start) is
reported and left out.

Lost: settings of the screen, the preview, and ``index.json``, which repeats the facts. What the
agent itself reckoned to have spent (``cost``) is kept as it is, beside what requests used.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.exchange.importers.base import MOST_SNIFFED
from holdfast.exchange.importing.content_blocks import call_of, result
from holdfast.exchange.importing.items import (
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
from holdfast.model.message import AnyPart, Image, Message, Opaque, Text, Thinking, ToolResult

_MOST_REMEMBERED = 50_000
_NO_TITLE = "New session"
_IMAGE = "image/png"
_ROLES = frozenset({"user", "assistant", "system", "tool"})
_KINDS = frozenset({"meta", "message", "checkpoint", "usage", "metric", "cost", "tunnel_event"})


class GgcodeImporter:
    """Sessions of ggcode."""

    name = "ggcode"
    title = "ggcode"

    def found(self, home: Path, environment: Mapping[str, str]) -> Iterable[Path]:  # noqa: ARG002  of the protocol; ggcode's folder cannot be moved
        """Return the folder of sessions."""
        return [home / ".ggcode" / "sessions"]

    def sniff(self, path: Path, reading: SourceReader) -> bool:
        """Look for records that name their session."""
        for file in islice(reading.files_below(path, ".jsonl"), MOST_SNIFFED):
            for line in reading.first_records(file):
                if "session_id" in line and text(line, "type") in _KINDS:
                    return True
        return False

    def sessions(self, path: Path, reading: SourceReader) -> Iterator[Source]:
        """Yield one session a file; its name is the session's id."""
        for file in reading.files_below(path, ".jsonl"):
            yield reading.source(self.name, file.stem, file)

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Read the lines."""
        session = _Session()
        for line in reading.records(source.path):
            yield from session.take(line, reading)


class _Session:
    def __init__(self) -> None:
        self._model: str | None = None
        self._complete: bool | None = None
        self._ids: OrderedDict[str, None] = OrderedDict()

    def take(self, line: dict[str, Any], reading: SourceReader) -> Iterator[Item]:
        """Take one line."""
        kind, at = text(line, "type"), parse_time(line.get("timestamp"))
        if kind == "meta":
            yield self._about(line)
        elif kind == "message":
            yield from self._said(line, at, reading)
        elif kind == "checkpoint":
            yield self._checkpoint(line, at)
        elif kind == "usage" and record(line, "usage_entry"):
            yield self._spent(record(line, "usage_entry"))
        elif kind == "tunnel_event":
            data = record(line, "tunnel_event") or line
            yield RawItem("ggcode.tunnel_event", data, at, complete=self._complete)
        else:
            yield RawItem(f"ggcode.{kind}" if kind else "ggcode", line, at)

    def _about(self, line: dict[str, Any]) -> MetaItem:
        self._model = text(line, "model") or self._model
        complete = line.get("tunnel_events_complete")
        if type(complete) is bool:
            self._complete = complete
        title = text(line, "title")
        return MetaItem(
            {
                "title": None if title == _NO_TITLE else title,
                "workspace": text(line, "workspace"),
                "provider": text(line, "vendor"),
                "endpoint": text(line, "endpoint"),
                "model": text(line, "model"),
                "permission_mode": text(line, "permission_mode"),
            },
            parse_time(line.get("created_at")),
        )

    def _said(self, line: dict[str, Any], at: str | None, reading: SourceReader) -> Iterator[Item]:
        told = record(line, "message")
        messages, id = self._messages(told), text(told, "id")
        if not messages:
            yield RawItem("ggcode.message", line, at)
            return
        if id in self._ids:
            reading.report(f"repeats the message {id}")
            return
        if id:
            self._ids[id] = None
            if len(self._ids) > _MOST_REMEMBERED:
                self._ids.popitem(last=False)
        for number, message in enumerate(messages):
            yield MessageItem(message, at, id if id and number == 0 else None)

    def _messages(self, told: dict[str, Any]) -> list[Message]:
        """Return the message; results of tools, which stand in a user's, are messages of a tool."""
        role = text(told, "role")
        if role not in _ROLES:
            return []
        parts = [part for block in rows(told, "content") for part in _parts(block)]
        results: list[AnyPart] = [part for part in parts if isinstance(part, ToolResult)]
        rest: list[AnyPart] = [part for part in parts if not isinstance(part, ToolResult)]
        said = [Message(role="tool", content=results)] if results else []
        if rest or not results:
            model = self._model if role == "assistant" else None
            said.append(Message(role=role, content=rest, model=model))
        return said

    def _checkpoint(self, line: dict[str, Any], at: str | None) -> Item:
        tokens = count(line, "checkpoint_tokens") or None
        told = records(line, "checkpoint_messages")
        summary = [message for each in told for message in self._messages(each)]
        if summary:
            return SummaryItem(summary, tokens=tokens, at=at)
        id = text(line, "checkpoint_summary_msg_id")
        if id in self._ids:
            return SummaryItem([], id, tokens, at)
        return RawItem("ggcode.checkpoint", line, at)

    def _spent(self, entry: dict[str, Any]) -> UsageItem:
        usage = record(entry, "usage")
        fresh, total = count(usage, "input_tokens"), count(usage, "prompt_tokens_total")
        read, written = count(usage, "cache_read_tokens"), count(usage, "cache_write_tokens")
        if total:  # some vendors count what was cached among the input
            fresh = min(fresh, max(0, total - read - written))
        model = text(entry, "model") or self._model
        spent = Usage(fresh, count(usage, "output_tokens"), None, read, written, model=model)
        return UsageItem(spent, parse_time(entry.get("timestamp")))


def _parts(block: Any) -> list[AnyPart]:
    parts: list[AnyPart] = []
    reasoning, signature = text(block, "reasoning_content"), text(block, "thinking_signature")
    if reasoning or signature:
        parts.append(Thinking(text=reasoning, signature=signature or None))
    if text(block, "thinking_data"):
        hidden = {"type": "redacted_thinking", "data": text(block, "thinking_data")}
        parts.append(Opaque(vendor="anthropic", data=hidden))
    kind = text(block, "type")
    if kind == "text":
        if text(block, "text") or not parts:
            parts.append(Text(text=text(block, "text")))
    elif kind == "tool_use":
        name = text(block, "tool_name")
        parts.append(call_of(text(block, "tool_id"), name, block.get("input")))
    elif kind == "tool_result":
        parts.append(_result(block))
    elif kind == "image":
        media = text(block, "image_mime") or _IMAGE
        parts.append(Image(media_type=media, data=text(block, "image_data")))
    elif not parts:
        parts.append(Opaque(vendor="ggcode", data=block))
    return parts


def _result(block: dict[str, Any]) -> ToolResult:
    output = text(block, "output")
    shown: list[AnyPart] = [Text(text=output)] if output else []
    shown += [
        Image(media_type=text(image, "mime") or _IMAGE, data=text(image, "base64"))
        for image in records(block, "images")
    ]
    return result(text(block, "tool_id"), shown, failed=block.get("is_error") is True)
