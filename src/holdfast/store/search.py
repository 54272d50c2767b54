"""Finding text in sessions, by reading them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.journal.reader import Journal
from holdfast.model.entry import Entry
from holdfast.model.message import Message, Text, Thinking, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from holdfast.journal.files import Files

_AROUND_CHARACTERS = 60


class Hit(Struct, frozen=True):
    """A message that contains the text: which one, and the words around the first occurrence."""

    session: str
    seq: int
    role: str
    at: str
    snippet: str


def search_folder(files: Files, folder: Path, text: str) -> Iterator[Hit]:
    """Yield the messages of one session that contain ``text``, regardless of case."""
    wanted = text.casefold()
    with Journal(files, folder) as journal:
        for record in journal.records():
            if isinstance(record, Entry) and isinstance(record.body, Message):
                for piece in _texts(record.body.content):
                    place = piece.casefold().find(wanted)
                    if place >= 0:
                        snippet = _around(piece, place, len(wanted))
                        yield Hit(folder.name, record.seq, record.body.role, record.at, snippet)
                        break


def _around(piece: str, place: int, length: int) -> str:
    """Return the words around a place that was counted in the casefolded text."""
    if len(piece.casefold()) != len(piece):  # a letter such as ß became two
        piece = piece.casefold()
    return piece[max(0, place - _AROUND_CHARACTERS) : place + length + _AROUND_CHARACTERS]


def _texts(parts: Sequence[object]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Text | Thinking):
            yield part.text
            if part.blob is not None:
                yield part.blob.preview
        elif isinstance(part, ToolResult):
            yield from _texts(part.content)
        elif isinstance(part, ToolCall):
            yield f"{part.name} {part.arguments}"
