"""Tool calls that wait for a person's approval.

An answer is bound to the call and its arguments, and only the first one is taken. Clients are told
of it when its entry is durable and not before: a power cut could undo it. If no terminal is
attached for too long, the question is given up and the turn is recorded as waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from msgspec import Struct

from holdfast.errors import UsageError
from holdfast.model.entry import Approval, Entry
from holdfast.runtime.agent.services import Question
from holdfast.runtime.policy.policy import arguments_sha256
from holdfast.runtime.protocol.broadcast import Broadcaster
from holdfast.runtime.protocol.messages import Approve, QuestionAnswered, QuestionAsked, entry_id
from holdfast.store.session import Session

_LOOK_SECONDS = 1.0
_TROUBLE_SECONDS = 1.0  # in which a write that met a full disk is tried again


class _Pending(Struct, frozen=True):
    question: Question
    arguments_sha256: str
    answer: asyncio.Future[bool]
    queued: int | None

    def event(self) -> QuestionAsked:
        asked = self.question
        return QuestionAsked(
            call_id=asked.call_id,
            tool=asked.tool,
            subject=asked.subject,
            arguments=asked.arguments,
            arguments_sha256=self.arguments_sha256,
            queued=self.queued,
        )


class _Decided(Struct, frozen=True):
    """An answer whose entry is not durable yet; ``recorded`` tells in the end whether it is."""

    request: str
    allow: bool
    recorded: asyncio.Future[bool]


class PendingApprovals:
    """The open questions of one runner. ``changed`` is called when one is asked or settled.

    ``prompt`` returns the queued prompt that is being run: its sender has to know its own.
    """

    def __init__(
        self,
        session: Session,
        broadcaster: Broadcaster,
        timeout_seconds: float,
        changed: Callable[[], None],
        prompt: Callable[[], int | None],
    ) -> None:
        self._session = session
        self._broadcaster = broadcaster
        self._prompt = prompt
        self._timeout_seconds = timeout_seconds
        self._changed = changed
        self._pending: dict[str, _Pending] = {}
        self._decided: dict[str, _Decided] = {}
        broadcaster.on_entry(self._on_entry)

    def events(self) -> list[QuestionAsked]:
        """Return one event per question that has no answer yet."""
        return [pending.event() for pending in self._pending.values()]

    async def ask(self, question: Question) -> bool | None:
        """Ask all clients; return ``None`` if no terminal was attached for too long."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        digest = arguments_sha256(question.arguments)
        pending = _Pending(question, digest, answer, self._prompt())
        self._pending[question.call_id] = pending
        self._broadcaster.broadcast(pending.event())
        self._changed()
        try:
            return await self._answered(answer)
        finally:
            del self._pending[question.call_id]
            if not answer.done():  # no client has to answer any more
                self._send_answered(question.call_id, allow=None)
            self._changed()

    async def _answered(self, answer: asyncio.Future[bool]) -> bool | None:
        alone_since = time.monotonic()
        while not answer.done():
            if self._broadcaster.present:
                alone_since = time.monotonic()
            elif time.monotonic() - alone_since >= self._timeout_seconds:
                return None
            await asyncio.wait({answer}, timeout=min(_LOOK_SECONDS, self._timeout_seconds))
        return answer.result()

    async def answer(self, given: Approve) -> None:
        """Take an answer, and return when it is durable.

        Raises:
            UsageError: there is another answer already, no such question, or it is about other
                arguments; or the turn has ended meanwhile.
            DiskFull: it is taken but not durable yet; the same call waits for it again.
        """
        decided = self._decided.get(given.call_id)
        if decided is None or decided.request != given.id:
            decided = self._decide(given)
        while not decided.recorded.done():
            trouble = self._session.trouble
            await asyncio.wait({decided.recorded}, timeout=_TROUBLE_SECONDS)
            if trouble is not None and not decided.recorded.done():
                raise trouble
        if not decided.recorded.result():
            raise UsageError(
                "The turn ended before your approval was recorded, so the call was not run."
            )

    def _decide(self, given: Approve) -> _Decided:
        pending = self._pending.get(given.call_id)
        if pending is None or pending.answer.done():
            raise UsageError("This approval was already answered, or is no longer needed.")
        if pending.arguments_sha256 != given.arguments_sha256:
            raise UsageError("The call has other arguments than the approval that you answered.")
        recorded: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        decided = _Decided(given.id, given.allow, recorded)
        self._decided[given.call_id] = decided
        pending.answer.set_result(given.allow)
        return decided

    def entry_id(self, call_id: str) -> str | None:
        """Return the id for the entry that records the answer about a call."""
        decided = self._decided.get(call_id)
        return None if decided is None else entry_id(decided.request)

    def _on_entry(self, entry: Entry) -> None:
        if isinstance(entry.body, Approval):
            self._settle(entry.body.call_id, is_recorded=True)

    def turn_ended(self) -> None:
        """Discard answers that came too late to be recorded."""
        for call_id in list(self._decided):
            self._settle(call_id, is_recorded=False)

    def _settle(self, call_id: str, *, is_recorded: bool) -> None:
        decided = self._decided.pop(call_id, None)
        if decided is not None:
            decided.recorded.set_result(is_recorded)
            self._send_answered(call_id, allow=decided.allow if is_recorded else None)

    def _send_answered(self, call_id: str, *, allow: bool | None) -> None:
        self._broadcaster.broadcast(QuestionAnswered(call_id=call_id, allow=allow))
