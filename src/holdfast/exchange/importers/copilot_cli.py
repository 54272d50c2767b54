"""GitHub Copilot CLI: ``~/.copilot/session-state/<session>/events.jsonl``.

One event per line, each hanging on the one before (``parentId``). A reply is one event with all its
calls; a result is ``tool.execution_complete``. Facts about the session are in ``workspace.yaml``
beside it. What requests cost is ``session.usage_record``; totals at the end repeat it.

Lost: what the agent adds to a prompt (``transformedContent``), the beginning of tools, which
repeats the call, and prices, which are counted in premium requests.
"""

from __future__ import annotations

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
from holdfast.exchange.importing.json_fields import count, parse_time, record, records, text
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.model.entry import Usage
from holdfast.model.message import AnyPart, Message, Text, Thinking

_EVENTS = "events.jsonl"
_FACTS = "workspace.yaml"
_LONGEST_FACTS_BYTES = 64 * 1024


class CopilotCliImporter:
    """Sessions of GitHub Copilot CLI."""

    name = "copilot-cli"
    title = "GitHub Copilot CLI"

    def found(self, home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
        """Return the folder of sessions."""
        configured = environment.get("COPILOT_HOME")
        return [(Path(configured) if configured else home / ".copilot") / "session-state"]

    def sniff(self, path: Path, reading: SourceReader) -> bool:
        """Look for the event that begins a session, or for a message."""
        for file in islice(_files(path, reading), MOST_SNIFFED):
            for line in reading.first_records(file):
                data = record(line, "data")
                if line.get("type") == "session.start" and text(data, "sessionId"):
                    return True
                if line.get("type") in ("user.message", "assistant.message") and data:
                    return True
        return False

    def sessions(self, path: Path, reading: SourceReader) -> Iterator[Source]:
        """Yield one session per folder; its name is the session's id."""
        for file in _files(path, reading):
            id = file.parent.name if file.name == _EVENTS else file.stem
            yield reading.source(self.name, id, file, file.with_name(_FACTS))

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Read the facts, then the events."""
        facts = _facts(reading.head(Path(source.path).with_name(_FACTS), _LONGEST_FACTS_BYTES))
        about = {"title": facts.get("name"), "workspace": facts.get("cwd")}
        yield MetaItem(about, parse_time(facts.get("created_at")))
        chat = _Chat()
        for line in reading.records(source.path):
            yield from chat.take(line)


def _files(path: Path, reading: SourceReader) -> Iterator[Path]:
    for file in reading.files_below(path, ".jsonl"):
        if file.name == _EVENTS or file == path:
            yield file


def _facts(data: bytes) -> dict[str, str]:
    """Return the plain fields of a YAML file."""
    found: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").split("\n"):
        name, colon, value = line.partition(":")
        if colon and name.isidentifier():
            found[name] = value.strip().strip("\"'")
    return found


class _Chat:
    def __init__(self) -> None:
        self._parents: dict[str, str | None] = {}  # of events that are not kept
        self._system = ""

    def take(self, line: dict[str, Any]) -> Iterator[Item]:
        """Take one event."""
        kind, data = text(line, "type"), record(line, "data")
        id, at = text(line, "id") or None, parse_time(line.get("timestamp"))
        parent = text(line, "parentId") or None
        parent = self._parents.get(parent, parent) if parent else None
        message = None if text(data, "parentToolCallId") else self._message(kind, data)
        if message is not None:
            yield MessageItem(message, at, id, parent)
            return
        summary = text(data, "summaryContent")
        if kind == "session.compaction_complete" and summary:
            said = [Message(role="user", content=[Text(text=summary)])]
            tokens = count(data, "preCompactionTokens") or None
            yield SummaryItem(said, None, tokens, at, id, parent)
            return
        if kind in ("session.usage_record", "tool.execution_start"):
            if id is not None:
                self._parents = {id: parent}  # only what comes next hangs on it
            if kind == "session.usage_record":
                yield from _spent(record(data, "usage"), at, id)
            return
        yield from _about(kind, data)
        yield RawItem(f"copilot-cli.{kind}" if kind else "copilot-cli", line, at, id, parent)

    def _message(self, kind: str, data: dict[str, Any]) -> Message | None:
        if kind == "user.message":
            return Message(role="user", content=[Text(text=text(data, "content"))])
        if kind == "assistant.message":
            return _reply(data)
        if kind == "tool.execution_complete" and text(data, "toolCallId"):
            return Message(role="tool", content=[_answer(data)])
        if kind == "system.message" and text(data, "content") not in ("", self._system):
            self._system = text(data, "content")
            return Message(role="system", content=[Text(text=self._system)])
        return None


def _about(kind: str, data: dict[str, Any]) -> Iterator[Item]:
    if kind == "session.start":
        context = record(data, "context")
        facts = {
            "workspace": text(context, "cwd"),
            "git_branch": text(context, "branch"),
            "agent_version": text(data, "copilotVersion"),
            "model": text(data, "selectedModel"),
            "provider": "github",
        }
        yield MetaItem(facts, parse_time(data.get("startTime")))
    elif kind == "session.title_changed":
        yield MetaItem({"title": text(data, "title")})


def _reply(data: dict[str, Any]) -> Message:
    thought, words = text(data, "reasoningText"), text(data, "content")
    signature = text(data, "reasoningOpaque") or None
    content: list[AnyPart] = []
    if thought or signature:
        content.append(Thinking(text=thought, signature=signature))
    if words:
        content.append(Text(text=words))
    calls = [
        call_of(text(call, "toolCallId"), text(call, "name"), call.get("arguments"))
        for call in records(data, "toolRequests")
    ]
    return Message(
        role="assistant",
        content=[*content, *calls],
        model=text(data, "model") or None,
        stop="tools" if calls else None,
        request=text(data, "messageId") or None,
    )


def _answer(data: dict[str, Any]) -> AnyPart:
    error = record(data, "error")
    words = text(record(data, "result"), "content") or text(error, "message")
    code = record(data, "shellExecution").get("exitCode")
    failed = data.get("success") is False or (type(code) is int and code != 0)
    shown: list[AnyPart] = [Text(text=words)] if words else []
    return result(text(data, "toolCallId"), shown, failed=failed)


def _spent(used: dict[str, Any], at: str | None, id: str | None) -> Iterator[Item]:
    read, written = count(used, "cacheReadTokens"), count(used, "cacheWriteTokens")
    if not used:
        return
    usage = Usage(
        input=max(0, count(used, "inputTokens") - read - written),
        output=count(used, "outputTokens"),
        cost_usd=None,
        cache_read=read,
        cache_write=written,
        model=text(used, "model") or None,
        request=text(used, "apiCallId") or id,
    )
    yield UsageItem(usage, at)
