"""A session whose journal is damaged, opened, appended to and opened again, many times over."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec

import holdfast
from holdfast.journal.reader import Journal
from holdfast.model.entry import Entry
from holdfast.store.contract import Recovery
from tests.disk import FakeUnsyncedFiles, contents

AFTERWARDS = "appended after the damage"


class Line(msgspec.Struct, frozen=True):
    """A line of the undamaged journal: where it is, and the text of the message on it."""

    start: int
    end: int
    seq: int
    text: str | None


class Outcome(msgspec.Struct):
    """What two openings with an append between them came to.

    ``first_seq`` is the number of the first line that was written after the damage.
    """

    recovery: Recovery
    opened: list[str]
    first_seq: int
    damaged: list[bytes]


class Patient:
    """One session folder, whose journal can be replaced by any bytes."""

    def __init__(self, home: Path, appends: list[list[str]]) -> None:
        self.files = FakeUnsyncedFiles()
        self.store = holdfast.open_store(home, files=self.files)
        with self.store.create(title="patient") as session:
            for texts in appends:
                session.append([holdfast.user(text) for text in texts])
        self.id = session.id
        self.folder = session.path
        self.path = self.folder / "journal.jsonl"
        self.data = self.path.read_bytes()
        self.lines = self._lines()

    def _lines(self) -> list[Line]:
        with Journal(self.files, self.folder) as journal:
            return [
                Line(
                    entry.offset,
                    entry.offset + len(entry.line) + 1,
                    entry.seq,
                    entry.body.text if isinstance(entry.body, holdfast.Message) else None,
                )
                for entry in journal.records()
                if isinstance(entry, Entry)
            ]

    def texts(self, lines: list[Line]) -> list[str]:
        return [line.text for line in lines if line.text is not None]

    def treat(self, data: bytes) -> Outcome:
        """Put ``data`` in the journal; open, append, open again; check what always holds."""
        shutil.rmtree(self.folder / "damaged", ignore_errors=True)
        self.path.write_bytes(data)
        with self.store.open(self.id) as session:
            recovery = session.recovery
            opened = [message.text for message in session.messages]
            session.append(holdfast.user(AFTERWARDS))
        journal = self.path.read_bytes()
        cut = recovery.set_aside[0].offset if recovery.set_aside else len(data)
        # What was there is there, byte for byte, but for the end that was set aside and saved.
        assert journal.startswith(data[:cut])
        damaged = [path.read_bytes() for path in sorted(self.folder.glob("damaged/*"))]
        assert damaged == [data[cut:]][: len(recovery.set_aside)]
        for piece in recovery.set_aside:
            assert Path(piece.path).read_bytes() == data[cut:]
            assert piece.size_bytes == len(data) - cut
        before = contents(self.folder)
        with self.store.open(self.id) as session:
            again = [message.text for message in session.messages]
            assert session.recovery.set_aside == []
            assert session.recovery.damage == recovery.damage
            assert not session.recovery.newline_added
        assert contents(self.folder) == before  # recovery is done once
        assert again == [*opened, AFTERWARDS]
        new = journal[cut:].lstrip(b"\n")
        return Outcome(recovery, opened, json.loads(new.partition(b"\n")[0])["seq"], damaged)
