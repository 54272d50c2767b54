"""Calls and results put together, whatever a crash, another agent or another provider left.

Providers want every call answered once, right behind the message that made it, under an id that is
unique and of plain characters. A journal may hold less and more: a call without a result, results
of no call, two results for one call (what was streamed when the process died, and what recovery
found out later), ids that are empty, double, or used again in later rounds. The journal stays as it
is; this module says how it is sent. What it makes of a message depends on that message, those
before it and the results behind it, so that what was sent once is sent the same again.

Tools that run at the provider come as opaque blocks and are not touched.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable
from hashlib import sha256
from heapq import heappop, heappush

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.message import AnyPart, Message, Text, ToolCall, ToolResult

NO_RESULT = (
    "[no result was recorded: this call may have done all, some or none of its work; look before "
    "you do it again]"
)
_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64


class Round(Struct, frozen=True):
    """An answer (none before the first), the results up to the next, and what else stood there."""

    answer: Message | None
    results: list[ToolResult]
    others: list[Message]


def paired(messages: Iterable[Message]) -> list[Message]:
    """Return the messages with each call answered once, in one message right behind it."""
    sent: list[Message] = []
    ids = _Ids()
    for each in _rounds(messages):
        if each.answer is not None:
            answer, results = _as_sent(each.answer, each.results, ids)
            sent.append(answer)
            if results:
                sent.append(Message(role="tool", content=list(results)))
        sent += each.others
    return sent


def calls_of(message: Message) -> list[ToolCall]:
    """Return the calls of a message that arrived whole."""
    return [part for part in message.content if isinstance(part, ToolCall) and part.partial is None]


def matched(calls: list[ToolCall], results: list[ToolResult]) -> list[ToolResult | None]:
    """Return the result of each call; those with the same id are taken in order.

    A result too many takes the place of one that is not known to be the truth. Where an id is
    missing on either side, what is left over is taken in order too.
    """
    found: list[ToolResult | None] = [None] * len(calls)
    places: dict[str, tuple[deque[int], list[int]]] = {}  # by id: without a result, with a doubtful
    for n, call in enumerate(calls):
        places.setdefault(call.id, (deque(), []))[0].append(n)
    left: list[ToolResult] = []
    for result in results:
        unanswered, doubtful = places.get(result.call_id, (deque(), []))
        if unanswered or doubtful:
            n = unanswered.popleft() if unanswered else heappop(doubtful)
            found[n] = result
            if result.outcome == "unknown":  # recovery knows more than what was streamed
                heappush(doubtful, n)
        elif result.call_id not in places or not result.call_id:
            left.append(result)
    return _in_order(calls, found, left)


def _in_order(
    calls: list[ToolCall], found: list[ToolResult | None], left: list[ToolResult]
) -> list[ToolResult | None]:
    """Give results that are left over to calls without one, where either has no id."""
    nameless = deque(m for m, result in enumerate(left) if not result.call_id)
    every = deque(range(len(left)))
    taken: set[int] = set()
    for n, call in enumerate(calls):
        fitting = nameless if call.id else every
        while fitting and fitting[0] in taken:
            fitting.popleft()
        if found[n] is None and fitting:
            taken.add(fitting[0])
            found[n] = left[fitting.popleft()]
    return found


def _rounds(messages: Iterable[Message]) -> list[Round]:
    """Part the messages at each of the assistant's: a result belongs to the last one before it."""
    rounds = [Round(None, [], [])]
    for message in messages:
        results = [part for part in message.content if isinstance(part, ToolResult)]
        others: list[AnyPart] = [
            part for part in message.content if not isinstance(part, ToolResult)
        ]
        if message.role == "assistant":
            rounds.append(Round(replace(message, content=others), [], []))
        elif others:
            role = "user" if message.role == "tool" else message.role
            rounds[-1].others.append(replace(message, role=role, content=others))
        rounds[-1].results.extend(results)
    return rounds


def _as_sent(
    answer: Message, results: list[ToolResult], ids: _Ids
) -> tuple[Message, list[ToolResult]]:
    """Return an answer and the results of its calls as they are sent."""
    content: list[AnyPart] = []
    notes: list[AnyPart] = []
    answered: list[ToolResult] = []
    found = iter(matched(calls_of(answer), results))
    for part in answer.content:
        if not isinstance(part, ToolCall):
            content.append(part)
            continue
        result = next(found) if part.partial is None else None
        if result is None and (part.partial is not None or answer.stop == "interrupted"):
            # Never run, because the answer never came to its end: not a call at all.
            notes.append(Text(text=f"[interrupted while calling {part.name}; nothing was run]"))
            continue
        call = replace(part, id=ids.plain(part.id), name=_name(part.name))
        content.append(call)
        if result is None:
            result = ToolResult(call_id="", content=[Text(text=NO_RESULT)], outcome="unknown")
        answered.append(replace(result, call_id=call.id))
    # Not behind the calls: there providers expect their results.
    first_call = next((n for n, part in enumerate(content) if isinstance(part, ToolCall)), None)
    at = len(content) if first_call is None else first_call
    return replace(answer, content=[*content[:at], *notes, *content[at:]]), answered


def _name(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME] or "unnamed"


class _Ids:
    """Ids that every provider takes: the original where it can stay, else one made from it."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._made: Counter[str] = Counter()

    def plain(self, original: str) -> str:
        chosen = original
        while not _PLAIN_ID.fullmatch(chosen) or chosen in self._taken:
            self._made[original] += 1
            spelled = f"{self._made[original]} {original}".encode("utf-8", "surrogatepass")
            chosen = f"call_{sha256(spelled).hexdigest()[:24]}"
        self._taken.add(chosen)
        return chosen
