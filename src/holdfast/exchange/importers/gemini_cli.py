"""Gemini CLI: ``~/.gemini/tmp/<project>/chats/session-*.jsonl``; older ones are one JSON document.

A message is written again, whole, whenever something about it changes (a tool ends, tokens are
known): the last line of an id counts. So the last few messages wait until they are said; a change
of one that was said long ago is kept as an event. ``$rewindTo`` takes back a message and all after
it. ``$set`` with ``messages`` says what the conversation is now, which every resume does: it is
compared with what was said, and only what differs becomes a branch. Files of one ``sessionId`` are
one session.

Results stand with the calls, and again in a line of type ``user`` with nothing but
``functionResponse``: they are said once, each for its own call.

Lost: how results were shown (``resultDisplay``, ``displayContent``), and the environment
(``<session_context>``) as it was when a session was resumed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast.errors import ImportRejected
from holdfast.exchange.importers.base import MOST_SNIFFED
from holdfast.exchange.importing.content_blocks import call_of, gemini_parts, result
from holdfast.exchange.importing.items import (
    HeadItem,
    Item,
    MessageItem,
    MetaItem,
    OpenItem,
    RawItem,
    Source,
    UsageItem,
    local_to_folder,
)
from holdfast.exchange.importing.json_fields import count, parse_time, record, records, text
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.model.entry import Usage
from holdfast.model.message import (
    AnyPart,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

_ENDINGS = (".jsonl", ".json")
_MOST_WAITING = 8
_MOST_REMEMBERED = 20_000
_LONGEST_PATH_BYTES = 4096
_DONE = frozenset({"success", "error", "cancelled"})
_CONTEXT = "<session_context>"
_TITLE_CHARACTERS = 200


class GeminiCliImporter:
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
        """Yield one session for a file, and for all later ones that name the same session."""
        groups: dict[tuple[Path, str], list[Path]] = {}
        for file in _files(path, reading):
            # A name ends in the beginning of the session's id.
            groups.setdefault((file.parent, file.stem.rpartition("-")[2]), []).append(file)
        for files in groups.values():
            same: dict[str, list[Path]] = {}
            for file in files:
                id = _session_in(file, reading) if len(files) > 1 else ""
                same.setdefault(id or str(file), []).append(file)
            for first, *others in same.values():
                yield local_to_folder(reading.source(self.name, first.stem, first, *others))

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Read either form."""
        path = Path(source.path)
        root = reading.head(path.parent.parent / ".project_root", _LONGEST_PATH_BYTES)
        chat = _Chat()
        parent = path.parent.name if path.parent.parent.name == "chats" else None
        yield MetaItem({"workspace": root.decode("utf-8", "replace").strip(), "parent": parent})
        for file in (path, *map(Path, source.others)):
            try:
                yield from _lines_of(chat, file, reading)
            except ImportRejected as error:
                if file == path:
                    raise
                reading.path, reading.line = str(file), None
                reading.report(error.reason)
        yield from chat.flush(end=True)


def _lines_of(chat: _Chat, file: Path, reading: SourceReader) -> Iterator[Item]:
    if not file.name.endswith(".json"):
        for line in reading.records(file):
            yield from chat.take(line)
        return
    document = reading.document(file)
    yield from chat.about(document if type(document) is dict else {})
    if chat.is_begun:
        yield from chat.set_messages(records(document, "messages"))
    for line in [] if chat.is_begun else records(document, "messages"):
        yield from chat.take(line)


def _session_in(file: Path, reading: SourceReader) -> str:
    """Return the id that a file of lines begins with; a document is a session of its own."""
    first = [] if file.name.endswith(".json") else reading.first_records(file, 1)
    return text(first[0], "sessionId") if first else ""


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


class _Told(Struct, frozen=True, gc=False):
    """A message that was said: what it hangs on, what comes after it and its results, its words."""

    parent: str | None
    last: str | None
    words: int


