"""A vendor's model played by a test: it answers by a function, and every request is checked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

from holdfast import Message, Text, ToolCall, assistant
from holdfast.runtime.agent.context import estimate_tokens
from holdfast.runtime.providers import anthropic_request, openai_request
from holdfast.runtime.providers.base import (
    SUM_UP,
    Delta,
    Finished,
    Request,
    TextDelta,
    TokenCounts,
)
from holdfast.runtime.providers.openai import ENDPOINT
from tests.runtime.request_validators import anthropic_complaints, openai_complaints

Play = Callable[[Request], AsyncIterator[Delta]]


class FakeModel:
    """``answers`` are played one after the other, ``summaries`` where a summary is asked for.

    An answer is text, a message, an error to raise, or an asynchronous function of the request that
    yields deltas. When a list has come to its end its last answer is given again. ``counts`` is
    what it says of every request; if not given, it counts.
    """

    name = "anthropic"
    endpoint: str | None = None

    def __init__(
        self, *answers: Any, summaries: Any = (), counts: TokenCounts | None = None
    ) -> None:
        self.counts = counts
        self.requests: list[Request] = []
        self.asked_to_sum_up: list[Request] = []
        self._answers = list(answers)
        self._summaries = list(summaries)

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        assert wire_complaints(request) == []
        summing_up = request.messages[-1].text == SUM_UP
        (self.asked_to_sum_up if summing_up else self.requests).append(request)
        answers = self._summaries if summing_up else self._answers
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            async for delta in answer(request):
                yield delta
            return
        message = assistant(answer) if isinstance(answer, str) else answer
        for part in message.content:
            if isinstance(part, Text):
                yield TextDelta(part.text)
        yield finished(message, request, self.counts)

    async def close(self) -> None:
        pass


def finished(message: Message, request: Request, counts: TokenCounts | None = None) -> Finished:
    calls = any(isinstance(part, ToolCall) for part in message.content)
    stop = message.stop or ("tool_calls" if calls else "end")
    whole = Message(role="assistant", content=message.content, model=request.model, stop=stop)
    return Finished(whole, counts or TokenCounts(estimate_tokens(request.messages), 10))


def calling(call_id: str, name: str, /, **arguments: Any) -> Message:
    return assistant(ToolCall(id=call_id, name=name, arguments=arguments))


def wire_complaints(request: Request) -> list[str]:
    """Return what either vendor's rules say against a request."""
    wants = openai_request.quirks(ENDPOINT, request.model, tools=bool(request.tools))
    return [
        *anthropic_complaints(anthropic_request.parameters(request)),
        *openai_complaints(openai_request.parameters(request, wants)),
    ]
