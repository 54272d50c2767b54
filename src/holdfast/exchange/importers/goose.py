"""goose: rows of ``sessions.db``; older, a file of lines a session, the first one with its facts.

Content is a list of tagged blocks. A result is a message of role ``user`` there and of role
``tool`` here. goose keeps running totals for a session, not what each request cost: they are
counted as one.

A compaction leaves the old messages to the user alone (``agentVisible`` is false), and puts a
summary behind them for the agent alone (``userVisible`` is false). A message that neither sees is
the summary of an earlier compaction; it is kept as an event.

Lost: how much each request cost, which goose does not say; the ids of messages and what it notes
about them (``message_id``, ``metadata_json``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

from holdfast.errors import ImportRejected
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
    local_to_folder,
)
from holdfast.exchange.importing.json_fields import count, parse_time, parsed, record, records, text
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.model.codec import dumps
from holdfast.model.entry import Usage
from holdfast.model.message import AnyPart, Image, Message, Opaque, Text, Thinking

_DATABASE = "sessions.db"
_TABLES = {"sessions", "messages"}
_SESSIONS = """
    SELECT s.*, (SELECT count(*) FROM messages m WHERE m.session_id = s.id) AS messages
    FROM sessions s ORDER BY s.created_at, s.id
"""
_ANY_SESSIONS = "SELECT * FROM sessions NOT INDEXED"
_MESSAGES = "SELECT * FROM messages WHERE session_id = ? ORDER BY id"
_ANY_MESSAGES = "SELECT * FROM messages NOT INDEXED WHERE session_id = ?"
_FACTS = """
    name description working_dir created_at updated_at provider_name model_config_json input_tokens
    output_tokens accumulated_input_tokens accumulated_output_tokens
""".split()  # noqa: SIM905  a list of names reads best as a list of names


class GooseImporter:
    """Sessions of goose."""

    name = "goose"
    title = "goose"

    def found(self, home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
        """Return the folder that has the database, or older files."""
        configured = environment.get("XDG_DATA_HOME")
        base = Path(configured) if configured else home / ".local" / "share"
        mac = home / "Library" / "Application Support" / "Block" / "goose"
        return [base / "goose" / "sessions", mac / "sessions"]

    def sniff(self, path: Path, reading: SourceReader) -> bool:
        """Look for the tables, or for the facts that begin an older file."""
        files = islice(reading.files_below(path, ".db", ".jsonl"), MOST_SNIFFED)
        return any(_is_own(file, reading) for file in files)

    def sessions(self, path: Path, reading: SourceReader) -> Iterator[Source]:
        """Yield the sessions of a database, then those of older files."""
        for file in reading.files_below(path, ".db", ".jsonl"):
            if file.name.endswith(".db"):
                yield from self._in_database(file, reading)
            else:
                yield local_to_folder(reading.source(self.name, file.stem, file))

    def _in_database(self, file: Path, reading: SourceReader) -> Iterator[Source]:
        if not reading.tables(file) >= _TABLES:
            return
        try:
            for row in reading.rows(file, _SESSIONS, otherwise=_ANY_SESSIONS):
                id = row.get("id")
                if type(id) in (str, int):
                    facts = {
                        name: row[name] for name in _FACTS if type(row.get(name)) in (str, int)
                    }
                    changed, size = crc32(dumps(facts)), count(row, "messages")
                    source = Source(self.name, str(id), str(file), size, changed, facts)
                    yield local_to_folder(source)  # ids are a day and a number
        except ImportRejected as error:
            reading.report(error.reason)

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Read either form."""
        if source.path.endswith(".db"):
            session = source.detail
            lines = _from_rows(reading, source)
            again = _from_rows(SourceReader(reading.files), source)
        else:
            lines = reading.records(source.path)
            session = next(lines, {})
            again = SourceReader(reading.files).records(source.path)
        yield _about(session)
        model = _model(session)
        yield from _items(lines, _compacted_at(again), model)
        yield from _spent(session, model)


def _is_own(file: Path, reading: SourceReader) -> bool:
    if file.name.endswith(".db"):
        tables = reading.tables(file)  # none if it is damaged
        return tables >= _TABLES or (not tables and file.name == _DATABASE)
    return any("working_dir" in line for line in reading.first_records(file, 1))


def _from_rows(reading: SourceReader, source: Source) -> Iterator[dict[str, Any]]:
    for row in reading.rows(source.path, _MESSAGES, source.id, otherwise=_ANY_MESSAGES):
        content = parsed(row.get("content_json"))
        yield {
            "role": row.get("role"),
            "created": row.get("created_timestamp"),
            "content": content,
            "metadata": parsed(row.get("metadata_json")),
        }


