"""A session whose journal is damaged, opened, appended to and opened again, many times over."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

import holdfast
from holdfast.journal.damage import Record
from holdfast.model.entry import Entry
from holdfast.model.state import State
from holdfast.store.local.reader import Journal
from holdfast.store.types import Recovery
from tests.disk import FakeQuickFiles

AFTERWARDS = "appended after the damage"


class Line(msgspec.Struct, frozen=True):
    """A line of the undamaged journal: where it is, and the text of the message on it."""

    start: int
    end: int
    seq: int
    text: str | None


class Outcome(msgspec.Struct):
    """What openings for reading and for writing, with an append between them, came to.

    ``records`` and ``state`` are those of the opening for reading. ``first_seq`` is the number of
    the first line that was written after the damage.
    """

    recovery: Recovery
    opened: list[str]
    first_seq: int
    damaged: list[bytes]
    records: list[Record]
    state: State


class Patient:
    """One session folder, whose journal can be replaced by any bytes."""

    def __init__(self, home: Path, make: Callable[[holdfast.Store], str]) -> None:
        """Let ``make`` make a session, close it, and say which it is."""
        self.files = FakeQuickFiles()
        self.reports_stay = True
        """Whether a second opening must report the same damage.

        A line whose sum fits, which is no JSON and is nested about as deep as Python can follow, is
        kept or reported depending on how deep the caller is. No writer makes such a line.
        """
        self.store = holdfast.open_store(home, files=self.files)
        self.id = make(self.store)
        with self.store.open(self.id, mode="read") as session:
            self.folder = session.path
        self.path = self.folder / "journal.jsonl"
        self.data = self.path.read_bytes()
        self._lock = (self.folder / "lock").read_bytes()
        self.entries = [entry for entry in self._records() if isinstance(entry, Entry)]
        self.lines = [
            Line(
                entry.offset,
                entry.offset + len(entry.line) + 1,
                entry.seq,
                entry.body.text if isinstance(entry.body, holdfast.Message) else None,
            )
            for entry in self.entries
        ]

    def _records(self) -> list[Record]:
        with Journal(self.files, self.folder) as journal:
            return list(journal.records())

    def texts(self, lines: list[Line]) -> list[str]:
        return [line.text for line in lines if line.text is not None]

    def infect(self, data: bytes) -> None:
        """Put ``data`` in the journal; all else is as the writer left it.

        The file stays the same one, and its writer has noted that all of it was synced.
        """
        if (self.folder / "damaged").exists():
            shutil.rmtree(self.folder / "damaged")
        self.path.write_bytes(data)
        (self.folder / "lock").write_bytes(self._lock)

    def treat(self, data: bytes, *, reopens: bool = True) -> Outcome:
        """Put ``data`` in the journal; read, open, append, open again; check what always holds.

        Without ``reopens`` it is not opened again, which saves half of the time.
        """
        self.infect(data)
        opened, state, records = self._look()
        with self.store.open(self.id) as session:
            recovery = session.recovery
            session.append(holdfast.user(AFTERWARDS))
        journal = self.path.read_bytes()
        cut = recovery.set_aside[0].offset if recovery.set_aside else len(data)
        # What was there is there, byte for byte, but for the end that was set aside and saved.
        assert journal.startswith(data[:cut]), "bytes before the damaged end were altered"
        damaged = [path.read_bytes() for path in sorted(self.folder.glob("damaged/*"))]
        assert damaged == [data[cut:]][: len(recovery.set_aside)], "what was cut was not kept"
        for piece in recovery.set_aside:
            assert Path(piece.path).read_bytes() == data[cut:]
            assert piece.size_bytes == len(data) - cut
        if reopens:
            self._open_again(recovery, [*opened, AFTERWARDS])
        new = journal[cut:].lstrip(b"\n")
        first_seq = json.loads(new.partition(b"\n")[0])["seq"]
        return Outcome(recovery, opened, first_seq, damaged, records, state)

    def _open_again(self, first: Recovery, expected: list[str]) -> None:
        """Open a second time, which changes nothing."""
        before = inventory(self.folder)
        with self.store.open(self.id) as session:
            again = [message.text for message in session.messages]
            assert again == expected, "after writing other messages are there"
            assert session.recovery.set_aside == [], "a second opening cuts again"
            if self.reports_stay:
                assert _places(session.recovery) == _places(first), "other damage is reported"
            assert not session.recovery.newline_added
        assert inventory(self.folder) == before, "a second opening changes files"

    def _look(self) -> tuple[list[str], State, list[Record]]:
        """Open for reading, which changes nothing at all."""
        before = inventory(self.folder, lock=True)
        with self.store.open(self.id, mode="read") as session:
            opened = [message.text for message in session.messages]
            state = session.state
            journal = session._reading.snapshot
            assert journal is not None
            blocks = list(journal.blocks_backward())
        records = [record for block in reversed(blocks) for record in block.records]
        assert inventory(self.folder, lock=True) == before, "reading changes files"
        return opened, state, records


def _places(recovery: Recovery) -> list[tuple[int, int, int, str]]:
    """Return what is damaged; the number behind it may be known only when there is one."""
    return [(each.segment, each.offset, each.length, each.kind) for each in recovery.damage]


def inventory(folder: Path, *, lock: bool = False) -> dict[str, tuple[int, int, int]]:
    """Return identity, size and time of change of every file; of the lock only if asked for."""
    found: dict[str, tuple[int, int, int]] = {}
    for entry in os.scandir(folder):
        if entry.is_dir():
            found |= inventory(Path(entry.path))
        elif lock or entry.name != "lock":
            status = entry.stat()
            found[entry.path] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return found


def conversation(appends: list[list[str]]) -> Callable[[holdfast.Store], str]:
    """Return what makes a session of user messages, each list of them appended together."""

    def make(store: holdfast.Store) -> str:
        with store.create(title="patient") as session:
            for texts in appends:
                session.append([holdfast.user(text) for text in texts])
        return session.id

    return make
