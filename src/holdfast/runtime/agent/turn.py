"""One turn, from a prompt to its end. This is the loop; everything it calls is a step of it.

    prompt durable → request → deltas live → message durable → approval durable → intent durable
    → tool → result durable → … → end durable

Nothing finished is shown or acted upon before it is durable, so a process that dies anywhere leaves
a journal that says how far it came; ``recovery`` reads it, and ``resume`` goes on from there.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from msgspec import Struct, field

from holdfast.errors import EmptyReply, ProviderError, StorageError, UsageError
from holdfast.journal.ticket import Ticket
from holdfast.model import entry as bodies
from holdfast.model.entry import Body, Usage
from holdfast.model.message import Message, ToolCall
from holdfast.runtime.agent import context, summarize
from holdfast.runtime.agent.cancellation import CancelToken, Stopped
from holdfast.runtime.agent.limits import Spending
from holdfast.runtime.agent.pairing import calls_of
from holdfast.runtime.agent.recovery import Interrupted, resumed
from holdfast.runtime.agent.services import TurnServices
from holdfast.runtime.agent.tool_calls import Denied, ToolCalls, Waiting, never_ran
from holdfast.runtime.providers.base import (
    Finished,
    ProviderStatus,
    Request,
    TextDelta,
    ThinkingDelta,
    TokenCounts,
    ToolCallDelta,
)
from holdfast.store.write.streams import Stream

_MOST_BROKEN_ANSWERS = 3  # one after the other, before the turn fails


class Outcome(Struct, frozen=True):
    """How a turn ended: completed, cancelled, failed, or waiting for an approval.

    ``cause`` says why, if it did not complete; ``limit`` that a limit ended it; ``error`` what went
    wrong. ``message`` is the assistant's last one; ``text`` its answer, with the pieces before it
    if it came in several.
    """

    state: str
    cause: str | None = None
    limit: bool = False
    error: ProviderError | None = None
    message: Message | None = None
    denied: list[Denied] = field(default_factory=list)
    text: str = ""


class _Answer(Struct, frozen=True):
    """The assistant's message, on its way to the disk."""

    message: Message
    ticket: Ticket

    @property
    def seq(self) -> int:
        """The message's number, once it is durable; what it cost has the next."""
        return self.ticket.entries[0].seq


