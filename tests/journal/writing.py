"""A writer on real files, with everything that it needs around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.journal.appender import Place
from holdfast.journal.files import Files
from holdfast.journal.lock import Lock
from holdfast.journal.names import JOURNAL_NAME
from holdfast.journal.numbering import Cursor
from holdfast.journal.reader import Journal
from holdfast.journal.repair import examine, set_aside
from holdfast.journal.ticket import Draft, Ticket
from holdfast.journal.writer import Writer
from holdfast.model.codec import encode_body, type_of
from holdfast.model.entry import Body, Entry, Mark
from holdfast.model.message import Message, user
from tests.journal.lines import HEADER


def draft(body: Body) -> Draft:
    data, again = encode_body(body)
    return type_of(body), again, data


class FakeOwner:
    """Whom a writer works for: keeps what it was told, in order."""

    def __init__(self, files: Files, folder: Path) -> None:
        self.files = files
        self.folder = folder
        self.path = folder / JOURNAL_NAME
        self.published: list[Entry] = []
        self.payloads: list[bytes] = []

    def begin(self, data: bytes, payloads: list[bytes]) -> Place:
        self.files.make_folder(self.folder)
        lock = Lock.acquire(self.files, self.folder, "test")
        try:
            descriptor = self.files.open_append(self.path, create=True)
            self.files.write_all(descriptor, data)
            self.files.sync(descriptor)
        except OSError:
            lock.release()
            self.path.unlink(missing_ok=True)
            raise
        self.payloads += payloads
        inode = self.files.status(descriptor).st_ino
        return Place(self.folder, lock, self.path, descriptor, inode, 1, len(data))

    def store_payloads(self, place: Place, payloads: list[bytes]) -> None:
        self.payloads += payloads

    def mark_after(self, entries: list[Entry]) -> Draft:
        return draft(Mark(state={"seq": entries[-1].seq}))

    def publish(self, tickets: list[Ticket]) -> None:
        self.published += [entry for ticket in tickets for entry in ticket.entries]


class Desk:
    """A writer and its owner."""

    def __init__(self, files: Files, folder: Path) -> None:
        self.files = files
        self.folder = folder
        self.owner = FakeOwner(files, folder)
        self.writer = Writer(files, HEADER, self.owner, Cursor(None, 0, b"", None))

    @classmethod
    def opened(cls, files: Files, folder: Path) -> Desk:
        """Open a journal that is there, as a store does."""
        desk = cls(files, folder)
        lock = Lock.acquire(files, folder, "test")
        with Journal(files, folder) as journal:
            tail = examine(journal)
            if tail.torn_bytes:
                set_aside(files, folder, journal.last, tail)
            path = journal.folder / journal.last.name
            inode, segment = journal.last.inode, journal.last.number
        place = Place(
            folder,
            lock,
            path,
            files.open_append(path),
            inode,
            segment,
            tail.end,
            tail.newline_missing,
        )
        cursor = Cursor(tail.last_seq, tail.next_seq, tail.chain, None)
        desk.writer = Writer(files, HEADER, desk.owner, cursor, place)
        return desk

    def submit(self, *texts: str, id: str | None = None, **fields: Any) -> Ticket:
        """Queue messages as one batch."""
        drafts = [draft(user(text)) for text in texts]
        if self.writer.place is None and not self.writer.unpublished:
            with self.writer.mutex:
                self.writer.enqueue([draft(HEADER)])
        with self.writer.mutex:
            ticket = self.writer.enqueue(drafts, id)
            for name, value in fields.items():
                setattr(ticket, name, value)
        return ticket

    def append(self, *texts: str, id: str | None = None) -> Ticket:
        ticket = self.submit(*texts, id=id)
        ticket.wait()
        return ticket

    def on_disk(self) -> list[Entry]:
        """Read everything back; all of it must be intact."""
        with Journal(Files(), self.folder) as journal:
            records = list(journal.records())
        assert all(isinstance(record, Entry) and record.status == "ok" for record in records)
        return [record for record in records if isinstance(record, Entry)]

    def texts(self) -> list[str]:
        return [entry.body.text for entry in self.on_disk() if isinstance(entry.body, Message)]
