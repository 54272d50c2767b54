"""Gemini CLI: ``~/.gemini/tmp/<project>/chats/session-*.jsonl``; older ones are one JSON document.

A message is written again, whole, whenever something about it changes (a tool ends, tokens are
known): the last line of an id counts. So the last few messages wait until they are said; a change
of one that was said long ago is kept as an event. ``$rewindTo`` takes back a message and all after
it, ``$set`` with ``messages`` puts others in the place of all: both become branches.

Lost: how results were shown (``resultDisplay``, ``displayContent``).
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
    HeadItem,
    Item,
    MessageItem,
    MetaItem,
    RawItem,
    Source,
    UsageItem,
    local_to_folder,
)
from holdfast.exchange.importing.json_fields import count, parse_time, record, records, text
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.model.codec import dumps
from holdfast.model.entry import Usage
from holdfast.model.message import AnyPart, File, Image, Message, Opaque, Text, Thinking

_ENDINGS = (".jsonl", ".json")
_MOST_WAITING = 8
_MOST_REMEMBERED = 20_000
_LONGEST_PATH_BYTES = 4096
_DONE = frozenset({"success", "error", "cancelled"})


class GeminiCli:
    """Sessions of Gemini CLI."""

    name = "gemini-cli"
    title = "Gemini CLI"

    def found(self, home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
        """Return the folder of all projects' chats."""
        configured = environment.get("GEMINI_CLI_HOME")
        return [(Path(configured) if configured else home) / ".gemini" / "tmp"]

    def sniff(self, path: Path, reading: SourceReader) -> bool:
        """Look for what begins a file of either form."""
        return any(_is_own(file, reading) for file in islice(_files(path, reading), MOST_SNIFFED))

    def sessions(self, path: Path, reading: SourceReader) -> Iterator[Source]:
        """Yield one session a file."""
        for file in _files(path, reading):
            yield local_to_folder(reading.source(self.name, file.stem, file))

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Read either form."""
        path = Path(source.path)
        root = reading.head(path.parent.parent / ".project_root", _LONGEST_PATH_BYTES)
        chat = _Chat()
        parent = path.parent.name if path.parent.parent.name == "chats" else None
        yield MetaItem({"workspace": root.decode("utf-8", "replace").strip(), "parent": parent})
        if path.name.endswith(".json"):
            document = reading.document(path)
            yield from chat.about(document if type(document) is dict else {})
            lines: Iterable[dict[str, Any]] = records(document, "messages")
        else:
            lines = reading.records(path)
        for line in lines:
            yield from chat.take(line)
        yield from chat.flush()


def _files(path: Path, reading: SourceReader) -> Iterator[Path]:
    for file in reading.files_below(path, *_ENDINGS):
        # A subagent's is in a folder of its own, named after the session that it works for.
        if file.name.startswith("session-") or file.parent.parent.name == "chats":
            yield file


def _is_own(file: Path, reading: SourceReader) -> bool:
    if file.name.endswith(".json"):
        head = reading.head(file)
        return b'"sessionId"' in head and b'"projectHash"' in head
    return any("projectHash" in line for line in reading.first_records(file, 1))


class _Chat:
    def __init__(self) -> None:
        self._waiting: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._before: OrderedDict[str, str | None] = OrderedDict()  # what each message hangs on
        self._counted: OrderedDict[str, None] = OrderedDict()
        self._last: str | None = None

    def take(self, line: dict[str, Any]) -> Iterator[Item]:
        """Take one line, or one message of a document."""
        id = text(line, "id")
        if "$rewindTo" in line:
            yield from self._rewound(text(line, "$rewindTo"))
        elif "$set" in line:
            yield from self._set(record(line, "$set"))
        elif id and text(line, "type"):
            if id in self._waiting:
                self._waiting[id] = line
            elif id in self._before:
                yield RawItem("gemini-cli.update", line, parse_time(line.get("timestamp")))
            else:
                self._waiting[id] = line
            if len(self._waiting) > _MOST_WAITING:
                yield from self._say(self._waiting.popitem(last=False)[1])
        elif "sessionId" in line:
            yield from self.about(line)
        else:
            yield RawItem("gemini-cli", line)

    def about(self, line: dict[str, Any]) -> Iterator[Item]:
        """Say what a file says about its session."""
        facts = {"provider": "google", "title": text(line, "summary")}
        yield MetaItem(facts, parse_time(line.get("startTime")))

    def _set(self, changes: dict[str, Any]) -> Iterator[Item]:
        if text(changes, "summary"):
            yield MetaItem({"title": text(changes, "summary")})
        if type(changes.get("messages")) is list:
            yield from self.flush()
            self._before.clear()
            self._last = None
            yield HeadItem(None)
            for message in records(changes, "messages"):
                yield from self._say(message)

    def _rewound(self, id: str) -> Iterator[Item]:
        yield from self.flush()
        if id in self._before:
            self._last = self._before[id]
            yield HeadItem(self._last)

    def flush(self) -> Iterator[Item]:
        """Say everything that waits."""
        while self._waiting:
            yield from self._say(self._waiting.popitem(last=False)[1])

    def _say(self, line: dict[str, Any]) -> Iterator[Item]:
        id, kind, at = text(line, "id"), text(line, "type"), parse_time(line.get("timestamp"))
        if kind not in ("user", "gemini"):
            yield RawItem(f"gemini-cli.{kind}" if kind else "gemini-cli", line, at)
            return
        _remember(self._before, id, self._last)
        parts = _parts(line.get("content"))
        self._last = id
        if kind == "user":
            yield MessageItem(Message(role="user", content=parts), at, id)
            return
        calls = records(line, "toolCalls")
        thoughts = [_thought(each) for each in records(line, "thoughts")]
        wishes = [call_of(text(call, "id"), text(call, "name"), call.get("args")) for call in calls]
        message = Message(
            role="assistant",
            content=[*thoughts, *parts, *wishes],
            model=text(line, "model") or None,
            stop="tools" if wishes else None,
        )
        yield MessageItem(message, at, id)
        yield from self._spent(line, id, at)
        for number, call in enumerate(calls):
            if text(call, "status") in _DONE:
                self._last = f"{id}/{number}"
                answered = parse_time(call.get("timestamp")) or at
                yield MessageItem(
                    Message(role="tool", content=[_answer(call)]), answered, self._last
                )

    def _spent(self, line: dict[str, Any], id: str, at: str | None) -> Iterator[Item]:
        tokens = record(line, "tokens")
        if not tokens or id in self._counted:
            return
        _remember(self._counted, id, None)
        cached = count(tokens, "cached")
        usage = Usage(
            input=max(0, count(tokens, "input") - cached) + count(tokens, "tool"),
            output=count(tokens, "output") + count(tokens, "thoughts"),
            cost_usd=None,
            cache_read=cached,
            model=text(line, "model") or None,
            request=id,
        )
        yield UsageItem(usage, at)


def _remember(kept: OrderedDict[str, Any], id: str, value: str | None) -> None:
    kept[id] = value
    if len(kept) > _MOST_REMEMBERED:
        kept.popitem(last=False)


def _thought(thought: dict[str, Any]) -> Thinking:
    subject, description = text(thought, "subject"), text(thought, "description")
    return Thinking(text=f"**{subject}** {description}" if subject else description)


def _answer(call: dict[str, Any]) -> AnyPart:
    parts = _parts(call.get("result"))
    done = result(text(call, "id"), parts, failed=text(call, "status") == "error")
    if text(call, "status") == "cancelled":
        return type(done)(call_id=done.call_id, content=parts, outcome="cancelled")
    return done


def _parts(content: Any) -> list[AnyPart]:
    if type(content) is str:
        return [Text(text=content)] if content else []
    if type(content) is not list:
        content = [] if content is None else [content]
    return [_part(each) for each in content]


def _part(part: Any) -> AnyPart:
    if type(part) is str:
        return Text(text=part)
    if "text" in part if type(part) is dict else False:
        words = text(part, "text")
        return Thinking(text=words) if part.get("thought") is True else Text(text=words)
    inline, response = record(part, "inlineData"), record(part, "functionResponse")
    if text(inline, "data"):
        media = text(inline, "mimeType") or "image/png"
        if media.startswith("image/"):
            return Image(media_type=media, data=text(inline, "data"))
        return File(name="file", media_type=media, data=text(inline, "data"))
    if response:
        said = record(response, "response")
        words = text(said, "output") or text(said, "error")
        return Text(text=words or dumps(said).decode())
    return Opaque(vendor="google", data=part)