class _Chat:
    def __init__(self) -> None:
        self._waiting: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._told: OrderedDict[str, _Told] = OrderedDict()
        self._answered: OrderedDict[str, None] = OrderedDict()
        self._counted: OrderedDict[str, None] = OrderedDict()
        self._last: str | None = None
        self._model: str | None = None
        self._unnamed: bool | None = None
        self._has_title = False

    @property
    def is_begun(self) -> bool:
        """Whether anything was said."""
        return bool(self._told or self._waiting)

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
            elif id in self._told:
                if not _is_results(line):
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
        self._has_title |= bool(text(line, "summary"))
        facts = {"provider": "google", "title": text(line, "summary")}
        yield MetaItem(facts, parse_time(line.get("startTime")))

    def _set(self, changes: dict[str, Any]) -> Iterator[Item]:
        if text(changes, "summary"):
            self._has_title = True
            yield MetaItem({"title": text(changes, "summary")})
        if type(changes.get("messages")) is list:
            yield from self.set_messages(records(changes, "messages"))

    def set_messages(self, messages: list[dict[str, Any]]) -> Iterator[Item]:
        """Take the conversation as it is now; what was said before is not said again."""
        yield from self.flush()
        place: str | None = None
        for index, message in enumerate(messages):
            told = self._told.get(text(message, "id"))
            if _is_results(message) and all(id in self._answered for id in _response_ids(message)):
                continue
            if told is None or (told.parent, told.words) != (place, _words(message)):
                yield from self._go_to(place)
                for each in messages[index:]:
                    yield from self._say(each)
                return
            place = told.last
        yield from self._go_to(place)

    def _go_to(self, place: str | None) -> Iterator[Item]:
        if place != self._last or place is None:
            self._last = place
            yield HeadItem(place)

    def _rewound(self, id: str) -> Iterator[Item]:
        yield from self.flush()
        if id in self._told:
            self._last = self._told[id].parent
            yield HeadItem(self._last)

    def flush(self, *, end: bool = False) -> Iterator[Item]:
        """Say everything that waits; at the end of the file, calls may still be running."""
        while self._waiting:
            line = self._waiting.popitem(last=False)[1]
            calls = records(line, "toolCalls")
            if end and not self._waiting and any(text(c, "status") not in _DONE for c in calls):
                yield OpenItem()
            yield from self._say(line)

    def _say(self, line: dict[str, Any]) -> Iterator[Item]:
        id, kind, at = text(line, "id"), text(line, "type"), parse_time(line.get("timestamp"))
        if kind not in ("user", "gemini"):
            yield RawItem(f"gemini-cli.{kind}" if kind else "gemini-cli", line, at)
            return
        parent = self._last
        said = self._prompt(line, id, at) if kind == "user" else self._reply(line, id, at)
        yield from said
        if not (_is_results(line) and id in self._told):  # results may have the id of their reply
            _remember(self._told, id, _Told(parent, self._last, _words(line)))

    def _prompt(self, line: dict[str, Any], id: str, at: str | None) -> Iterator[Item]:
        responses = [record(each, "functionResponse") for each in _rows(line)]
        for response in filter(None, responses):
            yield from self._answer(_result_of(response), at)
        content = line.get("content")
        if any(responses):
            content = [each for each in _rows(line) if not record(each, "functionResponse")]
            if not content:
                return
        parts = _parts(content)
        words = next((part.text for part in parts if isinstance(part, Text)), "")
        generated = words.lstrip().startswith(_CONTEXT)
        self._last = id
        extra = {"generated": True} if generated else {}
        yield MessageItem(Message(role="user", content=parts, extra=extra), at, id)
        if generated:
            self._unnamed = self._unnamed is not False
            return
        if self._unnamed and not self._has_title:
            yield MetaItem({"title": " ".join(words.split())[:_TITLE_CHARACTERS]})
        self._unnamed = False

    def _reply(self, line: dict[str, Any], id: str, at: str | None) -> Iterator[Item]:
        self._last = id
        self._model = text(line, "model") or self._model
        calls = records(line, "toolCalls")
        thoughts = [_thought(each) for each in records(line, "thoughts")]
        wishes = [call_of(text(call, "id"), text(call, "name"), call.get("args")) for call in calls]
        known = {wish.id for wish in wishes}
        parts = [
            part
            for part in _parts(line.get("content"))
            if not isinstance(part, ToolCall) or part.id not in known
        ]
        asked = known | {part.id for part in parts if isinstance(part, ToolCall)}
        for each in asked:  # said on another branch, perhaps
            self._answered.pop(each, None)
        message = Message(
            role="assistant",
            content=[*thoughts, *parts, *wishes],
            model=text(line, "model") or self._model,
            stop="tools" if asked else None,
        )
        yield MessageItem(message, at, id)
        yield from self._spent(line, id, at)
        for call in calls:
            if text(call, "status") in _DONE:
                answered = parse_time(call.get("timestamp")) or at
                yield from self._answer(_result_in(call), answered)

    def _answer(self, done: ToolResult, at: str | None) -> Iterator[Item]:
        """Say the result of a call, unless it was said on this branch."""
        if done.call_id and done.call_id in self._answered:
            return
        _remember(self._answered, done.call_id, None)
        self._last = f"{self._last}/{done.call_id}"
        yield MessageItem(Message(role="tool", content=[done]), at, self._last)

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


