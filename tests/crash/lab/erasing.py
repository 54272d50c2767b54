"""A session that has snapshots, and from which entries are erased; and one that is erased whole.

append, blob → put → checkpoint → compact → append → erase what the archive has, and its blob →
erase what the journal has → put a larger one → close → open → append → erase another session.
"""

from __future__ import annotations

from typing import Any

import holdfast
from tests.crash.lab.scenario import Actor, text_of

SNAPSHOT = "graph"


class Eraser(Actor):
    """Puts snapshots, and erases entries and a session."""

    def _live(self) -> None:
        session = self._store.create(provider="rehearsal", model="none")
        self._witness.say("intends", self.name, 0, "create", {"session": session.id})
        try:
            self._fill(session)
        finally:
            self.call("close", session.close)
        again = self.call("open", lambda: self._store.open(session.id))
        if again is not None:
            self._append(again)
            self.call("close", again.close)
        self._erase_another()

    def _fill(self, session: holdfast.Session) -> None:
        blob = self.label("blob")
        archived = self._append_as(session, holdfast.user(text_of(blob)), blob)
        self._put(session, self.label())
        self._append(session)
        summary = self.label("summary")
        self.call(
            "checkpoint",
            lambda: session.checkpoint([holdfast.user(text_of(summary))], keep_last=1),
            summary=summary,
            keep_last=1,
        )
        self.call("compact", session.compact)
        label = self.label()
        place = self._append_as(session, holdfast.user(text_of(label)), label)
        self._append(session)
        self.call("list", self._store.list)
        self._erase(session, archived, blob)
        self._erase(session, place, label)
        self._put(session, self.label("blob"))

    def _put(self, session: holdfast.Session, label: str) -> None:
        self.call("put", lambda: session.put(SNAPSHOT, text_of(label)), label=label)

    def _erase(self, session: holdfast.Session, place: Any, label: str) -> None:
        if place is not None:
            self.call("erase", lambda: session.erase(place), label=label, seq=place.seq)

    def _erase_another(self) -> None:
        label = self.label()
        other = self._store.create()
        self.call("make-other", lambda: other.append(holdfast.user(text_of(label))))
        self.call("close", other.close)
        self.call(
            "erase-session",
            lambda: self._store.delete(other.id, erase=True),
            session=other.id,
            label=label,
        )
