"""A model that is built in: offline, deterministic, free.

It streams, thinks and calls the real tools, but only does as it is told, by commands in the prompt
or by a script (see ``rehearsal_script``). So everything around a model can be tried, shown and
tested without a key or a network. Like every provider it keeps no state: where it stands in a
prompt or a script it reads from the messages, so a resumed session goes on where it was. Only how
often a step of a script has failed already is remembered, because a failure leaves no message.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator
from typing import Any

from holdfast.errors import BadStatus, ConnectFailed, EmptyReply, ProviderError, TimedOut
from holdfast.model.message import AnyPart, Image, Message, Text, Thinking, ToolCall, ToolResult
from holdfast.runtime.providers.base import (
    SUM_UP,
    Delta,
    Finished,
    Request,
    TextDelta,
    ThinkingDelta,
    TokenCounts,
    ToolCallDelta,
    ToolSpec,
)
from holdfast.runtime.providers.rehearsal_script import (
    TOOLS,
    ScriptedCall,
    ScriptStep,
    parse_prompt,
    responses,
)

MODEL = "rehearsal"
HELP = (
    "I am the rehearsal model: offline, and no help with real work. I follow commands, one a line: "
    "run: ls, read: file, write: file, grep: words, glob: *.py, say: words, think: words. "
    "For real answers set ANTHROPIC_API_KEY or OPENAI_API_KEY, or choose a server of your own."
)
_NAMES = dict(TOOLS.values())
_WORD = re.compile(r"\S+\s*|\s+")
_NUMBER = re.compile(r"rehearsal-(\d+)")
_SUMMED_UP = re.compile(r"\(rehearsed up to answer (\d+)\)\Z")
_LONGEST_QUOTE = 200
_LONGEST_DELAY_SECONDS = 10.0


def serves(prompt: str) -> bool:
    """Tell whether a prompt is made of the rehearsal model's own commands."""
    return parse_prompt(prompt) is not None


class Rehearsal:
    """A provider; see ``contract.Provider``. ``delay_seconds`` is waited before each word."""

    name = "rehearsal"
    endpoint: str | None = None

    def __init__(
        self, script: list[ScriptStep] | None = None, *, delay_seconds: float = 0.0
    ) -> None:
        self._script = None if script is None else responses(script)
        self._delay_seconds = delay_seconds
        self._failed: dict[tuple[int, int], int] = {}

    def serves(self, prompt: str) -> bool:
        """Tell whether this provider has an answer to a prompt; with a script it always has."""
        return self._script is not None or serves(prompt)

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Yield deltas, ``Finished`` last."""
        number = _number(request.messages)
        if request.messages[-1].text == SUM_UP:
            steps = [ScriptStep("say", _summary(request.messages, number))]
        else:
            steps = self._steps(request, number)
        fault, failing = self._fault(steps, number)
        parts: list[AnyPart] = []
        stop = "end"
        given, delay = 0, self._delay_seconds
        for step in steps:
            if step is failing and step.after is None and fault is not None:
                raise fault
            if step.kind == "stop":
                stop = step.text
            elif step.kind == "pace":
                delay = _seconds(step.text)
            for delta in _perform(step, request, number, parts):
                if fault is not None and failing is not None and failing.after == given:
                    raise fault
                await asyncio.sleep(delay)
                yield delta
                given += 1
        if fault is not None:
            raise fault
        if any(isinstance(part, ToolCall) for part in parts):
            stop = "tool_calls"
        message = Message(
            role="assistant",
            content=parts,
            model=MODEL,
            stop=stop,
            request=f"rehearsal-{number}",
        )
        yield Finished(message=message, counts=_counts(request, parts))

    async def close(self) -> None:
        """Do nothing: there are no connections."""

    def _steps(self, request: Request, number: int) -> list[ScriptStep]:
        if self._script is not None:
            left = self._script[number - 1 : number]
            return (left and left[0]) or [ScriptStep("say", "The script has ended.")]
        prompt, later = _prompt(request.messages)
        steps = parse_prompt(prompt)
        if steps is None:
            return [ScriptStep("say", HELP)]
        groups = responses(steps)
        done = sum(any(isinstance(part, ToolCall) for part in one.content) for one in later)
        return groups[min(done, len(groups) - 1)] or [ScriptStep("say", _closing(later))]

    def _fault(
        self, steps: list[ScriptStep], number: int
    ) -> tuple[ProviderError, ScriptStep] | tuple[None, None]:
        """Return the failure that this response meets, and its step, if one is left."""
        for index, step in enumerate(steps):
            if step.kind != "fail":
                continue
            met = self._failed.get((number, index), 0)
            if self._script is None or met < step.times:
                self._failed[number, index] = met + 1
                return _failure(step.text), step
        return None, None


def _seconds(text: str) -> float:
    """Return how long to wait before a word; what is no such time is none."""
    try:
        return min(max(float(text), 0.0), _LONGEST_DELAY_SECONDS)
    except ValueError:
        return 0.0


def _number(messages: list[Message]) -> int:
    """Return the number of the next response, counted over the whole session."""
    for message in reversed(messages):
        found = _NUMBER.fullmatch(message.request or "") or _SUMMED_UP.search(message.text)
        if found:
            return int(found[1]) + 1
    return 1


def _summary(messages: list[Message], number: int) -> str:
    """Sum up without a model: what was asked, and where a script stands."""
    asked = [one.text.strip().split("\n")[0] for one in messages[:-1] if one.role == "user"]
    lines = [f"- {line[:_LONGEST_QUOTE]}" for line in asked if line and not line.startswith("[")]
    return "\n".join(["It was asked:", *lines, f"(rehearsed up to answer {number - 1})"])


def _prompt(messages: list[Message]) -> tuple[str, list[Message]]:
    """Return the last prompt and the messages behind it.

    A user message right behind a tool's, with an image, mirrors what the tool showed.
    """
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        mirror = index > 0 and messages[index - 1].role == "tool"
        mirror = mirror and any(isinstance(part, Image) for part in message.content)
        if message.role == "user" and message.text and not mirror:
            return message.text, messages[index + 1 :]
    return "", []


def _perform(
    step: ScriptStep, request: Request, number: int, parts: list[AnyPart]
) -> Iterator[TextDelta | ThinkingDelta | ToolCallDelta]:
    """Yield a step's deltas and put what it amounts to behind ``parts``."""
    text = step.text.replace("{result}", _last_result(request.messages))
    if step.kind == "say":
        yield from map(TextDelta, _WORD.findall(text))
        parts.append(Text(text=text))
    elif step.kind == "think":
        yield from map(ThinkingDelta, _WORD.findall(text))
        parts.append(Thinking(text=text))
    for index, wanted in enumerate(step.calls):
        call_id = f"call-{number}-{index + 1}"
        arguments = _arguments(wanted, request.tools)
        yield ToolCallDelta(call_id=call_id, text="", name=wanted.tool)
        for piece in _WORD.findall(json.dumps(arguments, ensure_ascii=False)):
            yield ToolCallDelta(call_id=call_id, text=piece)
        parts.append(ToolCall(id=call_id, name=wanted.tool, arguments=arguments))


