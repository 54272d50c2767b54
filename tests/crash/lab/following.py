"""A session that somebody follows while it is written, and that its writers leave half done.

A follower looks whenever a journal is about to be synced: what it sees then is written, and a power
cut could take it. Writers that died are played by hand: one leaves a line that was never synced,
one a torn line that is on the disk. Live text is held to its sync.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from pathlib import Path
from typing import Any

import holdfast
from holdfast.files import Files
from holdfast.journal.format import timestamp
from holdfast.store.local.layout import LIVE_NAME
from holdfast.store.local.reader import Journal
from holdfast.store.local.repair import inspect_tail
from holdfast.store.write import streams
from holdfast.store.write.encode import ImportedEntry, encode_all, seal_past
from tests.crash.lab.oracle import label_of
from tests.crash.lab.scenario import Actor, piece_of, text_of
from tests.crash.lab.witness import Witness

_PIECES = 2
_SYNC_WITHIN_SECONDS = 0.02  # so that no run waits for half a second
_LONGEST_WAIT_SECONDS = 2.0  # twice what is promised


class LookingFiles(Files):
    """Lets somebody look before each sync of a journal, and notes how far live text is synced."""

    def __init__(self, follow: Follow) -> None:
        self._follow = follow
        self._owner = threading.get_ident()
        self.live_synced: dict[int, int] = {}  # bytes by inode
        self.live_failed = False

    def sync(self, descriptor: int) -> None:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
        if name.startswith("journal") and threading.get_ident() == self._owner:
            self._follow.look()
        status = os.fstat(descriptor)
        try:
            super().sync(descriptor)
        except OSError:
            self.live_failed = self.live_failed or name == LIVE_NAME
            raise
        if name == LIVE_NAME:
            self.live_synced[status.st_ino] = status.st_size


class Follow(Actor):
    """Writes, dies, looks, and opens again."""

    def __init__(self, name: str, store: holdfast.Store, witness: Witness) -> None:
        super().__init__(name, store, witness)
        self._files = LookingFiles(self)
        self._watched = holdfast.open_store(store.path, files=self._files)
        self._reader: holdfast.Session | None = None
        self._follower: Any = None
        self._looks = False

    def _live(self) -> None:
        streams._SYNC_WITHIN_SECONDS = _SYNC_WITHIN_SECONDS
        session = self._watched.create(provider="rehearsal", model="none")
        self._witness.say("intends", self.name, 0, "create", {"session": session.id})
        try:
            self._append(session)
            self._begin_to_look(session.id)
            self._append(session)
            self.call("usage", lambda: session.usage(input=10, output=3), input=10)
        finally:
            self.call("close", session.close)
        self._abandon(session.path)
        self.look()
        self._abandon(session.path)
        self._go_on(session.id)
        self._tear(session.path)
        self._go_on(session.id)
        if self._reader is not None:
            self._reader.close()

    def _begin_to_look(self, session_id: str) -> None:
        reader = self.call("read", lambda: self._store.open(session_id, mode="read"))
        if reader is not None:
            self._reader, self._follower = reader, reader.follow(wait=False)
            self.look()

    def look(self) -> None:
        """Have the follower say what there is; what it has said may never be taken back."""
        if self._follower is not None and not self._looks:
            self._looks = True
            try:
                self.call("look", self._seen)
            finally:
                self._looks = False

    def _seen(self) -> dict[str, Any]:
        shown: dict[str, int] = {}
        for each in self._follower.poll():
            if isinstance(each, holdfast.Entry) and isinstance(each.body, holdfast.Message):
                shown[label_of(each.body) or ""] = each.seq
        return {"shown": shown}

    def _go_on(self, session_id: str) -> None:
        session = self.call("open", lambda: self._watched.open(session_id))
        if session is not None:
            self._append(session)
            self._stream_and_wait(session)
            self.call("close", session.close)

    # Writers that die

    def _abandon(self, folder: Path) -> None:
        """Write a line, and die before it is synced."""
        label = self.label()
        self.call("abandon", lambda: _write_line(folder, label), labels=[label])

    def _tear(self, folder: Path) -> None:
        """Leave half a line, on the disk: nothing that was written is thrown away."""
        text = f'{{"seq":9999,"at":"torn, {self.label("tear")}'
        self.call("tear", lambda: _write(folder, text.encode(), sync=True), text=text)

    # Live text

    def _stream_and_wait(self, session: holdfast.Session) -> None:
        label = self.label("stream")
        stream = self.call("stream", session.stream, label=label)
        if stream is None:
            return
        pieces = [piece_of(label, number) for number in range(_PIECES)]
        for number, piece in enumerate(pieces):
            write = functools.partial(stream.write, piece)
            self.call("piece", write, label=label, number=number)
        if self._is_in_live_file(session, pieces[-1]):
            self._witness.say("written", self.name, label, _PIECES)
            self.call("settle", lambda: self._settle(session), label=label, pieces=_PIECES)
        self.call("finish", stream.finish, label=label)

    def _settle(self, session: holdfast.Session) -> None:
        """Wait until what is in the live file is synced; after twice the time it has to be."""
        live = session.path / LIVE_NAME
        status = live.stat()
        give_up = time.monotonic() + _LONGEST_WAIT_SECONDS
        while self._files.live_synced.get(status.st_ino, 0) < status.st_size:
            if self._files.live_failed or session.trouble is not None:
                raise holdfast.StorageError("The live file cannot be synced.")
            if time.monotonic() > give_up:
                return
            time.sleep(0.002)


def _write_line(folder: Path, label: str) -> None:
    """Write the line of one more entry as a writer does, and do not sync it."""
    try:
        with Journal(Files(), folder) as journal:
            tail = inspect_tail(journal)
        if tail.torn_bytes or tail.newline_missing:
            raise holdfast.StorageError("There is something to be repaired first.")
        (draft,), _ = encode_all([holdfast.user(text_of(label))])
        past = ImportedEntry(tail.next_seq, timestamp(), draft, _last_message(folder))
        _write(folder, seal_past(past, tail.chain).line + b"\n", sync=False)
    except OSError as error:
        raise holdfast.StorageError(str(error)) from error


def _last_message(folder: Path) -> int | None:
    with Journal(Files(), folder) as journal:
        entries = [each for each in journal.records() if isinstance(each, holdfast.Entry)]
    return max((each.seq for each in entries if each.type == "message"), default=None)


def _write(folder: Path, data: bytes, *, sync: bool) -> None:
    try:
        with Journal(Files(), folder) as journal:
            path = journal.last.path
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            if os.write(descriptor, data) != len(data):
                raise holdfast.StorageError("It is not there whole.")
            if sync:
                os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise holdfast.StorageError(str(error)) from error
