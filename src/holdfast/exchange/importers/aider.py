"""aider: ``.aider.chat.history.md`` in each project, one file for all its chats.

``# aider chat started at …`` begins a chat, which is a session here. Lines behind ``#### `` are the
user's, those behind ``> `` are what aider itself printed (kept as events), the rest is the reply.
Reports of tokens and costs are among the printed lines and are counted; they are totals of all that
one prompt led to, and rounded.

Lost: chats in which nothing was asked, and what stands before the first heading. Besides, little is
in the file: aider writes no tool calls, no times within a chat, and a reply's own quotations look
like something that aider printed. A time is taken as UTC, because the file does not say which zone
it is of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.errors import ImportRejected
from holdfast.exchange.importers.base import MOST_SNIFFED
from holdfast.exchange.importing.items import (
    Item,
    MessageItem,
    MetaItem,
    RawItem,
    Source,
    UsageItem,
    local_to_folder,
)
from holdfast.exchange.importing.json_fields import count, parse_time, text
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.model.entry import Usage
from holdfast.model.message import Message, Text

_NAME = ".aider.chat.history.md"
_HEADING = b"# aider chat started at "
_STARTED = re.compile(rb"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")
_VERSION = re.compile(r"^Aider v(\S+)", re.MULTILINE)
_MODEL = re.compile(r"^(?:Main model|Model): (\S+)", re.MULTILINE)
_TOKENS = re.compile(r"([\d.,]+)(k|M)? (sent|cache write|cache hit|received)")
_REPORT = re.compile(r"^Tokens: .*(?:\nCost: .*)?", re.MULTILINE)
_COST = re.compile(r"\$([\d.]+) message")
_LARGEST = 10**12
_UNITS = {"k": 1_000, "M": 1_000_000, "": 1}
_PROMPT = b"#### "
_USER, _PRINTED, _REPLY = "user", "printed", "assistant"
_MOST_LINES = 20_000
_COST_DIGITS = 9
_TITLE_CHARACTERS = 200


class AiderImporter:
    """Chats of aider."""

    name = "aider"
    title = "aider"

    def found(self, home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
        """Return the histories that are known without a search: of home, and of this folder."""
        places = [home / _NAME]
        for name, ending in (("AIDER_CHAT_HISTORY_FILE", ""), ("PWD", _NAME)):
            place = Path(environment.get(name, ""), ending)
            if place.is_absolute() and place not in places:
                places.append(place)
        return places

    def sniff(self, path: Path, reading: SourceReader) -> bool:
        """Look for the line that begins a chat."""
        for file in islice(_files(path, reading), MOST_SNIFFED):
            if any(map(_STARTED.fullmatch, reading.head(file).split(b"\n"))):
                return True
        return False

    def sessions(self, path: Path, reading: SourceReader) -> Iterator[Source]:
        """Yield one session a chat in which something was asked.

        The project's folder and when it started are its id. Its size is that of its lines: a chat
        that has not grown is not read again.
        """
        for file in _files(path, reading):
            try:
                yield from self._chats(file, reading)
            except ImportRejected as error:
                reading.report(str(error))

    def _chats(self, file: Path, reading: SourceReader) -> Iterator[Source]:
        seen: dict[str, int] = {}
        chat: dict[str, Any] = {}
        size_bytes, asked, number, offset = 0, False, 0, 0
        for line in reading.lines(file):
            offset += (reading.line or 0) - number - 1  # blank lines, of a byte at least
            number = reading.line or 0
            started = line.startswith(_HEADING) and _STARTED.fullmatch(line)
            if started:
                if asked:
                    yield self._source(file, chat, size_bytes)
                when = started[1].decode()
                seen[when] = seen.get(when, 0) + 1
                chat = {"started": when, "number": seen[when], "offset": offset}
                size_bytes, asked = 0, False
            elif chat:
                size_bytes, asked = size_bytes + len(line) + 1, asked or line.startswith(_PROMPT)
            offset += len(line) + 1
        if asked:
            yield self._source(file, chat, size_bytes)

    def _source(self, file: Path, chat: dict[str, Any], size_bytes: int) -> Source:
        again = f" ({chat['number']})" if chat["number"] > 1 else ""
        id = f"{file.parent.name} {chat['started']}{again}"
        return local_to_folder(Source(self.name, id, str(file), size_bytes, 0, chat))

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Read one chat; of several that started in the same second, the one that is meant."""
        started, number = text(source.detail, "started"), count(source.detail, "number")
        offset = count(source.detail, "offset") if number == 1 else 0
        wanted, chat = started.encode("utf-8", "surrogatepass"), None
        for line in reading.lines(source.path, from_bytes=offset):
            if not line.startswith(_HEADING) or not (begun := _STARTED.fullmatch(line)):
                if chat is not None:
                    yield from chat.take(line.decode("utf-8", "replace"), reading.line or 0)
            elif chat is not None:
                break
            elif begun[1] == wanted:
                number -= 1
                if number == 0:
                    chat = _Chat(reading.line or 0)
                    workspace = str(Path(source.path).parent)
                    yield MetaItem({"workspace": workspace}, parse_time(started))
        if chat is not None:
            yield from chat.flush()