def _about(session: dict[str, Any]) -> MetaItem:
    title = text(session, "name") or text(session, "description")
    facts = {
        "title": title,
        "workspace": text(session, "working_dir"),
        "provider": text(session, "provider_name"),
        "model": _model(session),
    }
    return MetaItem(facts, parse_time(session.get("created_at")))


def _model(session: dict[str, Any]) -> str | None:
    return text(parsed(session.get("model_config_json")), "model_name") or None


def _spent(session: dict[str, Any], model: str | None) -> Iterator[Item]:
    read = count(session, "accumulated_input_tokens") or count(session, "input_tokens")
    said = count(session, "accumulated_output_tokens") or count(session, "output_tokens")
    if read or said:
        yield UsageItem(Usage(read, said, None, model=model, request="session"))


def _is_seen(line: dict[str, Any], by: str) -> bool:
    return record(line, "metadata").get(f"{by}Visible") is not False


def _is_notice(line: dict[str, Any]) -> bool:
    """Tell whether a message is only for the screen."""
    return all(text(block, "type") == "systemNotification" for block in records(line, "content"))


def _compacted_at(lines: Iterator[dict[str, Any]]) -> int:
    """Return the number of the message that is the last compaction's summary, -1 if there is none.

    It is for the agent alone, and follows all that is hidden from the agent.
    """
    found, is_after_hidden = -1, False
    for number, line in enumerate(line for line in lines if "role" in line):
        if not _is_seen(line, "agent"):
            if not _is_notice(line):
                found, is_after_hidden = -1, True
        elif is_after_hidden:
            found = -1 if _is_seen(line, "user") else number
            is_after_hidden = False
    return found


def _items(lines: Iterator[dict[str, Any]], compacted: int, model: str | None) -> Iterator[Item]:
    """Yield messages, and a compaction where its summary stands."""
    number, summary = -1, list[Message]()
    at: str | None = None
    for line in lines:
        number += "role" in line
        for_agent, for_user = _is_seen(line, "agent"), _is_seen(line, "user")
        if number >= compacted >= 0 and for_agent and not for_user and (summary or not at):
            said = list(_said(line, model))
            summary += [each.message for each in said if isinstance(each, MessageItem)]
            at = parse_time(line.get("created")) or at or ""
            continue
        if summary:
            yield SummaryItem(summary, at=at or None)
            summary = []
        is_old = number < compacted and for_user and not _is_notice(line)
        if for_agent or is_old:
            yield from _said(line, model)
        else:
            yield RawItem("goose", line, parse_time(line.get("created")))
    if summary:
        yield SummaryItem(summary, at=at or None)


def _said(line: dict[str, Any], model: str | None) -> Iterator[Item]:
    role, at = text(line, "role"), parse_time(line.get("created"))
    blocks = records(line, "content")
    if role not in ("user", "assistant") or not blocks:
        yield RawItem("goose", line, at)
        return
    answers = [block for block in blocks if text(block, "type") == "toolResponse"]
    for block in answers:
        yield MessageItem(Message(role="tool", content=[_answer(block)]), at)
    rest = [_part(block) for block in blocks if text(block, "type") != "toolResponse"]
    if rest:
        named = model if role == "assistant" else None
        yield MessageItem(Message(role=role, content=rest, model=named), at)


def _part(block: dict[str, Any]) -> AnyPart:
    kind = text(block, "type")
    if kind == "text":
        return Text(text=text(block, "text"))
    if kind == "thinking":
        return Thinking(text=text(block, "thinking"), signature=text(block, "signature") or None)
    if kind == "image" and text(block, "data"):
        return Image(media_type=text(block, "mimeType") or "image/png", data=text(block, "data"))
    if kind == "toolRequest":
        call = record(record(block, "toolCall"), "value") or record(block, "toolCall")
        return call_of(text(block, "id"), text(call, "name"), call.get("arguments"))
    return Opaque(vendor="goose", data=block)


def _answer(block: dict[str, Any]) -> AnyPart:
    outcome = record(block, "toolResult")
    value = outcome.get("value")
    content = value if type(value) is list else record(outcome, "value").get("content")
    parts = [_part(each) for each in content if type(each) is dict] if type(content) is list else []
    failed = text(outcome, "status") == "error" or record(outcome, "value").get("isError") is True
    if failed and not parts and text(outcome, "error"):
        parts = [Text(text=text(outcome, "error"))]
    return result(text(block, "id"), parts, failed=failed)
