"""Questions that wait for an answer from whoever is there: what a person has to approve.

An answer is bound to the call and its arguments, and the first one counts at once. Everybody is
told of it when its entry is durable and not before: a power cut could take it back. With nobody
there who could answer, a question is given up after a while: then the turn waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from holdfast.errors import UsageError
from holdfast.model.entry import Approval, Entry
from holdfast.runtime.control.hub import Hub
from holdfast.runtime.control.protocol import Approve, entry_id
from holdfast.runtime.equipment import Question
from holdfast.runtime.policy import arguments_sha256
from holdfast.store.session import Session

_LOOK_SECONDS = 1.0
_TROUBLE_SECONDS = 1.0  # in which what waits for room is tried again


class _Pending(Struct, frozen=True):
    question: Question
    arguments_sha256: str
    answer: asyncio.Future[bool]
    queued: int | None

    def message(self) -> dict[str, Any]:
        asked = self.question
        return {
            "type": "question",
            "call_id": asked.call_id,
            "tool": asked.tool,
            "subject": asked.subject,
            "arguments": asked.arguments,
            "arguments_sha256": self.arguments_sha256,
            "queued": self.queued,
        }


class _Decided(Struct, frozen=True):
    """An answer whose entry is on its way; ``recorded`` tells in the end whether it came."""

    request: str
    allow: bool
    recorded: asyncio.Future[bool]


class Questions:
    """The questions of one runner. ``changed`` is called when one begins or ends to wait.

    ``prompt`` tells which prompt of the queue is being run: whoever sent it can tell its own.
    """

    def __init__(
        self,
        session: Session,
        hub: Hub,
        patience_seconds: float,
        changed: Callable[[], None],
        prompt: Callable[[], int | None],
    ) -> None:
        self._session = session
        self._hub = hub
        self._prompt = prompt
        self._patience_seconds = patience_seconds
        self._changed = changed
        self._pending: dict[str, _Pending] = {}
        self._decided: dict[str, _Decided] = {}
        hub.on_entry(self._heard)

    def messages(self) -> list[dict[str, Any]]:
        """Return what is asked now, as clients are told."""
        return [pending.message() for pending in self._pending.values()]

    async def ask(self, question: Question) -> bool | None:
        """Ask whoever is there; ``None`` if nobody has been for too long."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        digest = arguments_sha256(question.arguments)
        pending = _Pending(question, digest, answer, self._prompt())
        self._pending[question.call_id] = pending
        self._hub.broadcast(pending.message())
        self._changed()
        try:
            return await self._answered(answer)
        finally:
            del self._pending[question.call_id]
            if not answer.done():  # everybody can forget it
                self._tell(question.call_id, allow=None)
            self._changed()

    async def _answered(self, answer: asyncio.Future[bool]) -> bool | None:
        alone_since = time.monotonic()
        while not answer.done():
            if self._hub.present:
                alone_since = time.monotonic()
            elif time.monotonic() - alone_since >= self._patience_seconds:
                return None
            await asyncio.wait({answer}, timeout=min(_LOOK_SECONDS, self._patience_seconds))
        return answer.result()

    async def answer(self, given: Approve) -> None:
        """Take an answer, and return when it is durable.

        Raises:
            UsageError: somebody was faster, or it is not asked, or about something else; or the
                turn has ended meanwhile.
            DiskFull: it counts, and waits for room; the same call waits for it again.
        """
        decided = self._decided.get(given.call_id)
        if decided is None or decided.request != given.id:
            decided = self._taken(given)
        while not decided.recorded.done():
            trouble = self._session.trouble
            await asyncio.wait({decided.recorded}, timeout=_TROUBLE_SECONDS)
            if trouble is not None and not decided.recorded.done():
                raise trouble
        if not decided.recorded.result():
            raise UsageError("The turn has ended before the answer counted; the call was not run.")

    def _taken(self, given: Approve) -> _Decided:
        pending = self._pending.get(given.call_id)
        if pending is None or pending.answer.done():
            raise UsageError("That question has been answered already, or is not asked any more.")
        if pending.arguments_sha256 != given.arguments_sha256:
            raise UsageError("The question is about other arguments than the answer.")
        recorded: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        decided = _Decided(given.id, given.allow, recorded)
        self._decided[given.call_id] = decided
        pending.answer.set_result(given.allow)
        return decided

    def entry_id(self, call_id: str) -> str | None:
        """Return the id for the entry that records the answer about a call."""
        decided = self._decided.get(call_id)
        return None if decided is None else entry_id(decided.request)

    def _heard(self, entry: Entry) -> None:
        if isinstance(entry.body, Approval):
            self._settle(entry.body.call_id, is_recorded=True)

    def turn_ended(self) -> None:
        """Take back answers that came too late to count; their entries have not come."""
        for call_id in list(self._decided):
            self._settle(call_id, is_recorded=False)

    def _settle(self, call_id: str, *, is_recorded: bool) -> None:
        decided = self._decided.pop(call_id, None)
        if decided is not None:
            decided.recorded.set_result(is_recorded)
            self._tell(call_id, allow=decided.allow if is_recorded else None)

    def _tell(self, call_id: str, *, allow: bool | None) -> None:
        self._hub.broadcast({"type": "answered", "call_id": call_id, "allow": allow})