def _files(path: Path, reading: SourceReader) -> Iterator[Path]:
    return reading.files_below(path, _NAME if path.is_dir() else ".md")


class _Chat:
    def __init__(self, line: int) -> None:
        self._line = line
        self._who = ""
        self._lines: list[str] = []
        self._model: str | None = None
        self._sent = (0, 0, 0.0)  # since the last prompt
        self._commands: int | None = 0  # that stand before the first prompt

    def take(self, line: str, number: int) -> Iterator[Item]:
        """Take one line; ``number`` tells how many blank ones were left out before it."""
        blank, self._line = number - self._line - 1, number
        who, words = _REPLY, line
        if line.startswith("#### "):
            who, words = _USER, line[5:].rstrip()
        elif line.startswith("> ") or line.rstrip() == ">":
            who, words = _PRINTED, line[2:].rstrip()
        elif self._who == _PRINTED and not blank and line.startswith("Cost: $"):
            who = _PRINTED  # the second line of a report, which aider writes without a mark
        if who != self._who or len(self._lines) > _MOST_LINES or (blank and who == _USER):
            yield from self.flush()
            self._who = who
        elif blank and who == _REPLY:
            self._lines += [""] * min(blank, _MOST_LINES)
        self._lines.append(words)

    def flush(self) -> Iterator[Item]:
        """Say what was gathered."""
        words, self._lines = "\n".join(self._lines).strip("\n"), []
        if not words:
            return
        if self._who == _PRINTED:
            yield from self._printed(words)
            return
        model = self._model if self._who == _REPLY else None
        yield MessageItem(Message(role=self._who, content=[Text(text=words)], model=model))
        if self._who == _USER:
            self._sent = (0, 0, 0.0)
            yield from self._titled(words)

    def _titled(self, words: str) -> Iterator[Item]:
        """Name a chat that begins with commands after the first thing that is none."""
        if self._commands is None:
            return
        if words.startswith("/"):
            self._commands += 1
            return
        if self._commands:
            yield MetaItem({"title": " ".join(words.split())[:_TITLE_CHARACTERS]})
        self._commands = None

    def _printed(self, words: str) -> Iterator[Item]:
        model, version = _MODEL.search(words), _VERSION.search(words)
        if model:
            self._model = model[1]
        if model or version:
            facts = {"model": self._model, "agent_version": version[1] if version else None}
            yield MetaItem(facts)
        yield RawItem("aider.printed", {"text": words})
        for report in _REPORT.findall(words):
            yield from self._spent(report)

    def _spent(self, report: str) -> Iterator[Item]:
        told = {name: _number(digits, unit) for digits, unit, name in _TOKENS.findall(report)}
        paid = _COST.search(report)
        sent, received = told.get("sent", 0), told.get("received", 0)
        cost = _amount(paid[1]) if paid else None
        before, self._sent = self._sent, (sent, received, cost or 0.0)
        if sent < before[0] or received < before[1]:
            before = (0, 0, 0.0)
        read, written = told.get("cache hit", 0), told.get("cache write", 0)
        usage = Usage(
            input=max(0, sent - before[0] - read - written),
            output=received - before[1],
            cost_usd=None if cost is None else round(max(0.0, cost - before[2]), _COST_DIGITS),
            cache_read=read,
            cache_write=written,
            model=self._model,
        )
        yield UsageItem(usage)


def _amount(digits: str) -> float:
    try:
        return float(digits.replace(",", ""))
    except ValueError:
        return 0.0


def _number(digits: str, unit: str) -> int:
    return int(min(_amount(digits) * _UNITS[unit], _LARGEST))
