"""opencode: rows of ``opencode.db``; older, a JSON file for each session, message and part.

What ``opencode export`` writes (one document a session) is read too. A part of type ``tool`` is a
call and its result at once, and an older message may have several steps, each a request of its
own: a step becomes a message, and then the results of its calls. A message that is marked as a
summary takes the place of all before it.

Lost: how a result was shown (its ``title`` and ``metadata``), and the names of the snapshots that
steps begin and end with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.errors import ImportRejected
from holdfast.exchange.importers.base import MOST_SNIFFED
from holdfast.exchange.importing.content_blocks import image_at, result
from holdfast.exchange.importing.items import (
    HeadItem,
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
    text,
)
from holdfast.exchange.importing.source_files import SourceReader, is_plain_name
from holdfast.model.entry import Usage
from holdfast.model.message import AnyPart, File, Image, Message, Text, Thinking, ToolCall

_DATABASE = "opencode.db"
_TABLES = {"session", "message", "part"}
_SESSIONS = """
    SELECT s.*, (SELECT count(*) FROM message m WHERE m.session_id = s.id) AS messages
    FROM session s ORDER BY s.time_created, s.id
"""
_ANY_SESSIONS = "SELECT * FROM session NOT INDEXED"
_MESSAGES = """
    SELECT m.id AS message, m.data AS info, p.data AS part, p.id AS part_id
    FROM message m LEFT JOIN part p ON p.message_id = m.id
    WHERE m.session_id = ? ORDER BY m.time_created, m.id, p.id
"""
_ANY_MESSAGES = """
    SELECT m.id AS message, m.data AS info, p.data AS part, p.id AS part_id
    FROM message m NOT INDEXED LEFT JOIN part p ON p.message_id = m.id WHERE m.session_id = ?
