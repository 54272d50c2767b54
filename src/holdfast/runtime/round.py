"""The calls of one answer: approved, announced, run, answered, each step durable before the next.

Calls that a model makes at once are meant to run at once. Neighbours that only read run together,
and so do neighbouring commands; files are changed one after the other; and what stands behind a
call of another kind waits for it, because models write a file and run it in one breath.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from itertools import groupby

from msgspec import Struct

from holdfast.model.entry import Approval, Body, Tool
from holdfast.model.message import Message, Text, ToolCall, ToolResult
from holdfast.runtime.equipment import Equipment, Question
from holdfast.runtime.policy import INSIDE, Decision, approval, arguments_sha256
from holdfast.runtime.stopping import Stop, Stopped
from holdfast.runtime.tools.contract import Call, Done, Effect
from holdfast.runtime.tools.spool import clear, forget
from holdfast.store.streams import Stream

_LOG = logging.getLogger("holdfast")


class Waiting(Exception):
    """Raised where a call needs an approval and nobody is there to give it."""


class Denied(Struct, frozen=True):
    """A call that was refused, for whoever lists them."""

    tool: str
    subject: str
    rule: str | None


class Round:
    """The calls of the assistant's message numbered ``seq``.

    ``unanswered`` are those that have no durable result yet; what is refused goes to ``denied``.
    """

    def __init__(
        self,
        equipment: Equipment,
        stop: Stop,
        seq: int,
        calls: list[ToolCall],
        denied: list[Denied],
    ) -> None:
        self._with = equipment
        self._stop = stop
        self._spool = equipment.spool(seq)
        self.unanswered = {call.id: call for call in calls}
        self._denied = denied

    async def run(self, calls: list[ToolCall], approvals: Mapping[str, Approval]) -> None:
        """Run calls to their durable results; ``approvals`` were given before, by call id.

        Raises:
            Stopped: the turn is to end; calls that never ran are left in ``unanswered``.
            Waiting: somebody has to approve first; nothing ran.
        """
        allowed = await self._approved(calls, approvals)
        for effect, group in groupby(allowed, key=self._effect):
            self._stop.check()
            await self._run_together(effect, list(group))
        await asyncio.to_thread(clear, self._spool)

    def _effect(self, call: ToolCall) -> Effect:
        return self._with.tools[call.name].effect

    # Approval

    async def _approved(
        self, calls: list[ToolCall], approvals: Mapping[str, Approval]
    ) -> list[ToolCall]:
        """Return the calls that may run; decisions and refusals are durable."""
        allowed: list[ToolCall] = []
        entries: list[Body] = []
        waiting = False
        for call in calls:
            refusal = self._impossible(call)
            if refusal is not None:
                entries.append(_answer(call, Done([Text(text=refusal)], "failed")))
                continue
            given = approvals.get(call.id)
            if given is not None and given.arguments_sha256 != arguments_sha256(call.arguments):
                given = None
            decision = await self._decision(call, given)
            if decision.decision == "ask":
                waiting = True
                continue
            if decision.rule != INSIDE and given is None:
                entries.append(approval(call.id, call.arguments, decision.decision, decision.rule))
                if decision.rule is None:  # a person said it, and is not to be asked twice
                    await self._append(entries, self._with.decision_id(call.id))
                    entries = []
            if decision.decision == "allow":
                allowed.append(call)
            else:
                entries.append(self._denial(call, decision))
            if decision.rule is None:
                await self._append(entries)
                entries = []
        await self._append(entries)
        if waiting:
            raise Waiting
        return allowed

    def _impossible(self, call: ToolCall) -> str | None:
        """Say why a call cannot even be decided about."""
        if call.name not in self._with.tools:
            known = ", ".join(self._with.tools)
            return f"There is no tool {call.name!r}; there are: {known}."
        if not isinstance(call.arguments, dict):
            return "The arguments are not a JSON object; nothing was run."
        return None

    async def _decision(self, call: ToolCall, given: Approval | None) -> Decision:
        if given is not None:
            return Decision("allow" if given.decision == "allow" else "deny", given.rule)
        tool = self._with.tools[call.name]
        decision = await asyncio.to_thread(
            self._with.policy.decide, call.name, tool.effect, call.arguments, self._with.files
        )
        if decision.decision != "ask":
            return decision
        subject = tool.subject(call.arguments)
        question = Question(call.id, call.name, subject, call.arguments)
        answer = await self._stop.guard(_asked(self._with, question))
        if answer is None:
            return decision
        return Decision("allow" if answer else "deny")

    def _denial(self, call: ToolCall, decision: Decision) -> Message:
        subject = self._with.tools[call.name].subject(call.arguments)
        self._denied.append(Denied(call.name, subject, decision.rule))
        by = "by the person" if decision.rule is None else f"by the rules ({decision.rule})"
        text = f"[denied {by}: it was not run; do not try the same in another way, ask]"
        return _answer(call, Done([Text(text=text)], "denied"))

    # Running

    async def _run_together(self, effect: Effect, calls: list[ToolCall]) -> None:
        if effect != "reads":
            await self._append([Tool(call.id, call.name, "started", effect) for call in calls])
        if effect == "writes":
            for call in calls:
                self._stop.check()
                await self._run_one(call)
            return
        finished = await asyncio.gather(
            *(self._run_one(call) for call in calls), return_exceptions=True
        )
        for failure in finished:  # only now: whatever runs must come to its end first
            if failure is not None:
                raise failure

    async def _run_one(self, call: ToolCall) -> None:
        kept: list[str] = []
        live = _Live(self._with, call)
        order = Call(
            id=call.id,
            arguments=call.arguments,
            workspace=self._with.workspace,
            spool=self._spool,
            show=live.show,
            keep=self._with.keeping(kept, self._stop),
            allowed=self._with.allowed,
        )
        self._stop.check()
        try:
            done = await self._stop.guard(self._with.tools[call.name].run(order))
        except Stopped:
            done = Done([*live.shown, Text(text=_BROKEN_OFF)], "cancelled")
        except Exception as error:  # noqa: BLE001  a tool must not take the turn down with it
            _LOG.debug("The tool %s failed", call.name, exc_info=True)
            done = Done([*live.shown, Text(text=_BROKEN.format(error=error))], "unknown")
        await self.answer(call, done, kept, live.stream)

    async def answer(
        self,
        call: ToolCall,
        done: Done,
        kept: Iterable[str] = (),
        stream: Stream | None = None,
        *,
        still_runs: bool = False,
    ) -> None:
        """Make a result durable; what the tool left in the spool is not needed from then on.

        Unless its command still runs: then that is how it will be found again.
        """
        message = _answer(call, done, kept)
        session = self._with.session
        ticket = (
            session.submit(message) if stream is None else stream.submit("end", message.content)
        )
        await self._with.durable(ticket, giving_up=self._gives_up)
        self.unanswered.pop(call.id, None)
        if not still_runs:
            await asyncio.to_thread(forget, self._spool, call.id)

    async def _append(self, entries: list[Body], id: str | None = None) -> None:
        if entries:
            ticket = self._with.session.submit(entries, id)
            await self._with.durable(ticket, giving_up=self._gives_up)
            if id is not None and ticket.entries[-1].body != entries[-1]:
                await self._append(entries)  # the id was used before, for something else
                return
        for entry in entries:
            if isinstance(entry, Message):
                for part in entry.content:
                    if isinstance(part, ToolResult):
                        self.unanswered.pop(part.call_id, None)

    def _gives_up(self) -> bool:
        return self._stop.cause is not None


class _Live:
    """A tool's output while it runs: a stream that begins with the first piece."""

    def __init__(self, equipment: Equipment, call: ToolCall) -> None:
        self._with = equipment
        self._call = call
        self.stream: Stream | None = None

    def show(self, text: str) -> None:
        if self.stream is None:
            self.stream = self._with.session.stream(call_id=self._call.id, name=self._call.name)
        self.stream.write(text)

    @property
    def shown(self) -> list[Text]:
        """What was shown so far."""
        text = "" if self.stream is None else "".join(one.text for one in self.stream.events)
        return [Text(text=text)] if text else []


_BROKEN_OFF = "[cancelled; it may have done all, some or none of its work]"
_BROKEN = "[the tool itself failed: {error}; it may have done all, some or none of its work]"


async def _asked(equipment: Equipment, question: Question) -> bool | None:
    return await equipment.ask(question)


def _answer(call: ToolCall, done: Done, kept: Iterable[str] = ()) -> Message:
    result = ToolResult(
        call_id=call.id,
        content=done.content,
        outcome=done.outcome,
        changes=done.changes,
        kept=list(dict.fromkeys(kept)),
    )
    return Message(role="tool", content=[result])


def never_ran(calls: Iterable[ToolCall], why: str) -> list[Body]:
    """Return results that say of calls that they were never run."""
    return [_answer(call, Done([Text(text=f"[not run: {why}]")], "never_ran")) for call in calls]
