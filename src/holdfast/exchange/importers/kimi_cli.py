"""kimi-cli: ``~/.kimi/sessions/<hash of the folder>/<id>/context.jsonl``; older: ``<id>.jsonl``.

The file is the context of now. When it is compacted, cleared or reverted, the old one goes to
``context_1.jsonl`` and so on, and a new one begins. Lines of the old one at its beginning are not
said again, nor are those that a compaction kept after its summary. Messages have no times:
``wire.jsonl`` beside them, the log of the screen, says when turns began and what requests used, and
is put together with them by words and by numbers of tokens.

Lost: the size of the context after each step (``_usage``), the places that could be reverted to
(``_checkpoint``), the rest of the screen's log, and the state of approvals and of to-do lists.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import md5
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.errors import ImportRejected
from holdfast.exchange.importers.base import MOST_SNIFFED, document_beside
from holdfast.exchange.importing.content_blocks import openai_message, openai_parts
from holdfast.exchange.importing.items import (
    Item,
    MetaItem,
    OpenItem,
    RawItem,
    Source,
    UsageItem,
)
from holdfast.exchange.importing.json_fields import count, parse_time, record, records, rows, text
from holdfast.exchange.importing.rewritten_history import HistoryDiff
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.model.entry import Usage
from holdfast.model.message import Message, Text, Thinking

_ROTATED = re.compile(r"context_(\d{1,9})\.jsonl")
_OTHERS = frozenset({"wire.jsonl"})
_SUMMARY = "<system>Previous context has been compacted"
_INJECTED = ("<system>", "<system-reminder>")
_FAILED = "<system>ERROR:"
_MOST_AHEAD = 64


class KimiCliImporter:
    """Sessions of kimi-cli."""

    name = "kimi-cli"
    title = "kimi-cli"

    def found(self, home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
        """Return the folder of all projects' sessions."""
        configured = environment.get("KIMI_SHARE_DIR")
        return [(Path(configured) if configured else home / ".kimi") / "sessions"]

    def sniff(self, path: Path, reading: SourceReader) -> bool:
        """Look for roles that only kimi-cli has."""
        for file in islice(_contexts(path, reading), MOST_SNIFFED):
            for line in reading.first_records(file):
                if text(line, "role").startswith("_"):
                    return True
        return False

    def sessions(self, path: Path, reading: SourceReader) -> Iterator[Source]:
        """Yield one session a folder; its name is the session's id. Subagents have their own."""
        for file in _contexts(path, reading):
            own = file.name == "context.jsonl"
            id = file.parent.name if own else file.stem
            if own and file.parent.parent.name == "subagents":
                id = f"{file.parent.parent.parent.name}/{id}"
            beside = [file.with_name("wire.jsonl"), file.with_name("state.json")] if own else []
            yield reading.source(self.name, id, file, *_rotated(file, reading), *beside)

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Read the contexts, the oldest first."""
        path = Path(source.path)
        yield MetaItem(_about(path, reading))
        context = _Context(_Wire(path.with_name("wire.jsonl"), reading))
        for file in _rotated(path, reading):
            try:
                yield from context.file(file, reading)
            except ImportRejected as error:
                reading.path, reading.line = str(file), None
                reading.report(error.reason)
        yield from context.file(path, reading, last=True)
        yield from context.flush()


def _contexts(path: Path, reading: SourceReader) -> Iterator[Path]:
    for file in reading.files_below(path, ".jsonl"):
        if not _ROTATED.fullmatch(file.name) and file.name not in _OTHERS:
            yield file


def _rotated(file: Path, reading: SourceReader) -> list[Path]:
    if file.name != "context.jsonl":
        return []
    found: list[tuple[int, Path]] = []
    with suppress(OSError):
        for name in reading.files.names(file.parent):
            match = _ROTATED.fullmatch(name)
            if match:
                found.append((int(match[1]), file.with_name(name)))
    return [each for _, each in sorted(found)]


def _about(path: Path, reading: SourceReader) -> dict[str, Any]:
    """Return what stands beside: the title, and which folder the hash is of."""
    session = path.parent if path.name == "context.jsonl" else path.with_suffix("")
    parent: str | None = None
    if session.parent.name == "subagents":
        session, parent = session.parent.parent, session.parent.parent.name
    state = None if parent else document_beside(session / "state.json", reading)
    title = text(state, "custom_title")
    folder, workspace = session.parent.name, None
    known = document_beside(session.parent.parent.parent / "kimi.json", reading)
    for each in records(known, "work_dirs"):
        place = text(each, "path").encode("utf-8", "surrogatepass")
        if md5(place, usedforsecurity=False).hexdigest() == folder:
            workspace = text(each, "path")
    return {"title": title, "workspace": workspace, "parent": parent}


class _Context:
    def __init__(self, wire: _Wire) -> None:
        self._wire = wire
        self._standing = HistoryDiff()
        self._same: int | None = None  # how far this file has said what the last one did
        self._at: str | None = None
        self._summary: Message | None = None  # what follows may be what it kept
        self._kept: list[Message] = []
        self._most_kept = 0

    def file(self, path: Path, reading: SourceReader, *, last: bool = False) -> Iterator[Item]:
        """Take the next file."""
        self._same = 0
        for line in reading.records(path):
            yield from self.take(line)
        if last and self._summary is not None:
            yield OpenItem()
        yield from self._condense()
        yield from self._end()

    def take(self, line: dict[str, Any]) -> Iterator[Item]:
        """Take one line."""
        role = text(line, "role")
        if role == "_usage":
            yield from self._condense()
            if self._same is None or self._same == len(self._standing):
                yield from self._used(count(line, "token_count"))
        elif role == "_checkpoint":
            return
        elif (message := _message(line, role)) is None:
            yield RawItem("kimi-cli", line)
        elif self._summary is not None and self._may_be_kept(message):
            self._kept.append(message)
            if len(self._kept) == self._most_kept:
                yield from self._condense()
        elif (
            self._summary is None
            and self._same is not None
            and self._standing.says(self._same, message)
        ):
            self._same += 1
        else:
            yield from self._condense()
            yield from self._said(message)

    def _may_be_kept(self, message: Message) -> bool:
        """Tell whether a message after a summary is one of those before it, up to the last."""
        standing, start = self._standing, self._same or 0
        if not self._kept:
            places = range(len(standing) - 1, start - 1, -1)
            found = next((each for each in places if standing.says(each, message)), None)
            self._most_kept = 0 if found is None else len(standing) - found
            return found is not None
        place = len(standing) - self._most_kept + len(self._kept)
        return standing.says(place, message)

    def _condense(self) -> Iterator[Item]:
        """Say a compaction that waits for what it kept."""
        summary, kept, self._kept = self._summary, self._kept, []
        if summary is None:
            return
        self._summary, after = None, self._same or 0
        self._same = None
        whole = bool(kept) and self._standing.ends_with(kept, after)
        yield self._standing.condense([summary], after=after, keep=len(kept) if whole else 0)
        for message in [] if whole else kept:
            yield from self._said(message)

    def _said(self, message: Message) -> Iterator[Item]:
        same = self._same
        if same is not None:
            if message.text.startswith(_SUMMARY) and len(self._standing) > same:
                self._summary = message
                return
            self._same = None
            yield from self._standing.go_back(same)
        if message.role == "user" and not message.extra:
            usages, at = self._wire.until_turn(message.text)
            yield from usages
            self._at = at
        yield self._standing.say(message, self._at)

    def _used(self, tokens: int) -> Iterator[Item]:
        for spent in self._wire.until_usage(tokens):
            self._at = spent.at
            yield spent

    def _end(self) -> Iterator[Item]:
        """End a file; if it said nothing new, the conversation was reverted to where it ends."""
        if self._same:
            yield from self._standing.go_back(self._same)

    def flush(self) -> Iterator[Item]:
        """Say what else was used."""
        return self._wire.rest()


class _Wire:
    """The log of the screen, read as far as the messages have come and a little ahead."""

    def __init__(self, path: Path, reading: SourceReader) -> None:
        self._reading, self._own = reading, SourceReader(reading.files)
        self._events = _events(path, self._own)
        self._ahead: deque[tuple[str | None, UsageItem | None, str]] = deque()

    def until_turn(self, words: str) -> tuple[list[UsageItem], str | None]:
        """Return what was used before a turn, and when the turn began."""
        self._look()
        for index, (at, spent, said) in enumerate(self._ahead):
            if spent is None and said == words:
                return self._pop(index + 1), at
        return [], None

    def until_usage(self, tokens: int) -> list[UsageItem]:
        """Return what was used up to a request of that many tokens."""
        self._look()
        for index, (_, spent, _words) in enumerate(self._ahead):
            if spent is not None:
                usage = spent.usage
                given = usage.input + usage.cache_read + usage.cache_write
                if tokens in (given, given + usage.output):
                    return self._pop(index + 1)
        return []

    def rest(self) -> Iterator[Item]:
        """Return what was used and fits no message."""
        while self._ahead or self._look():
            yield from self._pop(len(self._ahead))
        for problem in self._own.problems:
            self._reading.path = problem.path
            self._reading.report(problem.reason, problem.line)

    def _look(self) -> int:
        self._ahead.extend(islice(self._events, _MOST_AHEAD - len(self._ahead)))
        return len(self._ahead)

    def _pop(self, number: int) -> list[UsageItem]:
        events = [self._ahead.popleft() for _ in range(number)]
        return [spent for _, spent, _ in events if spent is not None]


def _events(
    path: Path, reading: SourceReader
) -> Iterator[tuple[str | None, UsageItem | None, str]]:
    """Yield turns and requests: when, what was used, what was asked."""
    with suppress(ImportRejected):
        for line in reading.records(path):
            at, event = parse_time(line.get("timestamp")), record(line, "message")
            payload = record(event, "payload")
            used = record(payload, "token_usage")
            if text(event, "type") == "TurnBegin":
                yield at, None, _words(payload.get("user_input"))
            elif text(event, "type") == "StatusUpdate" and used:
                usage = Usage(
                    input=count(used, "input_other"),
                    output=count(used, "output"),
                    cost_usd=None,
                    cache_read=count(used, "input_cache_read"),
                    cache_write=count(used, "input_cache_creation"),
                    request=text(payload, "message_id") or None,
                )
                yield at, UsageItem(usage, at), ""


def _words(asked: Any) -> str:
    return "".join(part.text for part in openai_parts(asked) if isinstance(part, Text))


def _message(line: dict[str, Any], role: str) -> Message | None:
    if role == "_system_prompt":
        return Message(role="system", content=openai_parts(line.get("content")))
    thoughts = [each for each in rows(line, "content") if text(each, "type") == "think"]
    if thoughts:
        others = [each for each in rows(line, "content") if text(each, "type") != "think"]
        line = {**line, "content": others}
    if role == "tool" and _words(line.get("content")).startswith(_FAILED):
        line = {**line, "is_error": True}
    message = openai_message(line)
    if message is not None and role == "user" and message.text.startswith(_INJECTED):
        return Message(role="user", content=message.content, extra={"generated": True})
    if message is not None and thoughts:
        message.content[:0] = [
            Thinking(text=text(each, "think"), signature=text(each, "encrypted") or None)
            for each in thoughts
        ]
    return message
