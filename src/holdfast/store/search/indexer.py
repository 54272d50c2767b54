"""Sessions into the full-text index: what is new of them, in steps that an interrupt cannot tear.

Each step is one transaction: documents, and how far their session was read, are there together or
not at all. So whatever ends it, the next one goes on from there. Several processes may do this at
once; who finds that another has written meanwhile looks again at what is left to do.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from holdfast.errors import DamagedJournal
from holdfast.model.codec import dumps, loads
from holdfast.model.entry import Entry
from holdfast.store.catalog.index import replace_surrogates
from holdfast.store.local.blobs import Blobs
from holdfast.store.local.layout import JOURNAL_NAME
from holdfast.store.local.reader import Journal
from holdfast.store.local.repair import inspect_tail
from holdfast.store.read.resume import resume_state
from holdfast.store.search.documents import (
    COUNTS,
    MOST_CHARACTERS,
    DocumentReader,
    Memory,
    Tally,
    fold_case,
    split_cjk,
)
from holdfast.store.search.query import SessionFacts, facts_of
from holdfast.store.search.text_index import (
    DOCUMENT_BITS,
    NEVER,
    IndexChanged,
    Stale,
    data_version,
    printed,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

    from holdfast.files import Files
    from holdfast.store.local.segment import Segment

_SETTLED_AFTER_NS = 2_000_000_000
_STEP_CHARACTERS = 8 * 1024 * 1024
_TAIL_BYTES = 64
_LARGEST = 2**62
_MOST = 10**15  # of anything that is counted; the sum of all sessions has to fit into 64 bits
_ADD = (
    f"INSERT INTO activity VALUES (?, ?, ?, {', '.join('?' * len(COUNTS))}) "  # noqa: S608  only our own words
    "ON CONFLICT (session, at, model) DO UPDATE SET "
    f"{', '.join(f'{name} = {name} + excluded.{name}' for name in COUNTS)}"
)
_SUMS = (
    f"SELECT {', '.join(f'total({name})' for name in COUNTS)} FROM activity "  # noqa: S608  only our own words
    "WHERE session = ? AND model = ?"
)


class _Row(Struct, array_like=True):
    """How far a session was read: bytes, their sum, the last of them."""

    number: int
    inode: int
    files: str
    upto: int
    crc: int
    tail: bytes
    documents: int
    memory: Memory


msgspec.json.Decoder(_Row)  # looked up now, as in conditions


def column(text: str) -> bytes:
    """Return a name as it is compared: it may have characters that are not UTF-8."""
    return text.encode("utf-8", "surrogatepass")


class Indexer:
    """Brings sessions into the index. ``seen`` is its version when they were looked up."""

    def __init__(
        self,
        files: Files,
        connection: sqlite3.Connection,
        seen: int,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._files = files
        self._connection = connection
        self._seen = seen
        self._progress = progress
        self._names: dict[tuple[str, str], int] = {}
        self._characters = 0
        self._done_bytes = 0
        self._total_bytes = 0

    def run(self, stale: list[Stale], gone: list[int]) -> None:
        """Read what is new, and forget what is gone.

        Raises:
            IndexChanged: another process has done part of it.
        """
        self._total_bytes = sum(each.size_bytes for each in stale)
        self._begin()
        for number in gone:
            self._forget(number)
        # In the order of their numbers: the index is slow where rowids fall.
        for each in sorted(stale, key=lambda one: (one.number or _LARGEST, one.id)):
            self._connection.execute("SAVEPOINT one")
            try:
                self._session(each)
            # Cannot be read, or was deleted a moment ago; or holds what no table of ours does.
            except (OSError, DamagedJournal, OverflowError, RecursionError):
                self._connection.execute("ROLLBACK TO one")
                self._names.clear()
            self._connection.execute("RELEASE one")
        self._connection.execute("COMMIT")

    def _begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        if data_version(self._connection) != self._seen:
            self._connection.execute("ROLLBACK")
            raise IndexChanged
        self._characters = 0

    def _step(self) -> None:
        """Keep what was read, and go on."""
        self._connection.execute("RELEASE one")
        self._connection.execute("COMMIT")
        self._begin()
        self._connection.execute("SAVEPOINT one")

    def _forget(self, number: int) -> None:
        execute = self._connection.execute
        execute(
            "UPDATE waste SET documents = documents + "
            "(SELECT documents FROM sessions WHERE number = ?)",
            (number,),
        )
        execute("DELETE FROM sessions WHERE number = ?", (number,))
        execute("DELETE FROM activity WHERE session = ?", (number,))
        first = number << DOCUMENT_BITS
        execute(
            "DELETE FROM documents WHERE id BETWEEN ? AND ?",
            (first, first | (1 << DOCUMENT_BITS) - 1),
        )

    # One session

    def _session(self, each: Stale) -> None:
        with Journal(self._files, each.folder) as journal:
            statuses = [self._files.status(segment.descriptor) for segment in journal.segments]
            journal.last.end = inspect_tail(journal).end
            row = self._taken_up(each, journal)
            tally = Tally(each.id, row.memory)
            reader = DocumentReader(Blobs(self._files, each.folder), row.memory)
            for file, segment in enumerate(journal.segments):
                for entries, start, end in _blocks(segment, row.upto if file == 0 else 0):
                    for entry in entries:
                        self._entry(row, reader, tally, file, entry)
                    if len(journal.segments) == 1:
                        row.crc = segment.checksum(start, end, row.crc)
                        row.upto, row.tail = end, _tail(segment, end)
                    if self._characters > _STEP_CHARACTERS and row.upto:
                        self._save(row, tally, NEVER)
                        self._step()
                    self._told(end - start)
            settled = all(
                time.time_ns() - status.st_mtime_ns > _SETTLED_AFTER_NS for status in statuses
            )
            print_ = b"".join(map(printed, statuses)) if settled else NEVER
            self._save(row, tally, print_)
            state = resume_state(journal).state
            self._facts(row, facts_of(each.id, state, reader.memory))
            tally.even_out(state, lambda model: self._counted(row, model))
            self._add(row, tally)

    def _taken_up(self, each: Stale, journal: Journal) -> _Row:
        """Return how far a session was read; if it has changed otherwise, it begins anew."""
        if each.number is not None:
            row = self._row(each.number)
            if _only_grew(row, journal):
                self._told(row.upto)
                return row
            self._forget(row.number)
        names = "/".join(segment.name for segment in journal.segments)
        made = self._connection.execute(
            "INSERT INTO sessions (id, files, memory) VALUES (?, ?, ?)", (each.id, names, b"{}")
        )
        number = made.lastrowid
        assert number is not None
        return _Row(number, journal.segments[0].inode, names, 0, 0, b"", 0, Memory())

    def _row(self, number: int) -> _Row:
        *fields, memory = self._connection.execute(
            "SELECT number, inode, files, upto, crc, tail, documents, memory FROM sessions "
            "WHERE number = ?",
            (number,),
        ).fetchone()
        try:
            return msgspec.convert([*fields, loads(memory)], _Row)
        except ValueError as error:
            raise msgspec.DecodeError(str(error)) from error

    def _entry(
        self, row: _Row, reader: DocumentReader, tally: Tally, file: int, entry: Entry
    ) -> None:
        if entry.seq <= reader.memory.seq:
            return
        tally.take(entry)
        found = reader.take(entry)
        if found is None:
            return
        rowid = row.number << DOCUMENT_BITS | row.documents
        row.documents += 1
        text = split_cjk(fold_case(found.text)[:MOST_CHARACTERS])
        tools = [self._name("tool", name) for name in sorted(found.tools)]
        model = None if found.model is None else self._name("model", found.model)
        facets = [self._name("role", found.role), *tools, *([] if model is None else [model])]
        self._connection.execute(
            "INSERT INTO texts (rowid, text, facets) VALUES (?, ?, ?)",
            (rowid, replace_surrogates(text), " ".join(f"n{number}" for number in facets)),
        )
        self._connection.execute(
            "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                rowid,
                found.seq,
                file,
                entry.offset,
                len(entry.line),
                replace_surrogates(found.at),
                tools[0] if tools else None,
                model,
            ),
        )
        self._characters += len(text)

    def _name(self, kind: str, name: str) -> int:
        key = kind, name
        number = self._names.get(key)
        if number is None:
            values = kind, column(name)
            self._connection.execute(
                "INSERT OR IGNORE INTO names (kind, name) VALUES (?, ?)", values
            )
            (number,) = self._connection.execute(
                "SELECT number FROM names WHERE kind = ? AND name = ?", values
            ).fetchone()
            self._names[key] = number
        return int(number)

    def _save(self, row: _Row, tally: Tally, print_: bytes) -> None:
        self._connection.execute(
            "UPDATE sessions SET fingerprint = ?, inode = ?, files = ?, upto = ?, crc = ?, "
            "tail = ?, documents = ?, memory = ? WHERE number = ?",
            (
                print_,
                row.inode,
                row.files,
                row.upto,
                row.crc,
                row.tail,
                row.documents,
                dumps(msgspec.to_builtins(row.memory)),
                row.number,
            ),
        )
        self._add(row, tally)

    def _add(self, row: _Row, tally: Tally) -> None:
        for each in tally.activities:
            model = 0 if each.model is None else self._name("model", each.model)
            counts = [max(-_MOST, min(getattr(each, name), _MOST)) for name in COUNTS]
            self._connection.execute(_ADD, (row.number, each.at, model, *counts))
        tally.clear()

    def _facts(self, row: _Row, facts: SessionFacts) -> None:
        self._connection.execute(
            "UPDATE sessions SET updated = ?, facts = ? WHERE number = ?",
            (replace_surrogates(facts.updated), dumps(msgspec.to_builtins(facts)), row.number),
        )

    def _counted(self, row: _Row, model: str | None) -> dict[str, float]:
        number = 0 if model is None else self._name("model", model)
        sums = self._connection.execute(_SUMS, (row.number, number)).fetchone()
        return dict(zip(COUNTS, sums, strict=True))

    def _told(self, size_bytes: int) -> None:
        self._done_bytes = min(self._done_bytes + size_bytes, self._total_bytes)
        if self._progress is not None:
            self._progress(self._done_bytes, self._total_bytes)


def _blocks(segment: Segment, start: int) -> Iterator[tuple[list[Entry], int, int]]:
    for block in segment.forward(start):
        yield [each for each in block.records if isinstance(each, Entry)], block.start, block.end


def _only_grew(row: _Row, journal: Journal) -> bool:
    """Tell whether a journal begins with all that was read of it."""
    first = journal.segments[0]
    if (
        len(journal.segments) > 1
        or row.files != JOURNAL_NAME
        or first.end < row.upto
        or _tail(first, row.upto) != row.tail
    ):
        return False
    if row.inode == first.inode and first.end > row.upto:
        return True
    # Only its times have changed, or it was copied, or packed: then it is cheap to be sure.
    row.inode = first.inode
    return first.checksum(0, row.upto) == row.crc


def _tail(segment: Segment, end: int) -> bytes:
    """Return the last bytes: the sum that they end with depends on all before."""
    return segment.read(max(0, end - _TAIL_BYTES), end)