class TurnRun:
    """One turn of a session; made anew for each."""

    def __init__(self, equipment: TurnServices, stop: CancelToken, spending: Spending) -> None:
        self._with = equipment
        self._stop = stop
        self._spending = spending
        self._last: Message | None = None
        self._round: ToolCalls | None = None
        self._denied: list[Denied] = []
        self._live: Stream | None = None
        self._pieces: list[str] = []  # of the answer that is being given
        self._broken_answers = 0
        self._cut_off_answers = 0
        self._may_compact = True

    async def start(self, opening: list[Body]) -> Outcome:
        """Begin with a prompt; ``opening`` holds it, and whatever is recorded before it."""
        started = [bodies.Turn("started"), *opening]
        await self._durable(self._with.session.submit(started))
        return await self._run(None)

    async def resume(self, interrupted: Interrupted) -> Outcome:
        """Go on with a turn that another process began."""
        return await self._run(interrupted)

    async def _run(self, interrupted: Interrupted | None) -> Outcome:
        try:
            if interrupted is not None:
                await self._take_up(interrupted)
            while True:
                self._stop.check()
                self._check_limits()
                await self._make_room()
                answer = await self._answer()
                if answer is None:
                    continue  # it broke off and is kept; the next request goes on from there
                await self._durable(answer.ticket)
                self._last = answer.message
                self._pieces.append(answer.message.text)
                calls = calls_of(answer.message)
                if not calls and not self._is_cut_off(answer.message):
                    return await self._end("completed")
                if calls:
                    self._pieces = []
                    await self._begin_round(answer.seq, calls).run(calls, {})
        except Stopped as stopped:
            return await self._end("cancelled", str(stopped))
        except Waiting:
            return await self._end("waiting", "an approval is needed")
        except ProviderError as error:
            return await self._end("failed", str(error), error)
        except StorageError:
            raise  # nothing more can be written down
        except Exception as error:
            await self._end("failed", f"{type(error).__name__}: {error}")
            raise

    def _is_cut_off(self, message: Message) -> bool:
        """Tell whether an answer ended because it was too long, and the rest may be asked for."""
        if message.stop != "length":
            return False
        self._cut_off_answers += 1
        return self._cut_off_answers <= _MOST_BROKEN_ANSWERS

    async def _take_up(self, interrupted: Interrupted) -> None:
        if interrupted.seq is not None:
            calls = [one.call for one in interrupted.open if one.state == "never_ran"]
            taken_up = self._begin_round(interrupted.seq, calls)
            await resumed(interrupted, taken_up, self._with, self._stop)

    def _begin_round(self, seq: int, calls: list[ToolCall]) -> ToolCalls:
        self._round = ToolCalls(self._with, self._stop, seq, calls, self._denied)
        return self._round

    def _check_limits(self) -> None:
        reached = self._spending.exceeded(self._with.session.totals)
        if reached is not None:
            self._stop.request(reached, limit=True)
            self._stop.check()

    async def _make_room(self) -> None:
        """Compact the context if it is nearly full; a failure is told and changes nothing."""
        if self._may_compact and await summarize.is_due(self._with):
            done = await self._stop.guard(summarize.compact(self._with))
            self._may_compact = done.ok
            self._with.tell(done.told)

    # The request

    async def _answer(self) -> _Answer | None:
        """Ask the model; ``None`` if its answer broke off after it had begun."""
        messages = await asyncio.to_thread(self._with.session.context)
        request = context.build(messages, self._with.frame)
        self._spending.requests += 1
        try:
            answer = await self._stop.guard(self._streamed(request))
        except ProviderError as error:
            self._broken_answers += 1
            begun = self._live is not None
            if not begun or not error.retryable or self._broken_answers > _MOST_BROKEN_ANSWERS:
                raise
            self._with.tell(f"{error} The received part is saved; requesting the rest.")
            return None
        finally:
            await self._keep_what_arrived(request.model)
        self._broken_answers = 0
        return answer

    async def _streamed(self, request: Request) -> _Answer:
        async with aclosing(self._with.provider.stream(request)) as deltas:
            async for delta in deltas:
                match delta:
                    case Finished(message=message, counts=counts):
                        return self._finished(request, message, counts)
                    case ProviderStatus(text=text):
                        self._with.tell(text)
                    case TextDelta(text=text):
                        self._stream(request).write(text)
                    case ThinkingDelta(text=text):
                        self._stream(request).write(text, kind="thinking")
                    case ToolCallDelta(text=text, call_id=call_id, name=name):
                        self._stream(request).write(
                            text, kind="tool_call", call_id=call_id, name=name
                        )
        raise AssertionError("a provider's stream ends with Finished or an error")

    def _stream(self, request: Request) -> Stream:
        if self._live is None:
            self._live = self._with.session.stream(model=request.model)
        return self._live

    def _finished(self, request: Request, message: Message, counts: TokenCounts) -> _Answer:
        """Hand in the whole message and what it cost, as one; the price is that of now."""
        usage = self._with.usage(counts, message.model, request.model)
        self._with.known_tokens = _size_of(counts)
        try:
            ticket = self._stream(request).submit(
                message.stop or "end", message.content, along=[usage], request=message.request
            )
        except UsageError as error:
            told = f"The answer cannot be saved as a message: {error}"
            raise EmptyReply(told, retryable=False) from error
        self._live = None
        return _Answer(message, ticket)

    async def _keep_what_arrived(self, model: str) -> None:
        """Finish an answer that broke off; what it cost nobody knows."""
        stream, self._live = self._live, None
        if stream is not None:
            self._pieces += [event.text for event in stream.events if event.kind == "text"]
            usage = Usage(0, 0, None, model=model)
            await self._durable(stream.submit("interrupted", along=[usage]))

    # The end

    async def _end(
        self, state: str, cause: str | None = None, error: ProviderError | None = None
    ) -> Outcome:
        """Write down how the turn ended, and of every call that was never run that it was not."""
        entries: list[Body] = []
        if self._round is not None and state != "waiting":
            entries += never_ran(self._round.unanswered.values(), cause or "the turn ended")
        entries.append(bodies.Turn(state, cause))
        await self._durable(self._with.session.submit(entries))
        text = "".join(self._pieces)
        return Outcome(state, cause, self._stop.limit, error, self._last, self._denied, text)

    async def _durable(self, ticket: Ticket) -> bodies.Position:
        return await self._with.durable(ticket, giving_up=lambda: self._stop.cause is not None)


def _size_of(counts: TokenCounts) -> int | None:
    if not counts.known:
        return None
    return counts.input + counts.cache_read + counts.cache_write + counts.output
