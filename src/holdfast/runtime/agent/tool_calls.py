"""The calls of one answer: approved, announced, run, answered, each step durable before the next.

Calls that a model makes at once are meant to run at once. Neighbours that only read run together,
and so do neighbouring commands; files are changed one after the other; and what stands behind a
call of another kind waits for it, because models write a file and run it in one breath. Commands
that need no approval are a kind of their own: no other command runs beside them.

All calls are decided about before the first one runs, so that a person is asked once. What was
decided by looking at files is judged again just before it runs: a call before it may have put a
link in the place of a file. If it needs an approval then, it is asked about then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import groupby

from msgspec import Struct

from holdfast.errors import IdConflict
from holdfast.model.entry import Approval, Body, Tool
from holdfast.model.message import Message, Text, ToolCall, ToolResult
from holdfast.runtime.agent.cancellation import CancelToken, Stopped
from holdfast.runtime.agent.services import Question, TurnServices
from holdfast.runtime.policy.policy import (
    INSIDE,
    ONLY_LOOKS,
    Decision,
    approval,
    arguments_sha256,
    is_judged_by_files,
)
from holdfast.runtime.tools.base import Call, Done, Effect
from holdfast.runtime.tools.shell.spool import clear, forget
from holdfast.store.write.streams import Stream

_LOG = logging.getLogger("holdfast")


class Waiting(Exception):
    """Raised where a call needs an approval and nobody is there to give it."""


class _Permit(Struct, frozen=True):
    """A call that may run, by a rule or by a person (``None``).

    ``warned``: the person was told that other programs run the file by themselves.
    """

    call: ToolCall
    rule: str | None
    warned: bool = False


class Denied(Struct, frozen=True):
    """A call that was refused, for whoever lists them."""

    tool: str
    subject: str
    rule: str | None


class ToolCalls:
    """The calls of the assistant's message numbered ``seq``.

    ``unanswered`` are those that have no durable result yet; what is refused goes to ``denied``.
    """

    def __init__(
        self,
        equipment: TurnServices,
        stop: CancelToken,
        seq: int,
        calls: list[ToolCall],
        denied: list[Denied],
    ) -> None:
        self._with = equipment
        self._stop = stop
        self._spool = equipment.spool(seq)
        self.unanswered = {call.id: call for call in calls}
        self._denied = denied
        self._changes_files = True

    async def run(self, calls: list[ToolCall], approvals: Mapping[str, Approval]) -> None:
        """Run calls to their durable results; ``approvals`` were given before, by call id.

        Raises:
            Stopped: the turn is to end; calls that never ran are left in ``unanswered``.
            Waiting: somebody has to approve first; calls that ran have their results.
        """
        permits = await self._approved(calls, approvals)
        self._changes_files = any(self._effect(permit.call) != "reads" for permit in permits)
        for (effect, _), group in groupby(permits, key=self._kind):
            self._stop.check()
            await self._run_together(effect, list(group))
        with suppress(OSError):  # the results are durable; nothing needs what is left
            await asyncio.to_thread(clear, self._spool)

    def _effect(self, call: ToolCall) -> Effect:
        return self._with.tools[call.name].effect

    def _kind(self, permit: _Permit) -> tuple[Effect, bool]:
        return self._effect(permit.call), permit.rule == ONLY_LOOKS

    # Approval

    async def _approved(
        self, calls: list[ToolCall], approvals: Mapping[str, Approval]
    ) -> list[_Permit]:
        """Return the calls that may run; decisions and refusals are durable."""
        allowed: list[_Permit] = []
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
            if given is not None and given.rule and is_judged_by_files(call.name, given.rule):
                given = None  # files may have changed since
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
                warned = given is None and decision.warning is not None
                allowed.append(_Permit(call, decision.rule, warned))
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
            return f"There is no tool {call.name!r}. Available tools: {known}."
        if not isinstance(call.arguments, dict):
            return "The arguments are not a JSON object; nothing was run."
        return None

    async def _decision(self, call: ToolCall, given: Approval | None) -> Decision:
        if given is not None:
            return Decision("allow" if given.decision == "allow" else "deny", given.rule)
        tool = self._with.tools[call.name]
        decision = await self._decided_by_rules(call)
        if decision.decision != "ask":
            return decision
        subject = tool.subject(call.arguments)
        if decision.warning is not None:
            subject = f"{subject} (careful: {decision.warning})"
        question = Question(call.id, call.name, subject, call.arguments)
        answer = await self._stop.guard(_asked(self._with, question))
        if answer is None:
            return decision
        return Decision("allow" if answer else "deny", warning=decision.warning)

    async def _decided_by_rules(self, call: ToolCall) -> Decision:
        effect, files = self._effect(call), self._with.files
        decide = self._with.policy.decide
        return await asyncio.to_thread(decide, call.name, effect, call.arguments, files)

    def _must_be_judged(self, permit: _Permit) -> bool:
        """Tell whether what the file system has now may change what was decided."""
        if permit.warned or not self._changes_files:
            return False
        if permit.rule is None:
            return self._effect(permit.call) == "writes"
        return is_judged_by_files(permit.call.name, permit.rule)

    def _is_denied_by_rule(self, decision: Decision) -> bool:
        return decision.decision == "deny" and decision.rule != self._with.policy.mode

    async def _judged_again(self, permit: _Permit) -> _Permit | None:
        """Return a permit as it is now that the call is about to run; ``None`` if it is denied.

        Raises:
            Waiting: it needs an approval now, and nobody is there to give it.
        """
        call = permit.call
        if not self._must_be_judged(permit):
            return permit
        now = await self._decided_by_rules(call)
        if permit.rule is not None and now.decision == "allow":
            return _Permit(call, now.rule)
        if permit.rule is None and now.warning is None and not self._is_denied_by_rule(now):
            return permit
        decision = await self._decision(call, None)
        if decision.decision == "ask":
            raise Waiting
        id = self._with.decision_id(call.id) if decision.rule is None else None
        given = approval(call.id, call.arguments, decision.decision, decision.rule)
        await self._append([given], id)
        if decision.decision == "allow":
            return _Permit(call, decision.rule, decision.warning is not None)
        await self._append([self._denial(call, decision)])
        return None

    def _denial(self, call: ToolCall, decision: Decision) -> Message:
        subject = self._with.tools[call.name].subject(call.arguments)
        self._denied.append(Denied(call.name, subject, decision.rule))
        by = "by the person" if decision.rule is None else f"by the rules ({decision.rule})"
        text = f"[denied {by}: it was not run; do not try the same in another way, ask]"
        return _answer(call, Done([Text(text=text)], "denied"))

    # Running

    async def _run_together(self, effect: Effect, permits: list[_Permit]) -> None:
        if effect == "writes":
            for permit in permits:
                self._stop.check()
                await self._start(effect, [permit])
            return
        await self._start(effect, permits)

    async def _start(self, effect: Effect, permits: list[_Permit]) -> None:
        judged = [await self._judged_again(permit) for permit in permits]
        ready = [permit for permit in judged if permit is not None]
        if effect != "reads":
            names = [(permit.call.id, permit.call.name) for permit in ready]
            await self._append([Tool(id, name, "started", effect) for id, name in names])
        finished = await asyncio.gather(
            *(self._run_one(permit) for permit in ready), return_exceptions=True
        )
        for failure in finished:  # only now: whatever runs must come to its end first
            if failure is not None:
                raise failure

    async def _run_one(self, permit: _Permit) -> None:
        call = permit.call
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
            only_looks=permit.rule == ONLY_LOOKS,
            autorun=permit.warned,
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
            with suppress(OSError):  # as above
                await asyncio.to_thread(forget, self._spool, call.id)

    async def _append(self, entries: list[Body], id: str | None = None) -> None:
        if entries:
            ticket = self._with.session.submit(entries, id)
            try:
                await self._with.durable(ticket, giving_up=self._gives_up)
            except IdConflict:  # a client reused the id of a request for another one
                await self._append(entries)
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

    def __init__(self, equipment: TurnServices, call: ToolCall) -> None:
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


async def _asked(equipment: TurnServices, question: Question) -> bool | None:
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
