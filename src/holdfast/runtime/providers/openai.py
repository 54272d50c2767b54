"""Answers from OpenAI's Chat Completions, and from the many servers that speak it.

Ollama, llama.cpp, vLLM, DeepSeek, Kimi, OpenRouter and others are reached by their base URL. Where
they differ from each other the reading is lenient and nothing is made up: a server that does not
count tokens gets counts that are not ``known``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from itertools import groupby
from typing import Any

from holdfast.model.message import AnyPart, Message, Text, Thinking
from holdfast.runtime.providers import sdk
from holdfast.runtime.providers.contract import (
    Counts,
    Delta,
    Finished,
    Request,
    TextDelta,
    ThinkingDelta,
)
from holdfast.runtime.providers.faults import Faults, address
from holdfast.runtime.providers.openai_calls import Calls
from holdfast.runtime.providers.openai_messages import parameters, quirks

ENDPOINT = "https://api.openai.com/v1"
_NO_KEY = "none"  # the SDK insists on one; local servers do not look at it
_STOPS = {
    "stop": "end",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "refusal",
}


class OpenAI:
    """A provider; see ``contract.Provider``.

    ``official`` says whether OpenAI's own rules hold, by default if the address is OpenAI's;
    ``counts`` asks for the tokens used, which a few old servers take as an error.
    """

    name = "openai"

    def __init__(
        self,
        key: str | None = None,
        *,
        base_url: str | None = None,
        official: bool | None = None,
        counts: bool = True,
        timeout_seconds: float = sdk.IDLE_SECONDS,
    ) -> None:
        self._base_url = base_url or ENDPOINT
        self.endpoint: str | None = address(self._base_url)
        self._key = key or _NO_KEY
        self._official = official
        self._counts = counts
        self._timeout_seconds = timeout_seconds
        self._faults = Faults(self.name, self._base_url, key or "")
        self._client: Any = None

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Yield deltas, ``Finished`` last."""
        answer = Answer(request.model)
        finished: Finished | None = None
        chunks: Any = None
        try:
            client = await self._connected()
            chunks = await client.chat.completions.create(**self._parameters(request), stream=True)
            answer.request = chunks.response.headers.get("x-request-id")
            while chunk := await sdk.following(chunks, complete=answer.complete):
                for delta in answer.take(chunk.to_dict(warnings=False)):
                    yield delta
            if answer.complete:
                finished = answer.finished()
        except Exception as error:  # noqa: BLE001  the edge to foreign code: nothing else escapes
            raise self._faults.translate(error) from None
        finally:
            await sdk.let_go(chunks)
        if finished is None:
            raise self._faults.ended(started=answer.started)
        if not finished.message.content and finished.message.stop == "end":
            raise self._faults.empty()
        yield finished

    async def close(self) -> None:
        """Let go of connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _parameters(self, request: Request) -> dict[str, Any]:
        wants = quirks(
            self._base_url, request.model, tools=bool(request.tools), official=self._official
        )
        given = parameters(request, wants)
        if self._counts:
            given["stream_options"] = {"include_usage": True}
        return given

    async def _connected(self) -> Any:
        if self._client is None:
            client = await asyncio.to_thread(self._open)
            self._client = self._client or client  # two first requests at once share one
        return self._client

    def _open(self) -> Any:
        """Make a client. Loads the SDK and reads certificates, so it runs in a thread."""
        module = sdk.load("openai")
        client = module.AsyncOpenAI(
            api_key=self._key,
            base_url=self._base_url,
            max_retries=0,
            timeout=module.Timeout(self._timeout_seconds, connect=sdk.CONNECT_SECONDS),
        )
        _ = client.chat.completions  # the greater part of the SDK is loaded by this
        return client


class Answer:
    """A message that grows chunk by chunk.

    ``started`` is true once anything of the answer was handed on, ``complete`` once a reason to
    stop was given.
    """

    def __init__(self, model: str) -> None:
        self.request: str | None = None
        self.started = False
        self.complete = False
        self._model = model
        self._pieces: list[TextDelta | ThinkingDelta] = []
        self._calls = Calls()
        self._usage: dict[str, Any] | None = None
        self._stop = "end"

    def take(self, chunk: dict[str, Any]) -> Iterator[Delta]:
        """Take one chunk; yield what it adds."""
        self._model = chunk.get("model") or self._model
        self.request = self.request or chunk.get("id") or None
        self._count(chunk.get("usage"))
        for choice in (chunk.get("choices") or [])[:1]:
            for delta in self._grow(choice.get("delta") or {}):
                self.started = True
                yield delta
            self._count(choice.get("usage"))
            if word := choice.get("finish_reason"):
                self.complete = True
                self._stop = "refusal" if self._stop == "refusal" else _STOPS.get(word, word)

    def finished(self) -> Finished:
        """Return the whole of it."""
        calls = self._calls.parts(cut=self._stop == "length")
        if calls and self._stop == "end":  # some servers say so even with calls
            self._stop = "tool_calls"
        message = Message(
            role="assistant",
            content=[*self._spoken(), *calls],
            model=self._model,
            stop=self._stop,
            request=self.request,
        )
        return Finished(message=message, counts=_counts(self._usage))

    def _grow(self, delta: dict[str, Any]) -> Iterator[Delta]:
        if thought := delta.get("reasoning_content") or delta.get("reasoning"):
            yield self._piece(ThinkingDelta(thought))
        if text := delta.get("content"):
            yield self._piece(TextDelta(text))
        if text := delta.get("refusal"):
            self._stop = "refusal"
            yield self._piece(TextDelta(text))
        for fragment in delta.get("tool_calls") or []:
            yield from self._calls.take(fragment)

    def _piece(self, piece: TextDelta | ThinkingDelta) -> Delta:
        if not isinstance(piece.text, str):
            raise TypeError("text is not text")
        self._pieces.append(piece)
        return piece

    def _spoken(self) -> list[AnyPart]:
        """Return text and thinking as parts, a run of either being one."""
        kinds: dict[type, type[Text | Thinking]] = {TextDelta: Text, ThinkingDelta: Thinking}
        return [
            kinds[kind](text="".join(piece.text for piece in run))
            for kind, run in groupby(self._pieces, key=type)
        ]

    def _count(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self._usage = usage


def _counts(usage: dict[str, Any] | None) -> Counts:
    """Return the counts of a usage block; what was cached is part of ``prompt_tokens`` in it."""
    if usage is None:
        return Counts(input=0, output=0, known=False)
    details = usage.get("prompt_tokens_details") or {}
    read = (
        details.get("cached_tokens")
        or usage.get("prompt_cache_hit_tokens")
        or usage.get("cached_tokens")
        or 0
    )
    written = details.get("cache_write_tokens") or 0
    prompt = usage.get("prompt_tokens") or 0
    return Counts(
        input=max(0, prompt - read - written),
        output=usage.get("completion_tokens") or 0,
        cache_read=read,
        cache_write=written,
    )
