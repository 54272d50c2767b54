"""Reasonix: ``sessions/<time>-<model>.jsonl`` below its folder, one message a line.

Newer versions keep events in frames: see ``reasonix_v4``.

Beside it may be ``….jsonl.meta`` (facts) and ``….events.jsonl``: the conversation as it grew, which
then counts in its place. An event appends messages, or replaces all of them. What a replacement
leaves as it was is not said again. It is a compaction if it says so, or if the last message stayed
and none of the first; else the conversation goes on from what stayed, and the rest is a branch.

Lost: what is only for the screen (diffs, durations, receipts), previews, and appends that do not
fit what came before, which are kept as events. What requests cost is not written by Reasonix.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.exchange.importers.base import MOST_SNIFFED, document_beside
from holdfast.exchange.importers.reasonix_v4 import FRAMES, is_session, read_session
from holdfast.exchange.importing.content_blocks import image_at, openai_message
from holdfast.exchange.importing.items import Item, MetaItem, RawItem, Source
from holdfast.exchange.importing.json_fields import count, parse_time, records, rows, text
from holdfast.exchange.importing.rewritten_history import HistoryDiff
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.model.message import Message, Thinking

_EVENTS = ".events.jsonl"
_OTHERS = (".conflicts.jsonl", ".guardian.jsonl")
_NAME = re.compile(r"(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)(?:\.\d+)?(?:-(.+))?")


class ReasonixImporter:
    """Sessions of Reasonix."""

    name = "reasonix"
    title = "Reasonix"

    def found(self, home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
        """Return the folders of sessions, of Linux, of macOS, and the older one."""
        configured = environment.get("XDG_CONFIG_HOME")
        config = Path(configured) if configured else home / ".config"
        mac = home / "Library" / "Application Support"
        state = environment.get("REASONIX_STATE_HOME")
        own = Path(state) if state else home / ".reasonix"
        older = [base / "sessions" for base in (config / "reasonix", mac / "reasonix", own)]
        return [*older, own / "projects"]

    def sniff(self, path: Path, reading: SourceReader) -> bool:
        """Look for an event, or for messages in a file of that name or with facts beside it."""
        files = islice(_transcripts(path, reading), MOST_SNIFFED)
        if any(_is_own(file, reading) for file in files):
            return True
        newer = islice(reading.files_below(path, FRAMES), MOST_SNIFFED)
        return any(is_session(file, reading) for file in newer)

    def sessions(self, path: Path, reading: SourceReader) -> Iterator[Source]:
        """Yield one session for a file and what is beside it; the name is its id."""
        for file in _transcripts(path, reading):
            others = (_meta_of(file), _events_of(file))
            yield reading.source(self.name, _stem(file), file, *others)
        for file in reading.files_below(path, FRAMES):
            yield reading.source(self.name, file.parent.name, file)

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Read the facts, then the events if there are any, else the messages."""
        path = Path(source.path)
        if path.name == FRAMES:
            yield from read_session(path, reading)
            return
        yield _about(path, reading)
        history = _History()
        events = _events_of(path)
        first = reading.first_records(events, 1)
        if first and _is_event(first[0]):
            for line in reading.records(events):
                yield from history.happened(line, reading)
        elif path != events:
            for line in reading.records(path):
                yield from history.said(line, None)


def _transcripts(path: Path, reading: SourceReader) -> Iterator[Path]:
    for file in reading.files_below(path, ".jsonl"):
        alone = not file.name.endswith(_EVENTS) or not _beside(file, ".jsonl").is_file()
        if alone and not file.name.endswith(_OTHERS):
            yield file


def _is_own(file: Path, reading: SourceReader) -> bool:
    for line in reading.first_records(file, 3):
        if _is_event(line):
            return True
        if "role" in line and "type" not in line:
            return bool(_NAME.fullmatch(file.stem)) or _meta_of(file).is_file()
    return False


def _stem(file: Path) -> str:
    return file.name.removesuffix(_EVENTS).removesuffix(".jsonl")


def _beside(file: Path, ending: str) -> Path:
    return file.with_name(_stem(file) + ending)


def _events_of(file: Path) -> Path:
    return _beside(file, _EVENTS)


def _meta_of(file: Path) -> Path:
    return _beside(file, ".jsonl.meta")


def _is_event(line: dict[str, Any]) -> bool:
    return line.get("schema_version") == 1 and line.get("type") in ("replace", "append")


def _about(path: Path, reading: SourceReader) -> MetaItem:
    meta = document_beside(_meta_of(path), reading)
    name = _NAME.fullmatch(_stem(path))
    written = "{}-{}-{}T{}:{}:{}Z".format(*name.groups()[:6]) if name else None
    facts = {
        "title": text(meta, "topic_title") or text(meta, "name"),
        "workspace": text(meta, "workspace_root"),
        "model": text(meta, "model") or (name.group(7) if name else None),
        "parent": text(meta, "parent_id"),
        "fork_turn": count(meta, "fork_turn") or None,
        "fork_message_index": count(meta, "fork_message_index") or None,
        "scope": text(meta, "scope"),
        "topic_id": text(meta, "topic_id"),
    }
    created = meta.get("created_at") if type(meta) is dict else None
    return MetaItem(facts, parse_time(created) or parse_time(written))


class _History:
    def __init__(self) -> None:
        self._standing = HistoryDiff()

    def happened(self, event: dict[str, Any], reading: SourceReader) -> Iterator[Item]:
        """Take one event."""
        kind, at = text(event, "type"), parse_time(event.get("created_at"))
        if not _is_event(event):
            yield RawItem(f"reasonix.{kind}" if kind else "reasonix", event, at)
        elif kind == "replace":
            compaction = "compact" in text(event, "reason")
            yield from self._replaced(records(event, "messages"), at, compaction=compaction)
        elif count(event, "message_index") != len(self._standing):
            reading.report(
                f"appends behind message {count(event, 'message_index')}, "
                f"where there are {len(self._standing)}"
            )
            yield RawItem("reasonix.append", event, at)
        else:
            for line in records(event, "messages"):
                yield from self.said(line, at)

    def said(self, line: dict[str, Any], at: str | None) -> Iterator[Item]:
        """Take one message."""
        at = parse_time(line.get("createdAt")) or at
        message = _message(line)
        if message is not None:
            yield self._standing.say(message, at)
            return
        self._standing.pass_over(line)
        yield RawItem("reasonix.local" if line.get("local_only") is True else "reasonix", line, at)

    def _replaced(
        self, lines: list[dict[str, Any]], at: str | None, *, compaction: bool
    ) -> Iterator[Item]:
        standing = self._standing
        taken = [_message(line) or line for line in lines]
        messages = [each for each in taken if isinstance(each, Message)]
        same = standing.common(taken)
        prompts = sum(message.role == "system" for message in messages[:1])
        anew = same <= prompts < len(messages) and same < len(standing)
        if anew and (compaction or standing.says(len(standing) - 1, taken[-1])):
            yield standing.condense(messages, at, counted=taken)
            return
        same = standing.reachable(same)
        yield from standing.go_back(same)
        for line in lines[same:]:
            yield from self.said(line, at)


def _message(line: dict[str, Any]) -> Message | None:
    """Return a message; what only the screen shows is none."""
    if line.get("local_only") is True:
        return None
    message = openai_message(line)
    if message is None:
        return None
    signature = text(line, "reasoning_signature")
    if signature and message.content and isinstance(message.content[0], Thinking):
        thought = Thinking(text=message.content[0].text, signature=signature)
        message.content[0] = thought
    message.content.extend(image_at(url) for url in rows(line, "images"))
    return message
