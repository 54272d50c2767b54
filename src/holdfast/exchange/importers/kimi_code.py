"""kimi-code: ``~/.kimi-code/sessions/<folder>/session_<id>/agents/<name>/wire.jsonl``.

One event per line. Prompts are whole messages (``context.append_message``); a reply comes in steps:
its parts, its calls, their results. ``state.json`` beside the agents has facts about the session.
Agents other than ``main`` are sessions of their own.

Lost: events of the screen that repeat what was said; how long steps took.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.exchange.importers.base import MOST_SNIFFED, document_beside
from holdfast.exchange.importing.content_blocks import call_of, openai_parts, result
from holdfast.exchange.importing.items import (
    HeadItem,
    Item,
    MessageItem,
    MetaItem,
    OpenItem,
    RawItem,
    Source,
    SummaryItem,
    UsageItem,
)
from holdfast.exchange.importing.json_fields import count, parse_time, record, records, rows, text
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.model.entry import Usage
from holdfast.model.message import AnyPart, Message, Text, Thinking, ToolCall

_WIRE = "wire.jsonl"
_MAIN = "main"
_MOST_PARTS = 2000
_MOST_PROMPTS = 10_000
_TITLE_CHARACTERS = 200
_STOPS = {"stop": "end", "end_turn": "end", "tool_calls": "tools", "tool_use": "tools"}


class KimiCodeImporter:
    """Sessions of kimi-code."""

    name = "kimi-code"
    title = "kimi-code"

    def found(self, home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
        """Return the folder of all projects' sessions."""
        configured = environment.get("KIMI_CODE_HOME")
        return [(Path(configured) if configured else home / ".kimi-code") / "sessions"]

    def sniff(self, path: Path, reading: SourceReader) -> bool:
        """Look for events of the context."""
        for file in islice(_files(path, reading), MOST_SNIFFED):
            for line in reading.first_records(file):
                if text(line, "type").startswith("context.append_"):
                    return True
        return False

    def sessions(self, path: Path, reading: SourceReader) -> Iterator[Source]:
        """Yield one session per agent; the main agent's has the name of the session."""
        for file in _files(path, reading):
            session, agent = _session_of(file), file.parent.name
            id = session.name if agent == _MAIN else f"{session.name}/{agent}"
            yield reading.source(self.name, id, file, session / "state.json")

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Read the facts, then the events."""
        path = Path(source.path)
        session = _session_of(path)
        state = document_beside(session / "state.json", reading)
        facts = {
            "workspace": text(state, "cwd"),
            "title": text(state, "title"),
            "parent": None if path.parent.name == _MAIN else session.name,
        }
        created = state.get("createdAt") if type(state) is dict else None
        yield MetaItem(facts, parse_time(created))
        chat = _Chat()
        for line in reading.records(path):
            yield from chat.take(line)
        if chat.is_open:
            yield OpenItem()
        yield from chat.flush()


def _files(path: Path, reading: SourceReader) -> Iterator[Path]:
    for file in reading.files_below(path, ".jsonl"):
        if file.name == _WIRE:
            yield file


def _session_of(file: Path) -> Path:
    """Return the folder of the session: ``<session>/agents/<name>/wire.jsonl``."""
    return file.parent.parent.parent if file.parent.parent.name == "agents" else file.parent


class _Chat:
    def __init__(self) -> None:
        self._parts: list[AnyPart] = []
        self._at: str | None = None
        self._said = 0
        self._last: str | None = None
        self._prompts: list[str | None] = []  # what each prompt hangs on
        self._model: str | None = None
        self._step: str | None = None
        self._steps = 0
        self._unnamed: bool | None = None
        self._used: UsageItem | None = None  # of a step; the record that follows says the same

    @property
    def is_open(self) -> bool:
        """Whether a step has begun and not ended."""
        return self._step is not None and bool(self._parts)

    def take(self, line: dict[str, Any]) -> Iterator[Item]:
        """Take one event."""
        kind, at = text(line, "type"), parse_time(line.get("time"))
        self._model = text(line, "model") or self._model
        if kind == "context.append_message":
            yield from self.flush()
            yield from self._message(record(line, "message"), at)
        elif kind == "context.append_loop_event":
            yield from self._event(record(line, "event"), at)
        elif kind == "usage.record":
            usage = record(line, "usage")
            request = self._used.usage.request if self._used else f"record {self._steps}"
            self._used = None
            yield from self._flush_step()
            yield UsageItem(self._usage(usage, request), at)
        elif kind == "context.apply_compaction":
            yield from self.flush()
            words = text(line, "contextSummary") or text(line, "summary")
            summary = [Message(role="user", content=[Text(text=words)])]
            tokens = count(line, "tokensBefore") or None
            yield SummaryItem(summary, None, tokens, at, self._next())
        elif kind == "context.undo":
            yield from self.flush()
            yield from self._undo(count(line, "count"))
        elif kind == "context.clear":
            yield from self.flush()
            self._last, self._prompts = None, []
            yield HeadItem(None)
        else:
            yield from self._flush_step()
            yield RawItem(f"kimi-code.{kind}" if kind else "kimi-code", line, at)

    def _undo(self, number: int) -> Iterator[Item]:
        to = self._last
        for _ in range(min(number, len(self._prompts))):
            to = self._prompts.pop()
        if to != self._last:
            self._last = to
            yield HeadItem(to)

    def _next(self) -> str:
        self._said += 1
        self._last = f"{self._said}"
        return self._last

    def _message(self, told: dict[str, Any], at: str | None) -> Iterator[Item]:
        role, parts = text(told, "role"), _parts(told.get("content"))
        if role == "assistant":
            calls = [_call(each) for each in records(told, "toolCalls")]
            said = Message(role=role, content=[*parts, *calls], model=self._model)
        elif role == "tool":
            failed = told.get("isError") is True
            said = Message(
                role=role, content=[result(text(told, "toolCallId"), parts, failed=failed)]
            )
        elif role in ("user", "system"):
            origin = text(record(told, "origin"), "kind")
            extra = {"generated": True} if origin not in ("", "user") else {}
            if role == "user" and not extra:
                self._prompts = [*self._prompts[-_MOST_PROMPTS:], self._last]
            said = Message(role=role, content=parts, extra=extra)
        else:
            yield RawItem("kimi-code.message", told, at)
            return
        yield MessageItem(said, at, self._next())
        if role == "user":
            yield from self._titled(said)

    def _titled(self, said: Message) -> Iterator[Item]:
        """Name a session that begins with what the program itself said to the model."""
        if said.extra:
            self._unnamed = self._unnamed is not False
            return
        if self._unnamed:
            yield MetaItem({"title": " ".join(said.text.split())[:_TITLE_CHARACTERS]})
        self._unnamed = False

    def _event(self, event: dict[str, Any], at: str | None) -> Iterator[Item]:
        kind = text(event, "type")
        if kind == "step.begin":
            yield from self.flush()
            self._steps += 1
            self._step = text(event, "uuid") or f"step {self._steps}"
            self._at = at
        elif kind == "content.part":
            self._add(at, _parts([record(event, "part")]))
        elif kind == "tool.call":
            self._add(at, [_call(event)])
        elif kind == "tool.result":
            yield from self._flush_step()
            yield MessageItem(Message(role="tool", content=[_answer(event)]), at, self._next())
        elif kind == "step.end":
            yield from self._ended(event, at)
        else:
            yield from self._flush_step()
            yield RawItem(f"kimi-code.{kind}" if kind else "kimi-code", event, at)

    def _add(self, at: str | None, parts: list[AnyPart]) -> None:
        self._at = self._at or at
        if len(self._parts) < _MOST_PARTS:
            self._parts += parts

    def _ended(self, event: dict[str, Any], at: str | None) -> Iterator[Item]:
        stop = text(event, "finishReason")
        yield from self._flush_step(_STOPS.get(stop, stop) or None)
        usage = record(event, "usage")
        if usage:
            request = self._step or f"step {self._steps}"
            self._used = UsageItem(self._usage(usage, request), at)
        self._step = None

    def _usage(self, usage: dict[str, Any], request: str | None) -> Usage:
        return Usage(
            input=count(usage, "inputOther"),
            output=count(usage, "output"),
            cost_usd=None,
            cache_read=count(usage, "inputCacheRead"),
            cache_write=count(usage, "inputCacheCreation"),
            model=self._model,
            request=request,
        )

    def _flush_step(self, stop: str | None = None) -> Iterator[Item]:
        """Say the parts of a step, once what follows shows that they are all."""
        if self._parts:
            if stop is None and any(isinstance(part, ToolCall) for part in self._parts):
                stop = "tools"
            said = Message(role="assistant", content=self._parts, model=self._model, stop=stop)
            at, self._parts, self._at = self._at, [], None
            yield MessageItem(said, at, self._next())

    def flush(self) -> Iterator[Item]:
        """Say what was gathered, and count a step that no record has counted."""
        yield from self._flush_step()
        used, self._used, self._step = self._used, None, None
        if used is not None:
            yield used


def _call(call: dict[str, Any]) -> AnyPart:
    id = text(call, "toolCallId") or text(call, "id")
    given = call.get("args", call.get("arguments"))
    return call_of(id, text(call, "name"), given)


def _answer(event: dict[str, Any]) -> AnyPart:
    done = record(event, "result")
    failed = done.get("isError") is True or event.get("isError") is True
    return result(text(event, "toolCallId"), _parts(done.get("output")), failed=failed)


def _parts(content: Any) -> list[AnyPart]:
    """Return parts; thoughts are parts of their own here."""
    if type(content) is not list:
        return openai_parts(content)
    found: list[AnyPart] = []
    for block in rows({"content": content}, "content"):
        if text(block, "type") == "think":
            signature = text(block, "encrypted") or None
            found.append(Thinking(text=text(block, "think"), signature=signature))
        else:
            found += openai_parts([block])
    return found
