"""The result of a run: the exit code, and the object that is written last."""

from __future__ import annotations

import signal
from typing import Any

from msgspec import Struct, structs

from holdfast.errors import HoldfastError
from holdfast.model.state import Totals
from holdfast.runtime.agent.foreign import foreign_queue
from holdfast.runtime.agent.turn import Outcome
from holdfast.runtime.providers.catalog import Choice
from holdfast.store.session import Session

FAILURE, LIMIT, READER_GONE = 1, 3, 141
_COUNTED = ("input", "output", "cache_read", "cache_write")


class Result(Struct, frozen=True, kw_only=True):
    """The result of a run. ``cost_usd`` is its own; ``total_cost_usd`` is the session's."""

    type: str = "result"
    session_id: str
    ok: bool
    state: str
    cause: str | None
    exit_code: int
    text: str
    provider: str
    model: str
    requests: int
    usage: dict[str, int]
    cost_usd: float | None
    total_cost_usd: float | None
    duration_seconds: float
    denied: list[dict[str, Any]]
    queued: int
    queued_foreign: int
    resume: str | None

    def fields(self) -> dict[str, Any]:
        """Return the object to write; without ``queued_foreign`` if that is 0."""
        fields = structs.asdict(self)
        if not self.queued_foreign:
            del fields["queued_foreign"]
        return fields


class Ending(Struct, frozen=True, kw_only=True):
    """How a run ended: its turns, an error, a signal, or a closed output."""

    outcomes: list[Outcome]
    failure: HoldfastError | None
    caught: signal.Signals | None
    output_trouble: OSError | None

    @property
    def exit_code(self) -> int:
        """The exit code; a signal or a closed output takes precedence over what it caused."""
        last = self.outcomes[-1] if self.outcomes else Outcome("completed")
        if self.caught is not None:
            return 128 + self.caught
        if self.output_trouble is not None:
            return READER_GONE if isinstance(self.output_trouble, ConnectionError) else FAILURE
        if self.failure is not None:
            return self.failure.exit_code
        if last.state == "completed":
            return 0
        if last.limit:
            return LIMIT
        return FAILURE if last.error is None else last.error.exit_code

    def result(
        self, session: Session, choice: Choice, before: Totals, seconds: float, *, kept: bool
    ) -> Result:
        """Return it in full; ``before`` is what the session had used up, ``kept`` if it stays."""
        now = session.totals
        last = self.outcomes[-1] if self.outcomes else Outcome("completed")
        failed = self.failure is not None
        return Result(
            session_id=session.id,
            ok=self.exit_code == 0,
            state="failed" if failed else last.state,
            cause=str(self.failure) if failed else last.cause,
            exit_code=self.exit_code,
            text=last.text,
            provider=choice.provider,
            model=choice.model,
            requests=now.requests - before.requests,
            usage={name: getattr(now, name) - getattr(before, name) for name in _COUNTED},
            cost_usd=None if now.unpriced > before.unpriced else now.cost_usd - before.cost_usd,
            total_cost_usd=None if now.unpriced else now.cost_usd,
            duration_seconds=round(seconds, 3),
            denied=[
                {"tool": each.tool, "subject": each.subject, "rule": each.rule}
                for outcome in self.outcomes
                for each in outcome.denied
            ],
            queued=len(session.state.queue),
            queued_foreign=len(foreign_queue(session, session.state.queue)),
            resume=f"holdfast -r {session.id}" if kept and session.seq >= 0 else None,
        )
