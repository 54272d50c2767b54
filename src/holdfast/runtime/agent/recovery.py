"""What an interrupted turn left behind, and how it is brought to an end or taken up again.

The journal says how far a turn came. A call with a result is done. One that was announced
(``started``) may have run; one that was not, has never run. For those that were announced, what the
tool left in the spool says more: a command that ended after its agent had died is completed, one
that still runs is reported, a file that a tool was to change either is changed or is not.

``examine`` only looks (with ``claim`` it also sees to it that what never ran stays that way).
``settlement`` returns the entries that close the turn, ``resumed`` goes on with it: it takes what
is completed, waits for what runs, runs what never ran, and leaves alone what may have run.

A turn that was recorded elsewhere and not accepted is ``foreign``: nothing recorded in it counts,
neither approvals nor what its tools left, and its open calls never ran here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct, field

from holdfast.model.entry import Approval, Body, Entry, Tool, Turn, in_tree
from holdfast.model.message import Message, Text, ToolCall, ToolResult
from holdfast.model.sanitize import quoted_line
from holdfast.runtime.agent.cancellation import CancelToken
from holdfast.runtime.agent.pairing import calls_of, matched
from holdfast.runtime.agent.services import SPOOL_NAME, TurnServices
from holdfast.runtime.policy.policy import arguments_sha256
from holdfast.runtime.tools.base import Done
from holdfast.runtime.tools.edit import Edit
from holdfast.runtime.tools.file_change import recover_change
from holdfast.runtime.tools.shell import bash
from holdfast.runtime.tools.shell.spool import (
    Recovered,
    clear,
    end,
    folder_of,
    forget,
    forget_folder,
    recover,
    recover_folder,
)
from holdfast.runtime.tools.write import Write
from holdfast.store.session import Session
from holdfast.store.write.streams import Stream

State = Literal["completed", "failed", "cancelled", "denied", "running", "never_ran", "unknown"]
CAUSE = "interrupted"
_LOOK_SECONDS = 0.05
_SLACK_SECONDS = 2.0  # for a wrapper that does the killing itself
_FILE_TOOLS = frozenset({Write.spec.name, Edit.spec.name})  # these leave word of what they change
_NOT_REACHED = "[not run: the session was interrupted before this call was started]"
_MAY_HAVE_RUN = (
    "[unknown: the session was interrupted while this ran; it may have done all, some or none of "
    "its work; look before you do it again]"
)
_CHANGED = "[the session was interrupted, but the file was written as asked]"
_UNCHANGED = "[not run: the session was interrupted before the file was changed; it is as it was]"
_DENIED = "[denied: it was not run]"
_ELSEWHERE = "[not run here: this call was recorded elsewhere; what it did there is not known]"
_PEOPLE_SAY = {
    "completed": "completed",
    "failed": "ended with an error",
    "cancelled": "was cancelled",
    "denied": "was denied",
    "running": "is still running",
    "never_ran": "never ran",
    "unknown": "may have run",
}


class OpenCall(Struct, frozen=True):
    """What is known of one call. ``done`` is its result, as far as there is one to record.

    ``recorded`` tells that the journal has it already; ``kept`` names the blobs that belong to it;
    ``pid`` is the process of a command that still runs.
    """

    call: ToolCall
    state: State
    subject: str
    recorded: bool = False
    done: Done | None = None
    kept: list[str] = field(default_factory=list)
    pid: int | None = None

    def __str__(self) -> str:
        """Return a line for people."""
        pid = "" if self.pid is None else f" (process {self.pid})"
        return f"{self.call.name} {quoted_line(self.subject)} {_PEOPLE_SAY[self.state]}{pid}"


class Interrupted(Struct, frozen=True):
    """A turn that began and has no end. ``seq`` is the message whose calls were being run.

    ``began`` is its first entry, ``queued`` the entry of the queue that its prompt was. ``foreign``
    tells that it was recorded elsewhere and not accepted here.
    """

    prompt: str
    waiting: bool
    broke_off: bool
    began: int
    answered: bool = False
    queued: int | None = None
    seq: int | None = None
    calls: list[OpenCall] = field(default_factory=list)
    approvals: dict[str, Approval] = field(default_factory=dict)
    foreign: bool = False

    @property
    def open(self) -> list[OpenCall]:
        """The calls that the journal has no final result of."""
        return [found for found in self.calls if not found.recorded]

    def facts(self) -> dict[str, Any]:
        """Return the report for people, and the same for programs."""
        calls = [
            {
                "call_id": found.call.id,
                "tool": found.call.name,
                "subject": found.subject,
                "state": found.state,
                "pid": found.pid,
            }
            for found in self.calls
        ]
        return {"report": str(self), "calls": calls, "foreign": self.foreign}

    def __str__(self) -> str:
        """Return a report for people, a line for each call."""
        how = "is waiting for approval" if self.waiting else "was interrupted"
        lines = [f"The last turn {how}: {quoted_line(self.prompt)}"]
        lines += [f"  {found}" for found in self.calls]
        if self.foreign:
            lines.append("  it was recorded elsewhere; its unfinished calls never ran here")
        if self.broke_off:
            lines.append("  an answer was interrupted; the received part is saved")
        elif not self.answered:
            lines.append("  there was no answer yet")
        elif not self.calls:
            lines.append("  its answer is complete; only the end of the turn was not recorded")
        return "\n".join(lines)


class Answers(Protocol):
    """What ``resumed`` needs of a round."""

    async def answer(
        self,
        call: ToolCall,
        done: Done,
        kept: list[str] = ...,
        stream: Stream | None = ...,
        *,
        still_runs: bool = ...,
    ) -> None:
        """Make a result durable."""
        ...

    async def run(self, calls: list[ToolCall], approvals: Mapping[str, Approval]) -> None:
        """Run calls to their results."""
        ...


def examine(equipment: TurnServices, *, claim: bool = True) -> Interrupted | None:
    """Tell how the last turn of the current branch stands, ``None`` if it has ended; blocks."""
    if not equipment.session.state.turn_is_open:
        return None  # without looking for its beginning: there may be none
    entries: list[Entry] = []
    for entry in equipment.session.branch():
        entries.append(entry)
        if isinstance(entry.body, Turn) and entry.body.state != "waiting":
            if entry.body.state == "started" and _is_all(entries, equipment.session):
                return _examined(entries[::-1], equipment, claim=claim)
            break
    return None


def _is_all(entries: list[Entry], session: Session) -> bool:
    """Tell whether nothing but ``entries`` followed the beginning of a turn, the last of them.

    If there is more, the head has left: the turn went on, or even ended, on another branch, and
    what became of its calls is not to be read from this one.
    """
    with session.follow(after=entries[-1].seq - 1, wait=False) as all_of_it:
        tree = [
            one.seq for one in all_of_it if isinstance(one, Entry) and in_tree(one.type, one.body)
        ]
    return tree == [entry.seq for entry in reversed(entries)]


def _examined(entries: list[Entry], equipment: TurnServices, *, claim: bool) -> Interrupted:
    provenance = equipment.session.provenance()
    messages = [(e.seq, e.body) for e in entries if isinstance(e.body, Message)]
    asked = next((m for _, m in messages if m.role == "user"), None)
    answers = [(seq, m) for seq, m in messages if m.role == "assistant"]
    seq, last = answers[-1] if answers else (None, None)
    interrupted = Interrupted(
        prompt="" if asked is None else asked.text,
        waiting=isinstance(entries[-1].body, Turn) and entries[-1].body.state == "waiting",
        broke_off=last is not None and last.stop == "interrupted",
        began=entries[0].seq,
        answered=last is not None,
        queued=None if asked is None else asked.queued,
        foreign=any(provenance.is_foreign(entry.seq) for entry in entries),
    )
    if seq is None or last is None or interrupted.broke_off or not calls_of(last):
        return interrupted
    later = [entry for entry in entries if entry.seq > seq]
    approvals: dict[str, Approval] = {}
    if not interrupted.foreign:
        approvals = {e.body.call_id: e.body for e in later if isinstance(e.body, Approval)}
    look = _Look(equipment, seq, later, approvals, claim=claim, foreign=interrupted.foreign)
    return msgspec.structs.replace(
        interrupted, seq=seq, calls=look.at(calls_of(last)), approvals=approvals
    )


class _Look:
    """A look at the calls of one message."""

    def __init__(
        self,
        equipment: TurnServices,
        seq: int,
        later: list[Entry],
        approvals: dict[str, Approval],
        *,
        claim: bool,
        foreign: bool,
    ) -> None:
        self._with = equipment
        self._foreign = foreign
        self._spool = equipment.spool(seq)
        self._approvals = approvals
        self._claim = claim
        self._announced = {e.body.call_id for e in later if isinstance(e.body, Tool)}  # no reads
        self._results = [
            (part, e.body.stream is not None)
            for e in later
            if isinstance(e.body, Message)
            for part in e.body.content
            if isinstance(part, ToolResult)
        ]

    def at(self, calls: list[ToolCall]) -> list[OpenCall]:
        recorded = matched(calls, [result for result, _ in self._results])
        return [self._one(call, result) for call, result in zip(calls, recorded, strict=True)]

    def _one(self, call: ToolCall, result: ToolResult | None) -> OpenCall:
        tool = self._with.tools.get(call.name)
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        subject = "" if tool is None else tool.subject(arguments)
        if self._foreign and result is None:
            return OpenCall(call, "never_ran", subject, done=_said(_ELSEWHERE, "never_ran"))
        if result is not None and not self._only_what_was_streamed(call, result):
            return OpenCall(call, _state(result.outcome), subject, recorded=True)
        return self._open(call, subject)

    def _open(self, call: ToolCall, subject: str) -> OpenCall:
        """Return what is known of a call without a result of its own."""
        given = self._approvals.get(call.id)
        if given is not None and given.decision != "allow" and _binds(given, call):
            return OpenCall(call, "denied", subject, done=_said(_DENIED, "denied"))
        if call.id not in self._announced:
            return OpenCall(call, "never_ran", subject, done=_said(_NOT_REACHED, "never_ran"))
        if call.name in _FILE_TOOLS:
            return self._change(call, subject)
        if call.name == bash.Bash.spec.name:
            return self._command(call, subject)
        return OpenCall(call, "unknown", subject, done=_said(_MAY_HAVE_RUN, "unknown"))

    def _only_what_was_streamed(self, call: ToolCall, result: ToolResult) -> bool:
        """Tell whether a result is what the store made of a stream that nobody finished.

        The loop's own are durable before the spool is emptied: then nobody can know more.
        """
        return (
            not self._foreign
            and result.outcome == "unknown"
            and any(streamed for other, streamed in self._results if other is result)
            and folder_of(self._spool, call.id).exists()
        )

    def _change(self, call: ToolCall, subject: str) -> OpenCall:
        found = recover_change(self._spool, call.id, self._with.files)
        changes = [] if found.change is None else [found.change]
        kept = [name for change in changes for name in (change.before, change.after) if name]
        if found.state == "completed":
            done = Done([Text(text=_CHANGED)], "completed", changes)
            return OpenCall(call, "completed", subject, done=done, kept=kept)
        if found.state == "never_ran":
            return OpenCall(call, "never_ran", subject, done=_said(_UNCHANGED, "never_ran"))
        done = Done([Text(text=_MAY_HAVE_RUN)], "unknown", changes)
        return OpenCall(call, "unknown", subject, done=done, kept=kept)

    def _command(self, call: ToolCall, subject: str) -> OpenCall:
        found = recover(self._spool, call.id, claim=self._claim)
        if found.state == "never_ran":
            return OpenCall(call, "never_ran", subject, done=_said(_NOT_REACHED, "never_ran"))
        kept: list[str] = []
        done = bash.answer(found, self._keeping(kept))
        state: State = "running" if found.state == "running" else _state(done.outcome)
        return OpenCall(call, state, subject, done=done, kept=kept, pid=_pid(found))

    def _keeping(self, kept: list[str]) -> Callable[[bytes], str]:
        def keep(data: bytes) -> str:
            store = self._with.session.keep if self._claim else _name_of
            kept.append(store(data))
            return kept[-1]

        return keep


def settlement(interrupted: Interrupted) -> list[Body]:
    """Return the entries that close an interrupted turn and say what is known of each call."""
    entries: list[Body] = []
    for found in interrupted.open:
        done = found.done or _said(_MAY_HAVE_RUN, "unknown")
        result = ToolResult(
            call_id=found.call.id,
            content=done.content,
            outcome=done.outcome,
            changes=done.changes,
            kept=found.kept,
        )
        entries.append(Message(role="tool", content=[result]))
    return [*entries, Turn("failed", CAUSE)]


async def resumed(
    interrupted: Interrupted, answers: Answers, equipment: TurnServices, stop: CancelToken
) -> None:
    """Bring the calls of an interrupted turn to their results."""
    assert interrupted.seq is not None
    spool = equipment.spool(interrupted.seq)
    for found in interrupted.calls:
        if found.recorded:
            await asyncio.to_thread(forget, spool, found.call.id)
    to_run: list[ToolCall] = []
    for found in interrupted.open:
        kept = list(found.kept)
        if found.state == "never_ran":
            to_run.append(found.call)
            continue
        done, stream = found.done, None
        if found.state == "running" and stop.cause is None:
            equipment.tell(f"Waiting: {found}.")
            stream = equipment.session.stream(call_id=found.call.id, name=found.call.name)
            keep = equipment.keeping(kept, stop)
            done = await stop.guard(bash.attach(spool, found.call.id, stream.write, keep))
        assert done is not None
        left_alone = found.state == "running" and stream is None
        await answers.answer(found.call, done, kept, stream, still_runs=left_alone)
    await answers.run(to_run, interrupted.approvals)


def left_running(session: Session) -> list[Recovered]:
    """Return the commands that turns of this session left running, whichever; blocks.

    What is left of those that have ended is removed, unless the last turn still needs it. A spool
    that was not made here is left alone: the processes that it names are of the sender's choice.
    """
    found: list[Recovered] = []
    needed = session.state.turn_is_open
    for spool in sorted((session.local_state / SPOOL_NAME).glob("*")):
        if spool.name != session.signed_name(spool.name.partition("-")[0]):
            continue
        for folder in spool.iterdir():
            recovered = recover_folder(folder, claim=False)
            if recovered.state == "running":
                found.append(recovered)
            elif not needed:
                forget_folder(folder)
        clear(spool)
    return found


async def end_running(session: Session) -> int:
    """End the commands that turns of this session left running; return how many there were.

    They are asked to end, and made to after five seconds; what they had done is kept.
    """
    running = await asyncio.to_thread(left_running, session)
    for recovered in running:
        await asyncio.to_thread(end, recovered)
    deadline = time.monotonic() + bash.GRACE_SECONDS + _SLACK_SECONDS
    left = running
    while left:
        await asyncio.sleep(_LOOK_SECONDS)
        if time.monotonic() >= deadline:
            for recovered in left:
                await asyncio.to_thread(end, recovered, kill=True)
        left = await asyncio.to_thread(left_running, session)
    return len(running)


def _said(text: str, outcome: str) -> Done:
    return Done([Text(text=text)], outcome)


def _state(outcome: str) -> State:
    known: dict[str, State] = {
        "completed": "completed",
        "failed": "failed",
        "cancelled": "cancelled",
        "denied": "denied",
        "never_ran": "never_ran",
    }
    return known.get(outcome, "unknown")


def _binds(given: Approval, call: ToolCall) -> bool:
    return given.arguments_sha256 == arguments_sha256(call.arguments)


def _pid(found: Recovered) -> int | None:
    return found.processes[-1].pid if found.state == "running" and found.processes else None


def _name_of(data: bytes) -> str:
    return sha256(data).hexdigest()
