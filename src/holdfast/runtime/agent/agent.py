"""An agent: a session, and the one who goes on with it.

It owns nothing that a crash could lose: prompts, the queue, decisions, the model in use are entries
of the session, and everything here can be made anew from them. So an agent may be rebuilt at any
time, with another model or another login, without anything being written twice or not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from holdfast.errors import IdConflict, UsageError
from holdfast.journal.ticket import Ticket
from holdfast.model.entry import Body, Entry, Meta, Queued, Usage
from holdfast.model.message import AnyPart, File, Image, Message, Text, system
from holdfast.runtime.agent import context, foreign, summarize
from holdfast.runtime.agent.cancellation import CancelToken
from holdfast.runtime.agent.limits import Spending
from holdfast.runtime.agent.recovery import Interrupted, end_running, examine, settlement
from holdfast.runtime.agent.services import TurnServices
from holdfast.runtime.agent.summarize import Compacted
from holdfast.runtime.agent.turn import Outcome, TurnRun
from holdfast.runtime.config.run_options import Limits
from holdfast.runtime.providers.base import Provider
from holdfast.runtime.tools.shell.spool import clear, forget
from holdfast.store.session import Session

T = TypeVar("T")


class Agent:
    """Runs turns of one session, one at a time. Made and used on one event loop."""

    def __init__(self, equipment: TurnServices, limits: Limits | None = None) -> None:
        self._with = equipment
        self._stop = CancelToken()
        self._spending = Spending(limits or Limits(), equipment.session.totals)
        self._deadline: asyncio.TimerHandle | None = None
        self._busy = asyncio.Lock()

    @property
    def session(self) -> Session:
        """The session that it goes on with."""
        return self._with.session

    # Turns

    async def prompt(self, content: Sequence[AnyPart], *, queued: int | None = None) -> Outcome:
        """Run a turn. A turn that was interrupted before is closed first, as far as it is known.

        Args:
            content: what the person says.
            queued: the entry of the queue that this prompt was.

        Raises:
            UsageError: there is neither text nor an attachment in it. Nothing was written.
            StorageError: it could not be made durable.
        """
        check_said(content)
        return await self._whole(lambda: self._prompted(list(content), queued))

    async def _prompted(self, content: list[AnyPart], queued: int | None) -> Outcome:
        await self._settled()
        opening: list[Body] = []
        recorded = context.system_prompt(await asyncio.to_thread(self.session.context))
        if self._with.system is not None and recorded != self._with.system:
            opening.append(system(self._with.system))
        opening.append(Message(role="user", content=content, queued=queued))
        return await self._turn().start(opening)

    async def continue_turn(self) -> Outcome | None:
        """Go on with the turn that was interrupted or waits; ``None`` if there is none.

        Raises:
            ForeignSession: it was recorded elsewhere and not accepted. Nothing was run.
        """
        return await self._whole(self._continued)

    async def check_continue(self) -> None:
        """See that the interrupted turn, if there is one, may be continued; waits for no turn.

        Raises:
            ForeignSession: as ``continue_turn``.
        """
        looked = await asyncio.to_thread(examine, self._with, claim=False)
        await asyncio.to_thread(foreign.check_turn, self._with, looked)

    async def check_queue(self) -> None:
        """See that all queued prompts may be run.

        Raises:
            ForeignSession: some were recorded elsewhere and not accepted.
        """
        await asyncio.to_thread(foreign.check_queued, self._with, self.session.state.queue)

    async def _continued(self) -> Outcome | None:
        interrupted = await self._examined()
        if interrupted is None:
            return None
        await asyncio.to_thread(foreign.check_turn, self._with, interrupted)
        made = await asyncio.to_thread(_requests_since, self.session, interrupted.began)
        limits = await self._limits_of(interrupted.queued)
        return await self._limited(limits, lambda: self._turn().resume(interrupted), made)

    async def interrupted(self) -> Interrupted | None:
        """Tell what the last turn left, if it has no end. One that runs is waited for."""
        async with self._busy:
            return await self._examined()

    async def _examined(self) -> Interrupted | None:
        return await asyncio.to_thread(examine, self._with)

    async def settle(self) -> Interrupted | None:
        """Close an interrupted turn with what is known of its calls; nothing is run or ended."""
        return await self._whole(self._settled)

    async def _settled(self) -> Interrupted | None:
        interrupted = await self._examined()
        if interrupted is not None:
            await self._durable(self.session.submit(settlement(interrupted)))
            await asyncio.to_thread(self._forget, interrupted)
        return interrupted

    async def end_running(self) -> int:
        """End the commands that earlier turns left running, and return how many there were.

        Those of a turn without an end count as cancelled.

        Raises:
            Stopped: it was cancelled; what runs was asked to end.
        """
        return await self._whole(lambda: self._stop.guard(end_running(self.session)))

    def _forget(self, interrupted: Interrupted) -> None:
        """Clear the spool of an interrupted turn, but for commands that still run."""
        if interrupted.seq is not None:
            spool = self._with.spool(interrupted.seq)
            with contextlib.suppress(OSError):  # what became of the calls is durable
                for found in interrupted.calls:
                    if found.state != "running":
                        forget(spool, found.call.id)
                clear(spool)

    def _turn(self) -> TurnRun:
        self._start_the_clock()
        return TurnRun(self._with, self._stop, self._spending)

    def cancel(self, cause: str, *, limit: bool = False) -> None:
        """End the turn that runs: what runs is asked to end, and the second time made to."""
        self._stop.request(cause, limit=limit)

    def _start_the_clock(self) -> None:
        seconds = self._spending.limits.time_limit_seconds
        if seconds is not None and self._deadline is None:
            cause = f"the time limit of {seconds:g} seconds (--time-limit) is reached"
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(seconds, lambda: self.cancel(cause, limit=True))

    def _stop_the_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    async def _whole(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run something to its end, also if the task is cancelled: the turn is ended then."""
        async with self._busy:
            # A limit holds for all that follows, a cancel for one turn.
            self._stop = CancelToken(self._stop.reached)
            running = asyncio.ensure_future(work())
            cancelled = False
            while not running.done():
                try:
                    await asyncio.shield(running)
                except asyncio.CancelledError:
                    if not running.cancelled():
                        cancelled = True
                        self.cancel("the task was cancelled")
                except Exception:  # noqa: BLE001  raised below, where the result is taken
                    break
            if cancelled:
                with contextlib.suppress(Exception):
                    running.result()
                raise asyncio.CancelledError
            return running.result()

    # The queue

    def enqueue(
        self,
        content: Sequence[AnyPart],
        *,
        id: str | None = None,
        limits: Limits | None = None,
    ) -> Ticket:
        """Have a prompt wait its turn, with limits of its own; durable once the ticket is."""
        check_said(content)
        own = {} if limits in (None, Limits()) else {"limits": msgspec.to_builtins(limits)}
        return self.session.submit(Queued(list(content), extra=own), id)

    async def next_queued(self) -> Outcome | None:
        """Run the prompt that has waited longest; ``None`` if none waits.

        Raises:
            ForeignSession: a prompt that waits was recorded elsewhere and not accepted.
        """
        return await self._whole(self._first_queued)

    async def _first_queued(self) -> Outcome | None:
        await self.check_queue()
        queue = self.session.state.queue
        return await self._run_queued(queue[0]) if queue else None

    async def queued(self, seq: int) -> Outcome:
        """Run the prompt that entry ``seq`` put into the queue.

        Raises:
            UsageError: it does not wait there any more.
            ForeignSession: it was recorded elsewhere and not accepted. Nothing was run.
        """
        return await self._whole(lambda: self._run_queued(seq))

    async def _run_queued(self, seq: int) -> Outcome:
        if seq not in self.session.state.queue:
            raise UsageError(f"Prompt {seq} is no longer in the queue.")
        await asyncio.to_thread(foreign.check_queued, self._with, [seq])
        waiting = await asyncio.to_thread(queued_prompt, self.session, seq)
        if waiting is None:
            raise UsageError(f"The text of queued prompt {seq} is no longer in the journal.")
        limits = _limits_in(waiting)
        return await self._limited(limits, lambda: self._prompted(waiting.content, seq))

    async def _limits_of(self, seq: int | None) -> Limits | None:
        """Return the limits of the prompt that was queued as ``seq``."""
        queued = None if seq is None else await asyncio.to_thread(queued_prompt, self.session, seq)
        return None if queued is None else _limits_in(queued)

    async def _limited(
        self,
        limits: Limits | None,
        work: Callable[[], Coroutine[Any, Any, Outcome]],
        made: Sequence[Usage] = (),
    ) -> Outcome:
        """Run a turn within limits of its own, if it has any; ``made`` are its requests so far."""
        if limits is None:
            return await work()
        spending, deadline, reached = self._spending, self._deadline, self._stop.reached
        self._spending = Spending(limits, self.session.totals, made)
        self._deadline = None
        try:
            return await work()
        finally:
            self._stop_the_clock()
            self._spending, self._deadline, self._stop = spending, deadline, CancelToken(reached)

    # Between turns

    async def compact(self) -> Compacted:
        """Sum up what was said and start the context from there.

        Raises:
            Stopped: it was cancelled. Nothing has changed.
        """
        return await self._whole(self._compacted)

    async def _compacted(self) -> Compacted:
        return await self._stop.guard(summarize.compact(self._with))

    async def switch(
        self, provider: Provider, model: str, *, login: str | None = None, id: str | None = None
    ) -> None:
        """Let another model go on, or the same under another login.

        It is recorded if it is a change, as an entry with that id if one is given.
        """
        async with self._busy:
            before, self._with.provider = self._with.provider, provider
            self._with.model = model
            self._with.known_tokens = None
            await self.record_who_answers(login, id)
            if before is not provider:
                await before.close()

    async def record_who_answers(self, login: str | None = None, id: str | None = None) -> None:
        """Write provider, endpoint, model and login into the session where they have changed."""
        now = {
            "provider": self._with.provider.name,
            "endpoint": self._with.provider.endpoint,
            "model": self._with.model,
            "login": login,
        }
        before = self.session.meta
        changed = {name: value for name, value in now.items() if before.get(name) != value}
        if changed and (id is None or self.session.seq < 0):
            await asyncio.to_thread(lambda: self.session.update(**changed))
        elif changed:
            try:
                await self.session.submit(Meta(changed), id)
            except IdConflict:  # recorded by this request before; what differs came later
                if self.session.trouble is not None:
                    raise self.session.trouble from None  # it still waits

    async def close(self) -> None:
        """Let go of the provider. The session belongs to whoever opened it."""
        self._stop_the_clock()
        await self._with.provider.close()

    async def _durable(self, ticket: Ticket) -> None:
        await self._with.durable(ticket, giving_up=lambda: self._stop.cause is not None)


def check_said(content: Sequence[AnyPart]) -> None:
    """See that there is something in a prompt.

    Raises:
        UsageError: there is nothing.
    """
    for part in content:
        if isinstance(part, Image | File) or (isinstance(part, Text) and part.text.strip()):
            return
    raise UsageError("The prompt is empty. Enter a text or attach a file.")


def queued_prompt(session: Session, seq: int) -> Queued | None:
    """Return the prompt that entry ``seq`` put into the queue; blocks."""
    with session.follow(after=seq - 1, wait=False) as entries:
        entry = next(iter(entries), None)
    if isinstance(entry, Entry) and entry.seq == seq and isinstance(entry.body, Queued):
        return entry.body
    return None


def _limits_in(queued: Queued) -> Limits | None:
    given = queued.extra.get("limits")
    return None if given is None else msgspec.convert(given, Limits)


def _requests_since(session: Session, seq: int) -> list[Usage]:
    """Return what the requests behind an entry took."""
    with session.follow(after=seq, wait=False) as entries:
        bodies = [entry.body for entry in entries if isinstance(entry, Entry)]
    return [body for body in bodies if isinstance(body, Usage)]
