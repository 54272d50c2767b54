"""OpenHands: ``~/.openhands/conversations/<id>/events/event-<n>-<uuid>.json``, one event per file.

Actions that came with one reply (``llm_response_id``) are the calls of one message. An observation
is the result of a call. What requests cost is in ``base_state.json``, by the id of the reply.

Lost: what security analysers and hooks noted; times have no zone and are taken as UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.errors import ImportRejected
from holdfast.exchange.importers.base import MOST_SNIFFED, document_beside
from holdfast.exchange.importing.content_blocks import call_of, openai_parts, result
from holdfast.exchange.importing.items import (
    Item,
    MessageItem,
    MetaItem,
    OpenItem,
    RawItem,
    Source,
    SummaryItem,
    UsageItem,
)
from holdfast.exchange.importing.json_fields import count, parse_time, record, records, text
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.model.entry import Usage
from holdfast.model.message import AnyPart, Message, Text, Thinking, ToolResult

_EVENT = re.compile(r"event-(\d{1,9})-.+\.json")
_STATE = "base_state.json"


class OpenHandsImporter:
    """Conversations of OpenHands."""

    name = "openhands"
    title = "OpenHands"

    def found(self, home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
        """Return the folder of conversations."""
        configured = environment.get("OPENHANDS_CONVERSATIONS_DIR")
        return [Path(configured) if configured else home / ".openhands" / "conversations"]

    def sniff(self, path: Path, reading: SourceReader) -> bool:
        """Look for the name of an event's file, and for its kind."""
        files = (f for f in reading.files_below(path, ".json") if _EVENT.fullmatch(f.name))
        return any(b'"kind"' in reading.head(file) for file in islice(files, MOST_SNIFFED))

    def sessions(self, path: Path, reading: SourceReader) -> Iterator[Source]:
        """Yield one session per folder of events; its parent's name is the session's id."""
        folders: dict[Path, list[tuple[int, Path]]] = {}
        for file in reading.files_below(path, ".json"):
            match = _EVENT.fullmatch(file.name)
            if match:
                folders.setdefault(file.parent, []).append((int(match[1]), file))
        for folder, found in folders.items():
            first, *others = [file for _, file in sorted(found)]
            id = folder.parent.name if folder.name == "events" else folder.name
            yield reading.source(self.name, id, first, *others, folder.parent / _STATE)

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Read the events in their order."""
        state = document_beside(Path(source.path).parent.parent / _STATE, reading)
        workspace = record(state, "workspace")
        model = text(record(record(state, "agent"), "llm"), "model") or None
        yield MetaItem({"workspace": text(workspace, "working_dir"), "model": model})
        chat = _Chat(_usages(state), model)
        for number, path in enumerate((source.path, *source.others)):
            if path.endswith(_STATE):
                continue
            try:
                event = reading.document(path)
            except ImportRejected as error:
                if number == 0 and not source.others:
                    raise
                reading.report(error.reason)
                continue
            yield from chat.take(event if type(event) is dict else {"value": event})
        if chat.is_open:
            yield OpenItem()
        yield from chat.flush()


def _usages(state: Any) -> dict[str, dict[str, Any]]:
    """Return what requests cost, by the ids of their replies."""
    found: dict[str, dict[str, Any]] = {}
    for metrics in record(record(state, "stats"), "usage_to_metrics").values():
        for used in records(metrics, "token_usages"):
            if text(used, "response_id"):
                found[text(used, "response_id")] = used
    return found


class _Chat:
    def __init__(self, usages: dict[str, dict[str, Any]], model: str | None) -> None:
        self._usages, self._model = usages, model
        self._reply = ""  # the id of the reply that is being gathered
        self._parts: list[AnyPart] = []
        self._at: str | None = None
        self._id: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether calls wait for their results: more of them may come with the same reply."""
        return bool(self._parts) and bool(self._reply)

    def take(self, event: dict[str, Any]) -> Iterator[Item]:
        """Take one event."""
        kind, at = text(event, "kind"), parse_time(event.get("timestamp"))
        if kind == "ActionEvent":
            yield from self._action(event, at)
            return
        yield from self.flush()
        id = text(event, "id") or None
        if kind == "Condensation":
            words = text(event, "summary")
            summary = [Message(role="user", content=[Text(text=words)])]
            yield SummaryItem(summary, at=at, id=id)
            return
        message = self._message(kind, event)
        if message is None:
            yield RawItem(f"openhands.{kind}" if kind else "openhands", event, at)
            return
        yield MessageItem(message, at, id)
        if message.role == "assistant":
            yield from self._spent(text(event, "llm_response_id"), at)

    def _message(self, kind: str, event: dict[str, Any]) -> Message | None:
        if kind == "MessageEvent":
            told = record(event, "llm_message")
            role = text(told, "role")
            parts = openai_parts(told.get("content"))
            if role == "assistant":
                return Message(
                    role=role, content=[*_thoughts(told), *parts], model=self._model, stop="end"
                )
            return Message(role=role, content=parts) if role in ("user", "system") else None
        if kind == "SystemPromptEvent":
            prompt = record(event, "system_prompt")
            return Message(role="system", content=[Text(text=text(prompt, "text"))])
        if text(event, "tool_call_id"):
            return Message(role="tool", content=[_answer(kind, event)])
        return None

    def _action(self, event: dict[str, Any], at: str | None) -> Iterator[Item]:
        reply = text(event, "llm_response_id")
        if reply != self._reply or not reply:
            yield from self.flush()
            self._reply, self._at, self._id = reply, at, text(event, "id") or None
            self._parts += _thoughts(event)
            self._parts += openai_parts(event.get("thought"))
        call = record(event, "tool_call")
        function = record(call, "function")
        given = call.get("arguments", function.get("arguments"))
        id = text(event, "tool_call_id") or text(call, "id")
        self._parts.append(call_of(id, text(event, "tool_name") or text(call, "name"), given))

    def _spent(self, reply: str, at: str | None) -> Iterator[Item]:
        used = self._usages.get(reply)
        if used is None:
            return
        read, written = count(used, "cache_read_tokens"), count(used, "cache_write_tokens")
        usage = Usage(
            input=max(0, count(used, "prompt_tokens") - read - written),
            output=count(used, "completion_tokens"),
            cost_usd=None,
            cache_read=read,
            cache_write=written,
            model=text(used, "model") or self._model,
            request=reply,
        )
        yield UsageItem(usage, at)

    def flush(self) -> Iterator[Item]:
        """Say the reply that was gathered."""
        if self._parts:
            said = Message(role="assistant", content=self._parts, model=self._model, stop="tools")
            reply, at, id = self._reply, self._at, self._id
            self._reply, self._parts = "", []
            yield MessageItem(said, at, id)
            yield from self._spent(reply, at)


def _thoughts(told: dict[str, Any]) -> list[AnyPart]:
    words = text(told, "reasoning_content")
    blocks = [
        Thinking(text=text(each, "thinking"), signature=text(each, "signature") or None)
        for each in records(told, "thinking_blocks")
        if text(each, "thinking")
    ]
    return [*blocks] if blocks else ([Thinking(text=words)] if words else [])


def _answer(kind: str, event: dict[str, Any]) -> ToolResult:
    id, done = text(event, "tool_call_id"), record(event, "observation")
    if kind == "UserRejectObservation":
        words = text(event, "rejection_reason")
        return ToolResult(call_id=id, content=[Text(text=words)], outcome="denied")
    if kind == "AgentErrorEvent":
        return result(id, [Text(text=text(event, "error"))], failed=True)
    parts = openai_parts(done.get("content"))
    code = record(done, "metadata").get("exit_code", done.get("exit_code"))
    failed = done.get("is_error") is True or (type(code) is int and code > 0)
    return result(id, parts, failed=failed)
