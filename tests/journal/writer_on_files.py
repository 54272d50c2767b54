"""A writer on real files, with everything that it needs around it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.files import Files
from holdfast.journal.format import Cursor
from holdfast.journal.ticket import Draft, Ticket
from holdfast.journal.writer import GroupCommitter
from holdfast.model.codec import encode_body, type_of
from holdfast.model.entry import Body, Entry, Mark
from holdfast.model.message import Message, user
from holdfast.store.local.layout import JOURNAL_NAME, Home
from holdfast.store.local.lock import AppendTarget, Lock
from holdfast.store.local.log_writer import FileLogWriter
from holdfast.store.local.reader import Journal
from holdfast.store.local.repair import inspect_tail, quarantine_tail
from tests.journal.journal_lines import HEADER


def draft(body: Body) -> Draft:
    data, again = encode_body(body)
    return type_of(body), again, data


class FakeFileLog(FileLogWriter):
    """A log in a folder of its own, without a home; keeps the payloads."""

    def __init__(
        self,
        files: Files,
        folder: Path,
        place: AppendTarget | None = None,
        cursor: Cursor | None = None,
    ) -> None:
        super().__init__(Home(files, folder.parent, force=True), HEADER, place, cursor)
        self.location = folder
        self.payloads: list[bytes] = []

    def _create(self, data: bytes, payloads: Sequence[bytes]) -> AppendTarget:
        path = self.location / JOURNAL_NAME
        self._files.make_folder(self.location)
        lock = Lock.acquire(self._files, self.location, "test")
        try:
            descriptor = self._files.open_append(path, create=True)
            self._files.write_all(descriptor, data)
            self._files.sync(descriptor)
        except OSError:
            lock.release()
            path.unlink(missing_ok=True)
            raise
        self.payloads += payloads
        inode = self._files.status(descriptor).st_ino
        return AppendTarget(self.location, lock, path, descriptor, inode, 1, len(data))

    def _store(self, place: AppendTarget, payloads: Sequence[bytes]) -> None:
        self.payloads += payloads


class FakeOwner:
    """Whom a writer works for: keeps what it was told, in order."""

    def __init__(self) -> None:
        self.published: list[Entry] = []

    def find_known(self, ticket: Ticket) -> list[Entry]:
        return []

    def join(self) -> None:
        """Make a taken place an error."""

    def mark_after(self, entries: list[Entry]) -> Draft:
        return draft(Mark(state={"seq": entries[-1].seq}))

    def publish(self, tickets: list[Ticket]) -> None:
        self.published += [entry for ticket in tickets for entry in ticket.entries]


class Desk:
    """A writer and its owner."""

    def __init__(self, files: Files, folder: Path) -> None:
        self.files = files
        self.folder = folder
        self.owner = FakeOwner()
        self.log = FakeFileLog(files, folder)
        self.writer = GroupCommitter(self.log, self.owner)

    @classmethod
    def opened(cls, files: Files, folder: Path) -> Desk:
        """Open a journal that is there, as a store does."""
        desk = cls(files, folder)
        lock = Lock.acquire(files, folder, "test")
        with Journal(files, folder) as journal:
            tail = inspect_tail(journal)
            if tail.torn_bytes:
                quarantine_tail(files, folder, journal.last, tail)
            path = journal.folder / journal.last.name
            inode, segment = journal.last.inode, journal.last.number
        place = AppendTarget(
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
        desk.log = FakeFileLog(files, folder, place, cursor)
        desk.writer = GroupCommitter(desk.log, desk.owner)
        return desk

    def submit(self, *texts: str, id: str | None = None, **fields: Any) -> Ticket:
        """Queue messages as one batch."""
        drafts = [draft(user(text)) for text in texts]
        if not self.writer.exists and not self.writer.unpublished:
            with self.writer.mutex:
                self.writer.enqueue([draft(HEADER)])
        with self.writer.mutex:
            ids = () if id is None else (*[None] * (len(texts) - 1), id)
            ticket = self.writer.enqueue(drafts, ids)
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
