"""The lines of a session that is made whole from entries made elsewhere.

Memory does not grow with them: lines are handed out as they are sealed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import UsageError
from holdfast.journal.writer import MARK_EVERY_BYTES
from holdfast.model.codec import encode_body, type_of
from holdfast.model.entry import NO_PARENT_FIELD, Header
from holdfast.model.state import State
from holdfast.store.read.fold import fold
from holdfast.store.write.encode import ImportedEntry, encode_mark, seal_past

if TYPE_CHECKING:
    from holdfast.model.entry import Entry


class StagedLines:
    """Seals a header and entries in order, and adds marks where they are due."""

    def __init__(self, started: str) -> None:
        self._chain = b""
        self._at = started
        self._state = State()
        self._unfolded: list[Entry] = []
        self._since_mark_bytes = 0
        self._top = -1

    @property
    def next_seq(self) -> int:
        """The lowest number that the next entry may have."""
        return self._top + 1

    def header(self, header: Header) -> bytes:
        """Return the first line."""
        data, body = encode_body(header)
        return self._sealed(
            ImportedEntry(0, self._at, (type_of(body), body, data), NO_PARENT_FIELD)
        )

    def add(self, past: ImportedEntry) -> list[bytes]:
        """Return the line of an entry; a mark may follow it, and takes the next number.

        Raises:
            UsageError: its number or its parent cannot be.
        """
        if past.seq <= self._top:
            raise UsageError(
                f"Entry number {past.seq} is already used: the next number is {self._top + 1}."
            )
        if past.parent is not None and past.parent >= past.seq:
            raise UsageError(
                f"Entry {past.seq} cannot have entry {past.parent} as its parent: a parent has a "
                "lower number."
            )
        lines = [self._sealed(past)]
        if self._since_mark_bytes >= MARK_EVERY_BYTES or past.draft[0] == "checkpoint":
            lines += self._mark()
        return lines

    def finish(self) -> list[bytes]:
        """Return the mark that ends them, if one is due."""
        return self._mark() if self._since_mark_bytes else []

    def _sealed(self, past: ImportedEntry) -> bytes:
        entry = seal_past(past, self._chain)
        line = entry.line
        self._chain = line[-10:-2]
        self._top, self._at = past.seq, entry.at
        entry.line = b""  # the fold needs none, and a mark may be far away
        self._unfolded.append(entry)
        self._since_mark_bytes += len(line)
        return line

    def _mark(self) -> list[bytes]:
        """Return the state so far as a line, so that opening needs no line before it."""
        self._state = fold(self._unfolded, self._state)
        self._unfolded = []
        draft = encode_mark(self._state)
        if draft is None:
            return []
        line = self._sealed(ImportedEntry(self._top + 1, self._at, draft))
        self._since_mark_bytes = 0
        return [line]
