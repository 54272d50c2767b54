"""How a runner stands, as its clients are told: once when they come, and again when it changes.

What is in entries is not repeated here, but for what a status line needs without having read them.
"""

from __future__ import annotations

import os
from typing import Any

from holdfast.journal.files import Files
from holdfast.journal.format import timestamp
from holdfast.model.entry import Checkpoint, Entry, Head
from holdfast.runtime.agenda import Agenda
from holdfast.runtime.control.hub import Hub
from holdfast.runtime.control.protocol import PROTOCOL, RunnerStatus
from holdfast.runtime.fitting import Fitting
from holdfast.runtime.gauge import Gauge
from holdfast.runtime.questions import Questions
from holdfast.store.session import Session
from holdfast.version import __version__

_files = Files()


class Standing:
    """How one runner stands. ``busy``: a turn, or a job between turns, is under way."""

    def __init__(
        self,
        session: Session,
        hub: Hub,
        fitting: Fitting,
        agenda: Agenda,
        questions: Questions,
    ) -> None:
        self._session = session
        self._hub = hub
        self._fitting = fitting
        self._agenda = agenda
        self._questions = questions
        self._started = timestamp()
        self._shown: dict[str, Any] = {}
        self.gauge = Gauge(fitting.equipment, self.show)
        self.busy = False
        hub.on_entry(self._heard)

    def message(self) -> dict[str, Any]:
        """Return the state, as clients are told."""
        totals, trouble = self._session.totals, self._session.trouble
        return {
            "type": "state",
            "state": self._word,
            "queue": self._agenda.waiting,
            "held": self._agenda.holds,
            "model": self._fitting.model,
            "title": self._title,
            "cost_usd": None if totals.unpriced else totals.cost_usd,
            "context_tokens": self.gauge.tokens,
            "context_window": self.gauge.window_tokens,
            "seq": self._hub.seq,
            "trouble": None if trouble is None else str(trouble),
        }

    def show(self) -> None:
        """Tell everybody how things stand, if that has changed; entries tell their own numbers."""
        message = self.message()
        telling = {**message, "seq": None}
        if telling != self._shown:
            self._shown = telling
            self._hub.broadcast(message)

    def status(self) -> RunnerStatus:
        """Tell how it stands."""
        trouble = self._session.trouble
        return RunnerStatus(
            session=self._session.id,
            pid=os.getpid(),
            version=__version__,
            protocol=PROTOCOL,
            state=self._word,
            started=self._started,
            memory_bytes=_memory_bytes(),
            clients=sum(client.attached for client in self._hub.clients),
            queue=len(self._agenda.waiting),
            model=self._fitting.model,
            title=self._title,
            workspace=self._session.meta.get("workspace"),
            seq=self._session.state.seq,
            trouble=None if trouble is None else str(trouble),
        )

    @property
    def _word(self) -> str:
        if self._questions.messages():
            return "waiting"
        return "running" if self.busy else "idle"

    @property
    def _title(self) -> str | None:
        """The title, also of a session that has no entry yet."""
        given = self._session.meta.get("title")
        return given if isinstance(given, str) and given else self._session.state.title

    def _heard(self, entry: Entry) -> None:
        if isinstance(entry.body, Checkpoint | Head):
            self.gauge.measure()
        more_to_come = entry.seq < self._session.state.seq  # which is in the state already
        if not more_to_come:
            self.show()


def _memory_bytes() -> int:
    """Return what the process holds in memory, 0 where the kernel does not tell."""
    try:
        descriptor = _files.open_read("/proc/self/statm")
    except OSError:
        return 0
    try:
        return int(_files.read_at(descriptor, 100, 0).split()[1]) * os.sysconf("SC_PAGE_SIZE")
    finally:
        _files.close(descriptor)