def _remember(kept: OrderedDict[str, Any], id: str, value: Any) -> None:
    kept[id] = value
    if len(kept) > _MOST_REMEMBERED:
        kept.popitem(last=False)


def _rows(line: dict[str, Any]) -> list[Any]:
    content = line.get("content")
    return content if type(content) is list else []


def _is_results(line: dict[str, Any]) -> bool:
    """Tell whether a line says nothing but what calls came to."""
    rows = _rows(line)
    return (
        text(line, "type") == "user"
        and bool(rows)
        and all(record(each, "functionResponse") for each in rows)
    )


def _response_ids(line: dict[str, Any]) -> list[str]:
    return [text(record(each, "functionResponse"), "id") for each in _rows(line)]


def _words(line: dict[str, Any]) -> int:
    """Return a number for what a message says, whichever of its two forms it has."""
    parts = _parts(line.get("content"))
    words = "".join(part.text for part in parts if isinstance(part, Text))
    if words.lstrip().startswith(_CONTEXT):
        return hash(_CONTEXT)  # every resume brings the environment up to date
    calls = {text(call, "id") for call in records(line, "toolCalls")}
    calls |= {part.id for part in parts if isinstance(part, ToolCall)}
    return hash((text(line, "type"), words, *sorted(calls)))


def _thought(thought: dict[str, Any]) -> Thinking:
    subject, description = text(thought, "subject"), text(thought, "description")
    return Thinking(text=f"**{subject}** {description}" if subject else description)


def _result_in(call: dict[str, Any]) -> ToolResult:
    """Return the result of a call; it may stand among those of calls beside it."""
    id, content = text(call, "id"), call.get("result")
    rows = content if type(content) is list else [content]
    own = [each for each in rows if text(record(each, "functionResponse"), "id") == id]
    parts = _parts(own if own and id else content)
    done = result(id, parts, failed=text(call, "status") == "error")
    if text(call, "status") == "cancelled":
        return type(done)(call_id=done.call_id, content=parts, outcome="cancelled")
    return done


def _result_of(response: dict[str, Any]) -> ToolResult:
    (done,) = gemini_parts([{"functionResponse": response}])
    return done if isinstance(done, ToolResult) else result("", [done])


def _parts(content: Any) -> list[AnyPart]:
    """Return the parts of a message; those of a result are what it shows."""
    if type(content) is str:
        return [Text(text=content)] if content else []
    if type(content) is not list:
        content = [] if content is None else [content]
    found: list[AnyPart] = []
    for part in gemini_parts(content):
        found += part.content if isinstance(part, ToolResult) else [part]
    return found
