"""Making room: the model sums up what was said, and the context starts from the summary.

The summary names the last message that it covers, so that what arrives while it is being made is
kept. If the conversation has moved to another branch by then, the summary is of no use and is
dropped; what it cost is counted all the same. A failure is told and changes nothing, and a
compaction can be taken back by a rewind: the messages are still in the journal.

What stays as it is begins where no call is parted from its result, and whatever has not been
answered yet stays: the prompt of a turn that runs, results that the model has not seen, calls whose
results are still to come.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from msgspec import Struct

from holdfast.errors import DiskFull, ProviderError, UsageError
from holdfast.model.entry import Checkpoint, Position, Usage
from holdfast.model.message import Message, ToolCall, ToolResult, system, user
from holdfast.runtime.agent import context
from holdfast.runtime.agent.pairing import calls_of, matched
from holdfast.runtime.agent.services import TurnServices
from holdfast.runtime.providers.base import SUM_UP, Finished, ProviderStatus, Request
from holdfast.store.session import Session
from holdfast.store.write.blob_refs import references

HEADING = "[A summary of the conversation so far, which was shortened:]\n\n"
_CUT_OFF = "\n\n[The summary was cut off here.]"
_KEPT_SHARE = 0.2  # of the window, for messages that stay as they are
_BYTES_PER_TOKEN = 3.5


class Compacted(Struct, frozen=True):
    """What came of it, and a sentence for people. ``seq`` is the checkpoint."""

    ok: bool
    told: str
    seq: int | None = None


class _Cut(Struct, frozen=True):
    """The last message that a summary covers, and how many before it stay all the same."""

    upto: int
    keep_last: int


async def is_due(equipment: TurnServices) -> bool:
    """Tell whether the context is nearly full."""
    if equipment.compact_at <= 0:
        return False
    tokens = await asyncio.to_thread(_next_tokens, equipment)
    return tokens >= equipment.compact_at * equipment.window_tokens


def _next_tokens(equipment: TurnServices) -> int:
    """Return about how large the next request is: what was counted, and what came since; blocks."""
    messages = equipment.session.context()
    if equipment.known_tokens is None:
        return context.estimate_tokens(messages)
    answers = [n for n, message in enumerate(messages) if message.role == "assistant"]
    since = messages[answers[-1] + 1 :] if answers else messages
    return equipment.known_tokens + context.estimate_tokens(since)


async def compact(equipment: TurnServices) -> Compacted:
    """Sum up and set a checkpoint. Cancelling it leaves everything as it was."""
    session = equipment.session
    cut = await asyncio.to_thread(_cut, session, _KEPT_SHARE * equipment.window_tokens)
    if cut is None:
        return Compacted(ok=False, told="There is nothing to compact yet.")
    # Only now: what arrives between the two is summed up and kept, the other way it were lost.
    messages = await asyncio.to_thread(session.context)
    try:
        answer = await _ask(equipment, messages)
    except ProviderError as error:
        return _failed(str(error))
    fault = _fault(answer)
    if fault is not None:
        return _failed(fault)
    summary = HEADING + answer.text.strip() + (_CUT_OFF if answer.stop == "length" else "")
    try:
        position = await _checkpoint(equipment, [user(summary)], cut)
    except UsageError:
        return _failed(
            "the conversation was continued in the meantime, so the summary was discarded."
        )
    except DiskFull as error:  # it may be written as soon as there is room
        return Compacted(ok=False, told=f"The context is not compacted yet: {error}")
    equipment.known_tokens = None
    before = context.estimate_tokens(messages)
    after = context.estimate_tokens(await asyncio.to_thread(session.context))
    told = f"The context was compacted: about {before:,} tokens became {after:,}."
    return Compacted(ok=True, told=told, seq=position.seq)


def _failed(why: str) -> Compacted:
    return Compacted(ok=False, told=f"The context was not compacted: {why}")


def _fault(answer: Message) -> str | None:
    """Say what keeps an answer from being a summary."""
    if any(isinstance(part, ToolCall) for part in answer.content):
        return "the model called a tool instead of writing a summary."
    if answer.stop == "refusal":
        return "the model refused to write a summary."
    return None if answer.text.strip() else "the summary was empty."


async def _ask(equipment: TurnServices, messages: list[Message]) -> Message:
    """Ask for a summary; what was asked before is a prefix of this request, so caches serve."""
    request = context.build([*messages, user(SUM_UP)], equipment.frame)
    equipment.tell("Compacting the context …")
    begun = False
    try:
        async with aclosing(equipment.provider.stream(request)) as deltas:
            async for delta in deltas:
                if isinstance(delta, Finished):
                    begun = False
                    await _count(equipment, request, delta)
                    return delta.message
                if isinstance(delta, ProviderStatus):
                    equipment.tell(delta.text)
                else:
                    begun = True
    finally:
        if begun:  # it broke off, and what it cost nobody knows
            equipment.session.submit(Usage(0, 0, None, model=request.model))
    raise AssertionError("a provider's stream ends with Finished or an error")


async def _count(equipment: TurnServices, request: Request, finished: Finished) -> None:
    usage = equipment.usage(finished.counts, finished.message.model, request.model)
    ticket = equipment.session.submit(usage)
    await equipment.durable(ticket, giving_up=lambda: False)  # a cancel ends the wait


async def _checkpoint(equipment: TurnServices, start: list[Message], cut: _Cut) -> Position:
    """Set the checkpoint; once it is on its way, a cancel does not keep it from being told."""
    setting = asyncio.ensure_future(asyncio.to_thread(_set, equipment, start, cut))
    try:
        return await asyncio.shield(setting)
    except asyncio.CancelledError:
        return await setting


def _set(equipment: TurnServices, start: list[Message], cut: _Cut) -> Position:
    """Set the checkpoint and record the system prompt behind it; blocks.

    The prompt would be covered by the summary and recorded again anyway. Here it also says that
    thoughts before it were thought under another beginning, which some models do not take back.
    """
    session, tokens = equipment.session, context.estimate_tokens(start)
    position = session.checkpoint(start, upto=cut.upto, keep_last=cut.keep_last, tokens=tokens)
    if equipment.system is not None:
        session.append(system(equipment.system))
    return position


# Where to cut


def _cut(session: Session, room: float) -> _Cut | None:
    """Return what to sum up, ``None`` if there is nothing; blocks."""
    numbered = _in_context(session)
    messages = [message for _, message in numbered]
    start = _start(messages, room)
    if all(message.role == "system" for message in messages[:start]):
        return None
    return _Cut(numbered[-1][0], len(messages) - start)


def _in_context(session: Session) -> list[tuple[int, Message]]:
    """Return the messages that no summary covers yet, oldest first."""
    numbered: list[tuple[int, Message]] = []
    keep_from: int | None = None
    for entry in session.branch():
        if keep_from is not None and entry.seq < keep_from:
            break
        if isinstance(entry.body, Message):
            numbered.append((entry.seq, entry.body))
        elif isinstance(entry.body, Checkpoint) and keep_from is None:
            keep_from = entry.body.keep_from
    return numbered[::-1]


def _start(messages: list[Message], room: float) -> int:
    """Return where the part that stays begins: as much as there is room for, but never all."""
    chosen: int | None = None
    taken, counted = 0.0, len(messages)
    seams = _seams(messages)
    for seam in seams:
        taken += sum(map(_weight, messages[seam:counted]))
        counted = seam
        if chosen is None or taken <= room:
            chosen = seam
    if chosen is not None and all(message.role == "system" for message in messages[:chosen]):
        chosen = seams[0]  # all of it has room: keep only what has to stay
    return chosen or 0


def _seams(messages: list[Message]) -> list[int]:
    """Return where the part that stays may begin, the newest place first.

    An answer and all that stands behind it, up to the next answer, are a round: its results belong
    to its calls. A round may be parted before its answer, or behind the last of its results. The
    last one cannot be left behind as a whole before it is complete.
    """
    waiting = _is_waiting(messages)
    complete = bool(messages) and messages[-1].role == "assistant" and not waiting
    seams = [len(messages)] if complete else []
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role == "assistant":
            seams.append(index)
            waiting = False
            continue
        waiting = waiting or any(isinstance(part, ToolResult) for part in message.content)
        if message.role == "user" and not waiting:
            seams.append(index)
    return seams


def _is_waiting(messages: list[Message]) -> bool:
    """Tell whether results may still be recorded for calls of the last answer."""
    results: list[ToolResult] = []
    for message in reversed(messages):
        if message.role == "assistant":
            found = matched(calls_of(message), results[::-1])
            return any(result is None or result.outcome == "unknown" for result in found)
        results += [part for part in reversed(message.content) if isinstance(part, ToolResult)]
    return False


def _weight(message: Message) -> float:
    """Return about how many tokens a message takes, also where its payloads are in blobs."""
    apart = sum(ref.size_bytes for ref in references(message) if ref.encoding != "base64")
    return context.estimate_tokens([message]) + apart / _BYTES_PER_TOKEN