def _arguments(wanted: ScriptedCall, tools: list[ToolSpec]) -> dict[str, Any]:
    """Return a call's arguments; values get the names that the tool's own schema requires."""
    if not wanted.values:
        return wanted.arguments
    names = _NAMES[wanted.tool]
    for tool in tools:
        if tool.name == wanted.tool:
            names = tool.parameters.get("required") or names
    return dict(zip(names, wanted.values, strict=False))


def _results(messages: list[Message]) -> list[ToolResult]:
    return [part for one in messages for part in one.content if isinstance(part, ToolResult)]


def _said(result: ToolResult) -> str:
    return "".join(part.text for part in result.content if isinstance(part, Text)).strip()


def _last_result(messages: list[Message]) -> str:
    last = max((i for i, one in enumerate(messages) if one.role == "assistant"), default=-1)
    return "\n".join(map(_said, _results(messages[last + 1 :])))


def _closing(later: list[Message]) -> str:
    """Return a sentence that quotes what became of every call."""
    calls = {
        part.id: part.name for one in later for part in one.content if isinstance(part, ToolCall)
    }
    outcomes = []
    for result in _results(later):
        said = " ".join(_said(result).split())
        if len(said) > _LONGEST_QUOTE:
            said = said[:_LONGEST_QUOTE] + "…"
        name = calls.get(result.call_id, "a tool")
        outcomes.append(f"{name} {result.outcome.replace('_', ' ')}" + f": “{said}”" * bool(said))
    return f"Done. {'; '.join(outcomes)}." if outcomes else "Done."


def _failure(what: str) -> ProviderError:
    told = f"The rehearsal model failed as told ({what})."
    if what.isdigit():
        status = int(what)
        retryable = status in {408, 409, 429} or status >= 500
        return BadStatus(told, retryable=retryable, status=status)
    kinds = {"disconnect": ConnectFailed, "timeout": TimedOut}
    return kinds.get(what, EmptyReply)(told, retryable=True)


def _counts(request: Request, parts: list[AnyPart]) -> TokenCounts:
    """Return words as tokens: small, stable numbers that add up."""
    spoken = [part.text for part in parts if isinstance(part, Text | Thinking)]
    heard = [message.text for message in request.messages]
    output = sum(len(text.split()) for text in spoken) + sum(
        isinstance(part, ToolCall) for part in parts
    )
    return TokenCounts(input=sum(len(text.split()) for text in heard), output=output)