"""
_SESSION = re.compile(rb'"id"\s*:\s*"(ses_[A-Za-z0-9_]{1,100})"')
_MOST_PARTS = 20_000
_STOPS = {"stop": "end", "tool-calls": "tools"}
_OUTCOMES = {"completed": False, "error": True}


class OpencodeImporter:
    """Sessions of opencode."""

    name = "opencode"
    title = "opencode"

    def found(self, home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
        """Return the database and the folder of older sessions."""
        configured = environment.get("XDG_DATA_HOME")
        base = (Path(configured) if configured else home / ".local" / "share") / "opencode"
        return [base / _DATABASE, base / "storage" / "session"]

    def sniff(self, path: Path, reading: SourceReader) -> bool:
        """Look for the tables, for the name of a session's file, or into a document."""
        files = islice(reading.files_below(path, ".db", ".json"), MOST_SNIFFED)
        return any(_is_own(file, reading) for file in files)

    def sessions(self, path: Path, reading: SourceReader) -> Iterator[Source]:
        """Yield the sessions of a database, of a folder of files, or of exported documents."""
        for file in reading.files_below(path, ".db", ".json"):
            if file.name.endswith(".db"):
                yield from self._in_database(file, reading)
            elif file.name.startswith("ses_"):
                messages = _message_files(file, file.stem, reading)
                yield reading.source(self.name, file.stem, file, *messages, form="files")
            elif not file.name.startswith(("msg_", "prt_")):
                named = _SESSION.search(reading.head(file))
                id = named[1].decode() if named else file.stem
                yield reading.source(self.name, id, file, form="document")

    def _in_database(self, file: Path, reading: SourceReader) -> Iterator[Source]:
        if not reading.tables(file) >= _TABLES:
            return
        try:
            for row in reading.rows(file, _SESSIONS, otherwise=_ANY_SESSIONS):
                id, updated = text(row, "id"), count(row, "time_updated")
                if id:
                    size = count(row, "messages")
                    facts = {k: v for k, v in row.items() if type(v) in (str, int)}
                    detail = {"form": "database", "session": facts}
                    yield Source(self.name, id, str(file), size, updated * 1_000_000, detail)
        except ImportRejected as error:
            reading.report(error.reason)

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Read any of the forms."""
        form, path = source.detail.get("form"), Path(source.path)
        if form == "database":
            session = record(source.detail, "session")
            messages = _from_rows(reading, path, source.id)
        elif form == "files":
            document = reading.document(path)
            session = document if type(document) is dict else {}
            messages = _from_files(reading, path, source.id)
        else:
            document = reading.document(path)
            session = record(document, "info")
            messages = iter(
                [(record(m, "info"), records(m, "parts")) for m in records(document, "messages")]
            )
        yield _about(session)
        yield MetaItem({"copied": True})  # a fork has its past under new ids, and names no parent
        chat = _Chat(text(parsed(session.get("revert")), "messageID"))
        for info, parts in messages:
            yield from chat.take(info, parts)
        yield from chat.end()


def _is_own(file: Path, reading: SourceReader) -> bool:
    if file.name.endswith(".db"):
        tables = reading.tables(file)  # none if it is damaged
        return tables >= _TABLES or (not tables and file.name == _DATABASE)
    if file.name.startswith("ses_") or file.parent.name.startswith(("ses_", "msg_")):
        return True
    head = reading.head(file)
    return b'"info"' in head and b'"ses_' in head


_Messages = Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]


def _from_rows(reading: SourceReader, path: Path, session: str) -> _Messages:
    info: dict[str, Any] = {}
    parts: list[dict[str, Any]] = []
    for row in reading.rows(path, _MESSAGES, session, otherwise=_ANY_MESSAGES):
        if row["message"] != info.get("id"):
            if info:
                yield info, parts
            decoded = parsed(row["info"])
            info = {**(decoded if type(decoded) is dict else {}), "id": row["message"]}
            parts = []
        part = parsed(row["part"])
        if type(part) is dict and len(parts) < _MOST_PARTS:
            parts.append({**part, "id": row["part_id"]})
        elif row["part_id"] is not None:
            reading.report(f"part {row['part_id']} cannot be read")
    if info:
        yield info, parts


def _from_files(reading: SourceReader, path: Path, session: str) -> _Messages:
    for file in _message_files(path, session, reading):
        try:
            info = reading.document(file)
        except ImportRejected as error:
            reading.report(error.reason)
            continue
        if type(info) is dict:
            yield info, list(_part_files(file, reading))


def _message_files(path: Path, session: str, reading: SourceReader) -> list[Path]:
    folder = _storage(path) / "message" / session
    return list(reading.files_below(folder, ".json")) if is_plain_name(session) else []


def _part_files(message: Path, reading: SourceReader) -> Iterator[dict[str, Any]]:
    for file in reading.files_below(_storage(message) / "part" / message.stem, ".json"):
        try:
            part = reading.document(file)
        except ImportRejected as error:
            reading.report(error.reason)
            continue
        if type(part) is dict:
            yield part


def _storage(path: Path) -> Path:
    """Return the folder that has sessions, messages and parts: ``session/<project>/<id>.json``."""
    return path.parent.parent.parent


def _about(session: dict[str, Any]) -> MetaItem:
    times = record(session, "time")
    parent = text(session, "parent_id") or text(session, "parentID")
    facts = {
        "title": text(session, "title"),
        "workspace": text(session, "directory"),
        "agent_version": text(session, "version"),
        "parent": parent,
    }
    return MetaItem(facts, parse_time(session.get("time_created") or times.get("created")))


class _Chat:
    def __init__(self, reverted: str) -> None:
        self._last: str | None = None
        self._reverted = reverted
        self._end: HeadItem | None = None

    def take(self, info: dict[str, Any], parts: list[dict[str, Any]]) -> Iterator[Item]:
        """Take one message with its parts."""
        id, role = text(info, "id"), text(info, "role")
        at = parse_time(record(info, "time").get("created"))
        if id and id == self._reverted:
            self._end = HeadItem(self._last)
        if role == "user":
            yield from self._prompt(id, at, parts)
        elif role == "assistant":
            yield from self._reply(id, at, info, parts)
        else:
            yield RawItem("opencode.message", {"info": info, "parts": parts}, at)

    def _prompt(self, id: str, at: str | None, parts: list[dict[str, Any]]) -> Iterator[Item]:
        content: list[AnyPart] = []
        for part in parts:
            kind = text(part, "type")
            if kind == "text":
                content.append(Text(text=text(part, "text")))
            elif kind == "file":
                content.append(_file(part))
            else:
                yield RawItem(f"opencode.{kind}" if kind else "opencode", part, at)
        if content:
            yield self._say(Message(role="user", content=content), at, id)

    def _reply(
        self, id: str, at: str | None, info: dict[str, Any], parts: list[dict[str, Any]]
    ) -> Iterator[Item]:
        model = text(info, "modelID") or None
        if info.get("summary") is True:
            words = "".join(text(part, "text") for part in parts if text(part, "type") == "text")
            self._last = id
            yield SummaryItem([Message(role="assistant", content=[Text(text=words)])], at=at, id=id)
            yield from self._spent(info, _request(info, 0), model, at)
            return
        if text(info, "providerID"):
            yield MetaItem({"provider": text(info, "providerID")})
        step, number, counted = _Step(), 0, False
        for part in parts:
            kind = text(part, "type")
            if kind == "step-start" and step.content:
                yield from self._step(step, id, number, model, at)
                step, number = _Step(), number + 1
            elif kind == "step-finish":
                counted = True
                yield from self._spent(part, _request(info, number), model, at)
            elif kind not in ("step-start", "text", "reasoning", "tool"):
                yield RawItem(f"opencode.{kind}" if kind else "opencode", part, at)
            step.take(kind, part)
        step.stop = text(info, "finish") or step.stop
        yield from self._step(step, id, number, model, at)
        if not counted:
            yield from self._spent(info, _request(info, 0), model, at)
        if info.get("error"):
            yield RawItem("opencode.error", info["error"], at)

    def _step(
        self, step: _Step, id: str, number: int, model: str | None, at: str | None
    ) -> Iterator[Item]:
        if step.content:
            stop = "tools" if step.answers else _STOPS.get(step.stop, step.stop) or None
            message = Message(role="assistant", content=step.content, model=model, stop=stop)
            yield self._say(message, at, f"{id}/{number}" if number else id)
        for index, (answer, when) in enumerate(step.answers):
            yield self._say(
                Message(role="tool", content=[answer]), when or at, f"{id}/{number}.{index}"
            )

    def _say(self, message: Message, at: str | None, id: str) -> MessageItem:
        self._last = id
        return MessageItem(message, at, id)

    def _spent(
        self, part: dict[str, Any], id: str, model: str | None, at: str | None
    ) -> Iterator[Item]:
        tokens = record(part, "tokens")
        cache = record(tokens, "cache")
        usage = Usage(
            input=count(tokens, "input"),
            output=count(tokens, "output") + count(tokens, "reasoning"),
            cost_usd=amount(part, "cost"),
            cache_read=count(cache, "read"),
            cache_write=count(cache, "write"),
            model=model,
            request=id,
        )
        if usage.input or usage.output or usage.cache_read or usage.cost_usd:
            yield UsageItem(usage, at)

    def end(self) -> Iterator[Item]:
        """Go back to before what was taken back, if anything was."""
        if self._end is not None:
            yield self._end


def _request(info: dict[str, Any], number: int) -> str:
    """Return what names a request in a session and in its forks: its reply's time and step."""
    created = record(info, "time").get("created")
    return f"{created if created is not None else text(info, 'id')}/{number}"


