"""Reasonix from 1.38 on: ``projects/<folder>/sessions-v4/<id>/events.frames`` below its folder.

Records are packed one by one (zstd) in frames. Events come in batches, and a batch counts when its
end is there. A message is one event, whole; events of tools and of attempts repeat it for the
screen. What requests cost stands beside all projects, in ``stats/<day>.jsonl``, without naming the
session: each reply gets the next line of its model after its prompt, and no line is counted twice.

Lost: events that repeat messages (``tool/…``, ``turn/…``, ``assistant/attempt``), durations.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.exchange.importers.base import document_beside
from holdfast.exchange.importing.content_blocks import openai_message
from holdfast.exchange.importing.items import Item, MessageItem, MetaItem, RawItem, UsageItem
from holdfast.exchange.importing.json_fields import count, parse_time, record, text
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.model.codec import loads
from holdfast.model.entry import Usage
from holdfast.model.message import Message

FRAMES = "events.frames"
CODEC = "reasonix.session.linear/v4"
_MARK = b"RX4F"
_REPEATS = ("tool/", "turn/", "assistant/")
_MOST_EVENTS = 100_000
_TITLE_CHARACTERS = 200
_DAY_CHARACTERS = 10
_MOST_DAYS = 2  # a turn may run past midnight


def is_session(path: Path, reading: SourceReader) -> bool:
    """Tell whether a file has frames."""
    return path.name == FRAMES and reading.head(path, len(_MARK)) == _MARK


def read_session(path: Path, reading: SourceReader) -> Iterator[Item]:
    """Read the facts beside the events, then the events."""
    manifest = document_beside(path.with_name("manifest.json"), reading)
    created = parse_time(text(manifest, "createdAt"))
    yield MetaItem({"family": "stats"}, created)
    chat = _Chat(_Stats(path.parent.parent.parent.parent.parent / "stats"))
    for at, event in _events(path, reading):
        yield from chat.take(at, event)


def _events(path: Path, reading: SourceReader) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """Yield the events of batches that are whole, with the time of their batch."""
    at: str | None = None
    batch: list[dict[str, Any]] = []
    for frame in reading.frames(path, _MARK):
        try:
            line = loads(frame)
        except (ValueError, RecursionError):
            reading.report("has a frame that is not complete JSON")
            continue
        kind = text(line, "recordType")
        if kind == "batch/begin":
            at, batch = parse_time(_milliseconds(text(line, "createdAt"))), []
        elif kind == "batch/event" and len(batch) < _MOST_EVENTS:
            batch.append(record(line, "event"))
        elif kind == "batch/end":
            if count(line, "eventCount") in (0, len(batch)):
                yield from ((at, event) for event in batch)
            else:
                reading.report("has an incomplete batch")
            batch = []


def _milliseconds(time: str) -> str:
    """Return a time without the digits that follow its milliseconds."""
    whole, dot, rest = time.partition(".")
    return f"{whole}.{rest.rstrip('Zz')[:3]}Z" if dot else time


class _Chat:
    def __init__(self, stats: _Stats) -> None:
        self._stats = stats
        self._model: str | None = None
        self._is_named = False

    def take(self, at: str | None, event: dict[str, Any]) -> Iterator[Item]:
        """Take one event."""
        kind, payload = text(event, "kind"), _payload(event)
        if kind == "message/complete":
            yield from self._said(record(payload, "message"), at)
        elif kind == "session/config":
            provider, slash, model = text(payload, "modelRef").partition("/")
            self._model = text(payload, "modelRef") or self._model
            if slash:
                yield MetaItem({"provider": provider, "model": model})
        elif not kind.startswith(_REPEATS):
            name = f"reasonix.{kind}" if kind else "reasonix"
            yield RawItem(name, payload or event, at)

    def _said(self, told: dict[str, Any], at: str | None) -> Iterator[Item]:
        at = parse_time(told.get("createdAt")) or at
        failed = text(record(told, "tool_execution"), "state") == "failed"
        model = (self._model or "").partition("/")[2] or None
        message = openai_message({**told, "is_error": True} if failed else told, model)
        if message is None:
            yield RawItem("reasonix.message", told, at)
            return
        if message.role == "user":
            if text(told, "origin") == "host":
                extra = {"generated": True}
                message = Message(role="user", content=message.content, extra=extra)
            else:
                self._stats.begin(at)
        yield MessageItem(message, at, text(told, "id") or None)
        if message.role == "user" and not message.extra and not self._is_named:
            self._is_named = True
            yield MetaItem({"title": " ".join(message.text.split())[:_TITLE_CHARACTERS]})
        if message.role == "assistant":
            yield from self._stats.next(self._model, model)


def _payload(event: dict[str, Any]) -> Any:
    try:
        return loads(b64decode(text(event, "payload"), validate=True))
    except (Error, ValueError, RecursionError):
        return {}


class _Stats:
    """What requests cost, by day: a file of lines for all sessions."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._reading = folder, SourceReader()
        self._lines: Iterator[dict[str, Any]] = iter(())
        self._since = ""

    def begin(self, at: str | None) -> None:
        """Go to the first request after a prompt."""
        self._since = at or self._since
        self._lines = self._requests()

    def _requests(self) -> Iterator[dict[str, Any]]:
        day = self._since[:_DAY_CHARACTERS]
        files = self._reading.files_below(self._folder, ".jsonl")
        days = [file for file in files if day and file.stem >= day][:_MOST_DAYS]
        for file in days:
            for line in self._reading.records(file):
                at = parse_time(_milliseconds(text(line, "ts"))) or ""
                if count(line, "requests") and at >= self._since:
                    yield {**line, "at": at}

    def next(self, reference: str | None, model: str | None) -> Iterator[Item]:
        """Yield what the next request of a model cost."""
        for line in self._lines:
            if reference is None or text(line, "model") in ("", reference):
                read = count(line, "cache_hit")
                usage = Usage(
                    input=max(0, count(line, "prompt") - read),
                    output=count(line, "completion"),
                    cost_usd=None,
                    cache_read=read,
                    model=model,
                    request=text(line, "ts"),
                )
                yield UsageItem(usage)
                return
