"""A session made whole from entries that were made elsewhere, unseen until it is published.

It is written in a stream: memory does not grow with it. Synced and renamed at the end, it is there
with all of its entries or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import UsageError
from holdfast.journal.names import JOURNAL_NAME
from holdfast.journal.writer import MARK_EVERY_BYTES
from holdfast.model.codec import encode_body, type_of
from holdfast.model.entry import NO_PARENT_FIELD, Body, Entry, Header
from holdfast.model.state import State
from holdfast.store.blobs import Blobs
from holdfast.store.drafts import Past, draft_mark, seal_past
from holdfast.store.fold import fold
from holdfast.store.refusals import os_errors
from holdfast.store.unseen import Unseen

if TYPE_CHECKING:
    from holdfast.store.home import Home

_CHUNK_BYTES = 1024 * 1024


class Staging(Unseen):
    """A session that is being filled."""

    def __init__(self, home: Home, header: Header, started: str) -> None:
        super().__init__(home, header.session)
        self._chain = b""
        self._at = started
        self._state = State()
        self._unfolded: list[Entry] = []
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._since_mark_bytes = 0
        self._top = -1
        with os_errors(f"{home.root} cannot be written", home.root):
            try:
                path = self._folder / JOURNAL_NAME
                self._descriptor = self._files.open_append(path, create=True)
            except BaseException:
                super()._let_go()
                raise
        self._blobs = Blobs(self._files, self._folder)
        self._own(0, header)

    @property
    def next_seq(self) -> int:
        """The lowest number that the next entry may have."""
        return self._top + 1

    def add(self, past: Past) -> None:
        """Write one entry behind the others; a mark may follow it, and takes the next number.

        Raises:
            DiskFull: there is no room; nothing will be left of the session.
            UsageError: its number or its parent cannot be.
        """
        if past.seq <= self._top:
            raise UsageError(f"Number {past.seq} is taken: the next one is {self._top + 1}.")
        if past.parent is not None and past.parent >= past.seq:
            raise UsageError(f"Entry {past.seq} cannot hang on entry {past.parent}.")
        if past.payloads:
            with os_errors(f"{self._home.sessions} cannot be written", self._home.sessions):
                for payload in past.payloads:
                    self._blobs.write(payload)
        self._append(past)
        if self._since_mark_bytes >= MARK_EVERY_BYTES or past.draft[0] == "checkpoint":
            self._mark()

    def _append(self, past: Past) -> None:
        entry = seal_past(past, self._chain)
        line = entry.line
        self._chain = line[-10:-2]
        self._top, self._at = past.seq, entry.at
        entry.line = b""  # the fold needs none, and a mark may be far away
        self._unfolded.append(entry)
        self._waiting.append(line)
        self._waiting_bytes += len(line)
        self._since_mark_bytes += len(line)
        if self._waiting_bytes >= _CHUNK_BYTES:
            self._flush()

    def _own(self, seq: int, body: Body) -> None:
        """Write a line of the journal's own."""
        data, body = encode_body(body)
        self._append(Past(seq, self._at, (type_of(body), body, data), NO_PARENT_FIELD))

    def _mark(self) -> None:
        """Write the state so far, so that opening needs no line before it."""
        self._state = fold(self._unfolded, self._state)
        self._unfolded = []
        draft = draft_mark(self._state)
        if draft is not None:
            self._append(Past(self._top + 1, self._at, draft))
            self._since_mark_bytes = 0

    def _flush(self) -> None:
        with os_errors(f"{self._home.sessions} cannot be written", self._home.sessions):
            self._files.write_all(self._descriptor, b"\n".join(self._waiting) + b"\n")
        self._waiting, self._waiting_bytes = [], 0

    def publish(self) -> str:
        """Make it durable and give it its place; return its id.

        Raises:
            SessionExists: the place is taken; nothing is left of this one.
            DiskFull: there is no room, as above.
        """
        if self._since_mark_bytes:
            self._mark()
        if self._waiting:
            self._flush()
        with os_errors(f"{self._home.sessions} cannot be written", self._home.sessions):
            self._files.sync(self._descriptor)
            status = self._files.status(self._descriptor)
            self._lock.note_durable(status.st_ino, status.st_size)
            self._files.sync_folder(self._folder)
            self._give_place()
        return self.id

    def _let_go(self) -> None:
        self._files.close(self._descriptor)
        super()._let_go()
