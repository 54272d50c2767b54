"""zot: ``$ZOT_HOME/sessions/<folder>/<time>-<id>.jsonl``; ``.zotsession`` is the same, exported.

Blocks of a message carry no type and are told apart by their fields. What requests cost is a
running total: what it grew by is counted (a row without one counts by itself). A fork begins with
the lines of its parent, totals included; all copies share the time of their first message, and
nothing is counted twice.

Lost: the ids of reasoning items, and ``meta`` of single messages.
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
from holdfast.exchange.importing.json_fields import (
    amount,
    count,
    parse_time,
    parsed,
    record,
    records,
    rows,
    text,
)
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.model.entry import Usage
from holdfast.model.message import AnyPart, Image, Message, Opaque, Text, Thinking

_ENDINGS = (".jsonl", ".zotsession")
_ROLES = frozenset({"user", "assistant", "tool", "system"})
_NUMBERS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
_COST_DIGITS = 9


class ZotImporter:
    """Sessions of zot."""

    name = "zot"
    title = "zot"

    def found(self, home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
        """Return the folder of sessions: the configured one, or those of Linux and macOS."""
        configured, state = environment.get("ZOT_HOME"), environment.get("XDG_STATE_HOME")
        if configured:
            return [Path(configured) / "sessions"]
        base = Path(state) if state else home / ".local" / "state"
        mac = home / "Library" / "Application Support"
        return [base / "zot" / "sessions", mac / "zot" / "sessions"]

    def sniff(self, path: Path, reading: SourceReader) -> bool:
        """Look for the line of facts, which has them in a field of its own."""
        for file in islice(reading.files_below(path, *_ENDINGS), MOST_SNIFFED):
            for line in reading.first_records(file):
                if line.get("type") == "meta" and record(line, "meta"):
                    return True
        return False

    def sessions(self, path: Path, reading: SourceReader) -> Iterator[Source]:
        """Yield one session a file; its whole id is in the first line."""
        for file in reading.files_below(path, *_ENDINGS):
            first = parsed(reading.head(file).partition(b"\n")[0].decode("utf-8", "replace"))
            id = text(record(first, "meta"), "id") or file.stem
            yield reading.source(self.name, id, file)

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Read the lines."""
        transcript = _Transcript()
        for line in reading.records(source.path):
            yield from transcript.take(line)


class _Transcript:
    def __init__(self) -> None:
        self._model: str | None = None
        self._begun = False
        self._total: dict[str, int] = {}
        self._cost = 0.0
        self._rows = 0

    def take(self, line: dict[str, Any]) -> Iterator[Item]:
        """Take one line."""
        kind = text(line, "type")
        if kind == "message":
            yield from self._said(line)
        elif kind == "usage":
            yield from self._spent(line)
        elif kind == "meta" and record(line, "meta"):
            yield self._about(record(line, "meta"))
        elif kind == "rename" and text(line, "title"):
            yield MetaItem({"title": text(line, "title")})
        elif kind == "compaction":
            yield from self._compacted(line)
        else:
            yield RawItem(f"zot.{kind}" if kind else "zot", line, parse_time(line.get("time")))

    def _about(self, meta: dict[str, Any]) -> MetaItem:
        self._model = text(meta, "model") or self._model
        return MetaItem(
            {
                "title": text(meta, "title"),
                "workspace": text(meta, "cwd"),
                "provider": text(meta, "provider"),
                "model": text(meta, "model"),
                "agent_version": text(meta, "version"),
                "parent": text(meta, "parent"),
                "fork_point": count(meta, "fork_point") or None,
            },
            parse_time(meta.get("started")),
        )

    def _said(self, line: dict[str, Any]) -> Iterator[Item]:
        told = record(line, "message")
        message = self._message(told)
        if message is None:
            yield RawItem("zot.message", line)
            return
        if not self._begun:
            self._begun = True
            yield MetaItem({"family": text(told, "time")})
        yield MessageItem(message, parse_time(told.get("time")))

    def _message(self, told: dict[str, Any]) -> Message | None:
        role = text(told, "role")
        if role not in _ROLES:
            return None
        model = self._model if role == "assistant" else None
        return Message(role=role, content=_parts(told), model=model)

    def _compacted(self, line: dict[str, Any]) -> Iterator[Item]:
        told = records(line, "messages")
        summary = [message for message in map(self._message, told) if message is not None]
        if summary:
            times = [parse_time(line.get("time")), *(parse_time(each.get("time")) for each in told)]
            yield SummaryItem(summary, at=max((at for at in times if at), default=None))
        else:
            yield RawItem("zot.compaction", line)

    def _spent(self, line: dict[str, Any]) -> Iterator[Item]:
        row = record(line, "cumulative")
        if not row:
            yield self._single(record(line, "usage"))
            return
        total, cost = {name: count(row, name) for name in _NUMBERS}, amount(row, "cost_usd")
        if total == self._total:
            return
        before, paid = self._total, self._cost
        if any(total[name] < before.get(name, 0) for name in _NUMBERS):
            before, paid = {}, 0.0  # counted anew: by a process that did not go on from the last
        grown = [total[name] - before.get(name, 0) for name in _NUMBERS]
        self._total, self._cost = total, cost or 0.0
        usage = Usage(
            input=grown[0],
            output=grown[1],
            cost_usd=None if cost is None else round(max(0.0, cost - paid), _COST_DIGITS),
            cache_read=grown[2],
            cache_write=grown[3],
            model=self._model,
            request="total-" + "-".join(str(total[name]) for name in _NUMBERS),
        )
        yield UsageItem(usage)

    def _single(self, row: dict[str, Any]) -> UsageItem:
        """Return a row without a running total: it is what one request cost."""
        self._rows += 1
        numbers = [count(row, name) for name in _NUMBERS]
        usage = Usage(
            input=numbers[0],
            output=numbers[1],
            cost_usd=amount(row, "cost_usd"),
            cache_read=numbers[2],
            cache_write=numbers[3],
            model=self._model,
            request="-".join(map(str, ("row", self._rows, *numbers))),
        )
        return UsageItem(usage)


def _parts(told: dict[str, Any]) -> list[AnyPart]:
    return [_part(block) for block in rows(told, "content")]


def _part(block: Any) -> AnyPart:
    if text(block, "reasoning_id") or text(block, "encrypted_content"):
        signature = text(block, "encrypted_content") or None
        return Thinking(text=text(block, "summary"), signature=signature)
    if text(block, "name") and text(block, "id"):
        return call_of(text(block, "id"), text(block, "name"), block.get("arguments"))
    if text(block, "call_id"):
        failed = block.get("is_error") is True
        return result(text(block, "call_id"), _parts(block), failed=failed)
    if text(block, "mime_type"):
        return Image(media_type=text(block, "mime_type"), data=text(block, "data"))
    if type(block) is dict and type(block.get("text")) is str:
        return Text(text=block["text"])
    return Opaque(vendor="zot", data=block)
