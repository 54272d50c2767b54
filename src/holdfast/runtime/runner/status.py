"""The state of a runner: an event for its clients whenever it changes, and its status.

The state repeats from the entries only what a status line needs without reading them.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable

from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.files import Files
from holdfast.journal.format import timestamp
from holdfast.model.entry import Checkpoint, Entry, Head
from holdfast.runtime.agent.context import estimate_tokens
from holdfast.runtime.agent.services import TurnServices
from holdfast.runtime.protocol.broadcast import Broadcaster
from holdfast.runtime.protocol.messages import PROTOCOL, RunnerStatus, StateChanged
from holdfast.runtime.runner.approvals import PendingApprovals
from holdfast.runtime.runner.model_switch import ActiveModel
from holdfast.runtime.runner.queue import PromptQueue
from holdfast.store.session import Session
from holdfast.version import __version__

_LOG = logging.getLogger("holdfast")
_files = Files()


class RunnerState:
    """The state of one runner. ``busy``: a turn, or a job between turns, is under way."""

    def __init__(
        self,
        session: Session,
        broadcaster: Broadcaster,
        active_model: ActiveModel,
        queue: PromptQueue,
        approvals: PendingApprovals,
    ) -> None:
        self._session = session
        self._broadcaster = broadcaster
        self._active_model = active_model
        self._queue = queue
        self._approvals = approvals
        self._started = timestamp()
        self._sent: StateChanged | None = None
        self.context = ContextMeter(active_model.equipment, self.show)
        self.busy = False
        self._foreign = True
        broadcaster.on_entry(self._on_entry)

    def event(self) -> StateChanged:
        """Return the state as an event for clients."""
        totals, trouble = self._session.totals, self._session.trouble
        return StateChanged(
            state=self._word,
            queue=self._queue.waiting,
            held=self._queue.holds,
            model=self._active_model.model,
            title=self._title,
            cost_usd=None if totals.unpriced else totals.cost_usd,
            context_tokens=self.context.tokens,
            context_window=self.context.window_tokens,
            seq=self._broadcaster.seq,
            trouble=None if trouble is None else str(trouble),
            foreign=self._is_foreign(),
        )

    def show(self) -> None:
        """Send the state to all clients if it has changed; a new number alone is no change."""
        event = self.event()
        without_seq = replace(event, seq=-1)
        if without_seq != self._sent:
            self._sent = without_seq
            self._broadcaster.broadcast(event)

    def status(self) -> RunnerStatus:
        """Return the status of the runner."""
        trouble = self._session.trouble
        return RunnerStatus(
            session=self._session.id,
            pid=os.getpid(),
            version=__version__,
            protocol=PROTOCOL,
            state=self._word,
            started=self._started,
            memory_bytes=_memory_bytes(),
            clients=sum(client.attached for client in self._broadcaster.clients),
            queue=len(self._queue.waiting),
            model=self._active_model.model,
            title=self._title,
            workspace=str(self._active_model.equipment.workspace),
            seq=self._session.seq,
            trouble=None if trouble is None else str(trouble),
            foreign=self._is_foreign(),
        )

    def _is_foreign(self) -> bool:
        """Tell whether the session has entries from elsewhere that the user has not accepted.

        A session that is ours stays so while the runner has it: no other process can append.
        """
        self._foreign = self._foreign and self._session.provenance().any_foreign
        return self._foreign

    @property
    def _word(self) -> str:
        if self._approvals.events():
            return "waiting"
        return "running" if self.busy else "idle"

    @property
    def _title(self) -> str | None:
        """The title, also of a session that has no entry yet."""
        given = self._session.meta.get("title")
        return given if isinstance(given, str) and given else self._session.state.title

    def _on_entry(self, entry: Entry) -> None:
        if isinstance(entry.body, Checkpoint | Head):
            self.context.measure()
        more_to_come = entry.seq < self._session.seq  # which is in the state already
        if not more_to_come:
            self.show()


class ContextMeter:
    """The size of one session's context: as the provider counted it, else an estimate.

    Estimating reads the context from disk, so it is done in a thread, and only when there is no
    count: at the start, and when the context has been replaced. ``changed`` is called after it.
    """

    def __init__(self, equipment: TurnServices, changed: Callable[[], None]) -> None:
        self._with = equipment
        self._changed = changed
        self._estimated: int | None = None
        self._stale = False
        self._measuring: asyncio.Task[None] | None = None

    @property
    def tokens(self) -> int | None:
        """How many tokens the context has; ``None`` while that is not known."""
        counted = self._with.known_tokens
        return self._estimated if counted is None else counted

    @property
    def window_tokens(self) -> int:
        """How many tokens the context may have."""
        return self._with.window_tokens

    def measure(self) -> None:
        """Drop the count, because the context has been replaced, and estimate it."""
        self._with.known_tokens = self._estimated = None
        self._stale = True
        if self._measuring is None or self._measuring.done():
            self._measuring = asyncio.ensure_future(self._measure())

    def close(self) -> None:
        """Stop measuring."""
        if self._measuring is not None:
            self._measuring.cancel()

    async def _measure(self) -> None:
        while self._stale:
            self._stale = False
            try:
                self._estimated = await asyncio.to_thread(self._estimate)
            except (HoldfastError, OSError) as error:
                _LOG.debug("The context cannot be measured: %s", error)
        self._changed()

    def _estimate(self) -> int:
        return estimate_tokens(self._with.session.context())


def _memory_bytes() -> int:
    """Return the memory that this process uses, 0 where the kernel does not say."""
    try:
        descriptor = _files.open_read("/proc/self/statm")
    except OSError:
        return 0
    try:
        return int(_files.read_at(descriptor, 100, 0).split()[1]) * os.sysconf("SC_PAGE_SIZE")
    finally:
        _files.close(descriptor)
