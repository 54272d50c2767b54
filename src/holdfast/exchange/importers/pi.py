"""pi: ``~/.pi/agent/sessions/<folder>/<time>_<id>.jsonl``, versions 1 to 3.

Version 1 is a line of entries; from 2 on they are a tree through ``parentId``, whose leaf is the
last entry; 3 renames a role. A fork begins with the entries of its parent, with their times: all
copies share the time of their first message, and a request is counted once by its time.

Lost: what only tools' own screens need (``details``), the signatures of text and of calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path, PurePath
from typing import Any

from holdfast.exchange.importers.base import MOST_SNIFFED
from holdfast.exchange.importing.content_blocks import call_of, result
from holdfast.exchange.importing.items import (
    FOLLOWS,
    HeadItem,
    Item,
    MessageItem,
    MetaItem,
    RawItem,
    Source,
    SummaryItem,
    UsageItem,
)
from holdfast.exchange.importing.json_fields import amount, count, parse_time, record, rows, text
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.model.entry import Usage
from holdfast.model.message import AnyPart, Image, Message, Opaque, Text, Thinking

_STOPS = {"stop": "end", "toolUse": "tools"}
_SUMMARIES = frozenset({"branchSummary", "compactionSummary"})


class PiImporter:
    """Sessions of pi."""

    name = "pi"
    title = "pi"

    def found(self, home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
        """Return the folder of all projects' sessions."""
        configured = environment.get("PI_CODING_AGENT_DIR")
        base = Path(configured) if configured else home / ".pi" / "agent"
        sessions = environment.get("PI_CODING_AGENT_SESSION_DIR")
        return [Path(sessions) if sessions else base / "sessions"]

    def sniff(self, path: Path, reading: SourceReader) -> bool:
        """Look at the line that begins every file."""
        for file in islice(reading.files_below(path, ".jsonl"), MOST_SNIFFED):
            for line in reading.first_records(file, 1):
                if line.get("type") == "session" and "cwd" in line:
                    return True
        return False

    def sessions(self, path: Path, reading: SourceReader) -> Iterator[Source]:
        """Yield one session a file; its id ends the file's name."""
        for file in reading.files_below(path, ".jsonl"):
            yield reading.source(self.name, _id_in(file.name), file)

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Read the entries."""
        tree = _Tree()
        for number, line in enumerate(reading.records(source.path)):
            yield from tree.take(line, number)


def _id_in(name: str) -> str:
    stem = name.removesuffix(".jsonl")
    return stem.partition("_")[2] or stem


class _Tree:
    def __init__(self) -> None:
        self._linear = True  # until an entry has an id
        self._last: str | None = None
        self._begun = False
        self._provider = ""

    def take(self, line: dict[str, Any], number: int) -> Iterator[Item]:
        """Take one entry; ``number`` is its place in the file."""
        kind, at = text(line, "type"), parse_time(line.get("timestamp"))
        if kind == "session":
            yield from _about(line, at, again=number > 0)
            return
        id, parent = self._place(line, number)
        if kind == "message":
            yield from self._said(line, id, parent, at)
        elif kind == "compaction":
            summary = [_text_message(text(line, "summary"))]
            tokens = count(line, "tokensBefore") or None
            yield SummaryItem(summary, _kept(line), tokens, at, id, parent)
            yield from _spent(line, at)
        elif kind == "custom_message":
            content = _parts(line.get("content"))
            said = Message(role="user", content=content, extra={"generated": True})
            yield MessageItem(said, at, id, parent)
        elif kind == "branch_summary" and text(line, "summary"):
            yield MessageItem(_text_message(text(line, "summary")), at, id, parent)
            yield from _spent(line, at)
        else:
            yield from self._aside(line, kind, id, parent, at)
        self._last = id

    def _place(self, line: dict[str, Any], number: int) -> tuple[str, str | None]:
        id = text(line, "id")
        if not id:  # version 1; its compactions name entries by their place
            return f"#{number}", FOLLOWS
        self._linear = False
        return id, text(line, "parentId") or None

    def _aside(
        self, line: dict[str, Any], kind: str, id: str, parent: str | None, at: str | None
    ) -> Iterator[Item]:
        """Keep an entry that says nothing to the model; others may hang on it."""
        if kind == "session_info":
            yield MetaItem({"title": text(line, "name")})
        elif kind == "model_change":
            yield MetaItem({"provider": text(line, "provider"), "model": text(line, "modelId")})
        yield RawItem(f"pi.{kind}" if kind else "pi", line, at, id, parent)
        if not self._linear and parent != self._last:
            yield HeadItem(id)  # what comes last is the leaf, whatever it says

    def _said(
        self, line: dict[str, Any], id: str, parent: str | None, at: str | None
    ) -> Iterator[Item]:
        told = record(line, "message")
        at = at or parse_time(told.get("timestamp"))
        message = _message(told)
        if message is None:
            yield from self._aside(line, "message", id, parent, at)
            return
        if not self._begun:
            self._begun = True
            yield MetaItem({"family": at})
        provider = text(told, "provider")
        if provider and provider != self._provider:
            self._provider = provider
            yield MetaItem({"provider": provider})
        yield MessageItem(message, at, id, parent)
        yield from _spent(told, at)


def _spent(told: dict[str, Any], at: str | None) -> Iterator[Item]:
    """Yield what a reply, a compaction or the summary of a branch cost."""
    usage = record(told, "usage")
    if usage:
        yield UsageItem(_usage(usage, text(told, "model") or None, at), at)


def _about(line: dict[str, Any], at: str | None, *, again: bool) -> Iterator[Item]:
    if again:  # written twice by a version, or of the session that this one was made from
        yield RawItem("pi.session", line, at)
        return
    parent = text(line, "parentSession") or text(line, "branchedFrom")
    facts = {
        "workspace": text(line, "cwd"),
        "provider": text(line, "provider"),
        "model": text(line, "modelId"),
        "parent": _id_in(PurePath(parent).name) if parent else None,
    }
    yield MetaItem(facts, at)


def _kept(line: dict[str, Any]) -> str | None:
    index = line.get("firstKeptEntryIndex")
    return text(line, "firstKeptEntryId") or (f"#{index}" if type(index) is int else None)


def _text_message(words: str) -> Message:
    return Message(role="user", content=[Text(text=words)], extra={"generated": True})


def _message(told: dict[str, Any]) -> Message | None:  # noqa: PLR0911  one return a role
    role = text(told, "role")
    if role == "user":
        return Message(role="user", content=_parts(told.get("content")))
    if role == "assistant":
        return _reply(told)
    if role == "system":
        sections = [each for each in record(told, "sections").values() if type(each) is str]
        content = _parts(told.get("content")) or [Text(text=each) for each in sections if each]
        return Message(role="system", content=content) if content else None
    if role == "toolResult":
        failed = told.get("isError") is True
        answer = result(text(told, "toolCallId"), _parts(told.get("content")), failed=failed)
        return Message(role="tool", content=[answer])
    if role in ("custom", "hookMessage"):
        return Message(role="user", content=_parts(told.get("content")), extra={"generated": True})
    if role in _SUMMARIES:
        return _text_message(text(told, "summary"))
    if role == "bashExecution" and told.get("excludeFromContext") is not True:
        words = f"$ {text(told, 'command')}\n{text(told, 'output')}".rstrip()
        code = count(told, "exitCode")
        return _text_message(f"{words}\n(exit code {code})" if code else words)
    return None


def _reply(told: dict[str, Any]) -> Message:
    stop, error = text(told, "stopReason"), text(told, "errorMessage")
    return Message(
        role="assistant",
        content=_parts(told.get("content")),
        model=text(told, "model") or None,
        stop=_STOPS.get(stop, stop) or None,
        extra={"error": error} if error else {},
    )


def _parts(content: Any) -> list[AnyPart]:
    if type(content) is str:
        return [Text(text=content)] if content else []
    return [_part(block) for block in rows({"content": content}, "content")]


def _part(block: Any) -> AnyPart:
    kind = text(block, "type")
    if kind == "text":
        return Text(text=text(block, "text"))
    if kind == "thinking":
        signature = text(block, "thinkingSignature") or None
        return Thinking(text=text(block, "thinking"), signature=signature)
    if kind == "toolCall":
        return call_of(text(block, "id"), text(block, "name"), block.get("arguments"))
    if kind == "image" and text(block, "data"):
        return Image(media_type=text(block, "mimeType") or "image/png", data=text(block, "data"))
    return Opaque(vendor="pi", data=block)


def _usage(usage: dict[str, Any], model: str | None, at: str | None) -> Usage:
    fresh, said = count(usage, "input"), count(usage, "output")
    return Usage(
        input=fresh,
        output=said,
        cost_usd=amount(record(usage, "cost"), "total"),
        cache_read=count(usage, "cacheRead"),
        cache_write=count(usage, "cacheWrite"),
        model=model,
        request=f"{at} {fresh} {said}" if at else None,
    )
