"""A session that is moved about, and sessions that come from elsewhere.

append, blob → compress → open, which unpacks it → append → delete → restore → append → stage →
receive → publish a batch → forget its note → delete.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import holdfast
from holdfast.model.entry import NO_PARENT_FIELD, Usage
from holdfast.store.write.encode import ImportedEntry, encode_all
from tests.crash.lab.scenario import Actor, text_of

MONTH = "2026-04"  # of the batch, and of nothing else
STAGED, RECEIVED = "20260506-180000-abcdefgh", "20260506-180001-abcdefgh"
FIRST, SECOND = "20260406-180002-abcdefgh", "20260406-180003-abcdefgh"
NOTE = b'{"then":"what is to be done"}'
_STARTED = "2026-05-06T18:00:00.000Z"
_SENT = ("r1", "r2blob", "r3")


class Mover(Actor):
    """Moves its session, and lets others in."""

    def _live(self) -> None:
        session = self._store.create(provider="rehearsal", model="none")
        self._witness.say("intends", self.name, 0, "create", {"session": session.id})
        try:
            self._append(session)
            blob = self.label("blob")
            self._append_as(session, holdfast.user(text_of(blob)), blob)
            self.call("usage", lambda: session.usage(input=10, output=3), input=10)
        finally:
            self.call("close", session.close)
        self.call("compress", lambda: self._store.compress(session.id))
        self._go_on(session.id)
        self.call("delete", lambda: self._store.delete(session.id))
        self.call("restore", lambda: self._store.restore(session.id))
        self._go_on(session.id)
        self._stage(self._store, "stage", STAGED)
        self.call("receive", self._receive, session=RECEIVED, labels=_SENT)
        self._publish_batch()
        self.call("list", self._store.list)
        self.call("delete", lambda: self._store.delete(session.id))

    def _go_on(self, session_id: str) -> None:
        session = self.call("open", lambda: self._store.open(session_id))
        if session is not None:
            self._append(session)
            self.call("close", session.close)

    def _stage(self, store: holdfast.Store, op: str, session_id: str) -> dict[str, list[str]]:
        """Stage a session; return its labels, nothing if it was refused."""
        labels = [self.label(), self.label("blob"), self.label()]
        stage = _staging(store, session_id, labels)
        staged = self.call(op, stage, session=session_id, labels=labels)
        return {} if staged is None else {session_id: labels}

    def _receive(self) -> str:
        with self._store.receive(RECEIVED) as receiving:
            for name, data in sent().items():
                receiving.add(name, [data[:1000], data[1000:]])
            return receiving.publish()

    def _publish_batch(self) -> None:
        batch = self.call("begin-batch", self._store.batch)
        if batch is None:
            return
        try:
            staged = self._stage(batch, "stage-aside", FIRST)
            staged |= self._stage(batch, "stage-aside", SECOND)
            self.call("begin-month", self._make_month)
            self.call("batch", lambda: batch.publish(NOTE), sessions=staged)
            self.call("forget", batch.forget)
        finally:
            self.call("end-batch", batch.close)

    def _make_month(self) -> None:
        """Make the folder of the month, as somebody who died before its name was durable."""
        try:
            (self._store.path / "sessions" / MONTH).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise holdfast.StorageError(str(error)) from error


def _staging(store: holdfast.Store, session_id: str, labels: Sequence[str]) -> Callable[[], str]:
    def stage() -> str:
        with store.stage(session_id, started=_STARTED) as staging:
            parent: int | None = None
            for label in labels:
                seq = staging.next_seq
                staging.add(_past(seq, holdfast.user(text_of(label)), parent))
                parent = seq
            staging.add(_past(staging.next_seq, Usage(10, 3, None), NO_PARENT_FIELD))
            return staging.publish()

    return stage


def _past(seq: int, body: Any, parent: int | None) -> ImportedEntry:
    (draft,), payloads = encode_all([body])
    return ImportedEntry(seq, _STARTED, draft, parent, payloads)


@cache
def sent() -> dict[str, bytes]:
    """Return the files of a session that somebody sent, made far from the disk under test."""
    with TemporaryDirectory() as folder, holdfast.open_store(Path(folder)) as store:
        with store.create(session_id=RECEIVED) as session:
            for label in _SENT:
                session.append(holdfast.user(text_of(label)))
        return {
            str(path.relative_to(session.path)): path.read_bytes()
            for path in sorted(session.path.rglob("*"))
            if path.is_file() and path.name not in ("lock", "origin.json")
        }
