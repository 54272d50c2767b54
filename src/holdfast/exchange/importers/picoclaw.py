"""picoclaw: ``~/.picoclaw/workspace/sessions/<key>.jsonl`` with ``<key>.meta.json`` beside it.

Older ones are a single document, ``<key>.json``; where both are there, the newer has it all. The
facts beside the lines say how many of the first ones do not count any more, and what sums them up:
those lines are said all the same, and a compaction at the end says from where the context goes on.

Lost: which adapter a call's explanation and signature came from (``extra_content``), the blocks of
a system prompt (``system_parts``). picoclaw writes neither costs nor titles.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.exchange.importers.base import MOST_SNIFFED, document_beside
from holdfast.exchange.importing.content_blocks import image_at, openai_message
from holdfast.exchange.importing.items import (
    Item,
    MessageItem,
    MetaItem,
    RawItem,
    Source,
    SummaryItem,
    local_to_folder,
)
from holdfast.exchange.importing.json_fields import count, parse_time, records, rows, text
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.model.message import AnyPart, Message, Opaque, Text

_META = ".meta.json"
_LEGACY = re.compile(rb'\s*\{\s*"key"\s*:')


class PicoclawImporter:
    """Sessions of picoclaw."""

    name = "picoclaw"
    title = "picoclaw"

    def found(self, home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
        """Return the folder of sessions of the workspace that is the default."""
        configured = environment.get("PICOCLAW_HOME")
        base = Path(configured) if configured else home / ".picoclaw"
        return [base / "workspace" / "sessions"]

    def sniff(self, path: Path, reading: SourceReader) -> bool:
        """Look for messages with facts beside them or with times, or for the older document."""
        return any(_is_own(file, reading) for file in islice(_files(path, reading), MOST_SNIFFED))

    def sessions(self, path: Path, reading: SourceReader) -> Iterator[Source]:
        """Yield one session a file; its name is the key, as far as a name can hold it.

        Every workspace has a ``main``.
        """
        for file in _files(path, reading):
            lines = file.suffix == ".jsonl"
            others = (_meta_of(file), file.with_suffix(".json")) if lines else ()
            yield local_to_folder(reading.source(self.name, file.stem, file, *others))

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Read either form."""
        path = Path(source.path)
        if path.suffix == ".json":
            return _document(reading.document(path))
        return _lines(path, reading)


def _files(path: Path, reading: SourceReader) -> Iterator[Path]:
    for file in reading.files_below(path, ".jsonl", ".json"):
        newer = file.suffix == ".json" and file.with_suffix(".jsonl").is_file()
        if not newer and not file.name.endswith(_META):
            yield file


def _is_own(file: Path, reading: SourceReader) -> bool:
    if file.suffix == ".json":
        head = reading.head(file)
        return bool(_LEGACY.match(head)) and b'"messages"' in head
    for line in reading.first_records(file, 3):
        if "role" in line and "type" not in line:
            return _meta_of(file).is_file() or "created_at" in line
    return False


def _meta_of(file: Path) -> Path:
    return file.with_name(file.stem + _META)


def _document(document: Any) -> Iterator[Item]:
    yield _about(document, "created")
    first: str | None = None
    for number, line in enumerate(records(document, "messages")):
        item = _item(line, str(number))
        if first is None and isinstance(item, MessageItem):
            first = item.id
        yield item
    yield from _condensed(document, first)


def _lines(path: Path, reading: SourceReader) -> Iterator[Item]:
    meta = document_beside(_meta_of(path), reading)
    yield _about(meta, "created_at")
    skipped, first = _line_of(path, count(meta, "skip"), reading), None
    for line in reading.records(path):
        number = reading.line or 0
        item = _item(line, str(number))
        if first is None and number > skipped and isinstance(item, MessageItem):
            first = item.id
        yield item
    yield from _condensed(meta, first)


def _line_of(path: Path, number: int, reading: SourceReader) -> int:
    """Return the number of a line of which only those before it count that are not empty."""
    looking = SourceReader(reading.files)
    for _ in islice(looking.lines(path), number):
        pass
    return (looking.line or 0) if number else 0


def _about(meta: Any, created: str) -> MetaItem:
    found = meta if type(meta) is dict else {}
    facts = {
        "session_key": text(found, "key"),
        "scope": found.get("scope"),
        "aliases": rows(found, "aliases"),
    }
    return MetaItem(facts, parse_time(found.get(created)))


def _condensed(meta: Any, first: str | None) -> Iterator[Item]:
    """Say what the context goes on from: at the end, where a later change of it costs little."""
    summary = text(meta, "summary").strip()
    if type(meta) is dict and (summary or count(meta, "skip")):
        content: list[AnyPart] = [Text(text=summary)]
        said = [Message(role="user", content=content)] if summary else []
        updated = meta.get("updated_at") or meta.get("updated")
        yield SummaryItem(said, first, at=parse_time(updated))


def _item(line: dict[str, Any], id: str) -> MessageItem | RawItem:
    at = parse_time(line.get("created_at"))
    message = openai_message(line, text(line, "model_name") or None)
    if message is None:
        return RawItem("picoclaw", line, at)
    message.content.extend(_media(each) for each in rows(line, "media"))
    for attachment in rows(line, "attachments"):
        message.content.append(Opaque(vendor="picoclaw", data=attachment))
    return MessageItem(message, at, id)


def _media(media: Any) -> AnyPart:
    if type(media) is str and media.startswith(("data:", "http://", "https://")):
        return image_at(media)
    return Opaque(vendor="picoclaw", data={"media": media})