class _Step:
    """What one request of a model said and called."""

    def __init__(self) -> None:
        self.content: list[AnyPart] = []
        self.stop = ""
        self.answers: list[tuple[AnyPart, str | None]] = []

    def take(self, kind: str, part: dict[str, Any]) -> None:
        if kind == "text":
            self.content.append(Text(text=text(part, "text")))
        elif kind == "reasoning":
            self.content.append(Thinking(text=text(part, "text")))
        elif kind == "step-finish":
            self.stop = text(part, "reason")
        elif kind == "tool":
            state, call = record(part, "state"), text(part, "callID")
            arguments = state.get("input", {})
            self.content.append(ToolCall(id=call, name=text(part, "tool"), arguments=arguments))
            status = text(state, "status")
            if status in _OUTCOMES:
                words = text(state, "output") or text(state, "error")
                shown: list[AnyPart] = [Text(text=words)] if words else []
                shown += [_file(each) for each in records(state, "attachments")]
                answer = result(call, shown, failed=_OUTCOMES[status])
                self.answers.append((answer, parse_time(record(state, "time").get("end"))))


def _file(part: dict[str, Any]) -> AnyPart:
    url, media = text(part, "url"), text(part, "mime") or "application/octet-stream"
    head, comma, data = url.partition(";base64,")
    if media.startswith("image/"):
        image = image_at(url)
        return (
            image if isinstance(image, Image) and image.data else Image(media_type=media, url=url)
        )
    name = text(part, "filename") or "file"
    if comma and head.startswith("data:"):
        return File(name=name, media_type=media, data=data)
    return File(name=name, media_type=media, url=url or None)
