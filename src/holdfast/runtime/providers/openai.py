"""Answers from OpenAI's Chat Completions, and from the many servers that speak it.

Ollama, llama.cpp, vLLM, DeepSeek, Kimi, OpenRouter and others are reached by their base URL. Where
they differ from each other the reading is lenient and nothing is made up: a server that does not
count tokens gets counts that are not ``known``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from holdfast.model.message import AnyPart, Message, Text, Thinking, ToolCall
from holdfast.runtime.providers import sdk
from holdfast.runtime.providers.base import (
    Delta,
    Finished,
    Request,
    TextDelta,
    ThinkingDelta,
    TokenCounts,
    ToolCallDelta,
)
from holdfast.runtime.providers.encoding import arguments_of, new_id
from holdfast.runtime.providers.openai_request import parameters, quirks
from holdfast.runtime.providers.sdk_provider import VendorProvider


class _Open:
    """One call, as far as it has arrived."""

    def __init__(self, call_id: str, given_id: str) -> None:
        self.id = call_id
        self.given_id = given_id
        self.name = ""
        self.text = ""

    @property
    def whole(self) -> bool:
        """Whether the arguments are complete, so that what follows must be another call."""
        try:
            return isinstance(json.loads(self.text), dict)
        except ValueError:
            return False


class Calls:
    """The calls of one message."""

    def __init__(self, make_id: Callable[[], str] = new_id) -> None:
        self._make_id = make_id
        self._calls: list[_Open] = []
        self._at: dict[int | None, _Open] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def take(self, fragment: dict[str, Any]) -> Iterator[ToolCallDelta]:
        """Take one element of ``delta.tool_calls``; yield what it adds."""
        function = fragment.get("function")
        function = function if isinstance(function, dict) else {}
        index = fragment.get("index")
        given_id = fragment.get("id") or ""
        name = function.get("name") or ""
        text = _text(function.get("arguments"))
        call = self._at.get(index if isinstance(index, int) else None)
        if call is None or _another(call, given_id, name, text):
            call = self._open(given_id)
            if isinstance(index, int):
                self._at[index] = call
        self._at[None] = call  # a fragment without an index goes on with the last call
        fresh = bool(name) and not call.name
        if fresh:
            call.name = name
        call.text += text
        if text or fresh:
            yield ToolCallDelta(call_id=call.id, text=text, name=name if fresh else None)

    def parts(self, *, cut: bool) -> list[ToolCall]:
        """Return the calls; with ``cut``, one whose arguments are not whole is partial."""
        return [_part(call, cut=cut) for call in self._calls]

    def _open(self, given_id: str) -> _Open:
        taken = {call.id for call in self._calls}
        call_id = given_id
        while not call_id or call_id in taken:
            call_id = self._make_id()
        call = _Open(call_id, given_id)
        self._calls.append(call)
        return call


def _another(call: _Open, given_id: str, name: str, text: str) -> bool:
    """Tell whether a fragment begins a call of its own, although it came in the place of ``call``.

    It does if its id is another, or if it names a function again when nothing more can follow.
    """
    if given_id and call.given_id and given_id != call.given_id:
        return True
    return bool(name) and bool(text.strip()) and call.whole


def _text(arguments: Any) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return json.dumps(arguments)


def _part(call: _Open, *, cut: bool) -> ToolCall:
    arguments = arguments_of(call.text)
    if cut and isinstance(arguments, str):
        return ToolCall(id=call.id, name=call.name, arguments={}, partial=call.text)
    return ToolCall(id=call.id, name=call.name, arguments=arguments)


ENDPOINT = "https://api.openai.com/v1"
_STOPS = {
    "stop": "end",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "refusal",
}


class OpenAI(VendorProvider):
    """A provider; see ``contract.Provider``.

    ``official`` says whether OpenAI's own rules hold, by default if the address is OpenAI's;
    ``counts`` asks for the tokens used, which a few old servers take as an error.
    """

    name = "openai"
    _request_header = "x-request-id"

    def __init__(
        self,
        key: str | None = None,
        *,
        base_url: str | None = None,
        official: bool | None = None,
        counts: bool = True,
        timeout_seconds: float = sdk.IDLE_SECONDS,
    ) -> None:
        super().__init__(key, base_url or ENDPOINT, timeout_seconds)
        self._official = official
        self._counts = counts

    def _parameters(self, request: Request) -> dict[str, Any]:
        wants = quirks(
            self._base_url, request.model, tools=bool(request.tools), official=self._official
        )
        given = parameters(request, wants)
        if self._counts:
            given["stream_options"] = {"include_usage": True}
        return given

    def _open(self) -> Any:
        module = sdk.load("openai")
        client = module.AsyncOpenAI(**self._settings(module))
        _ = client.chat.completions  # the greater part of the SDK is loaded by this
        return client

    async def _ask(self, client: Any, request: Request) -> Any:
        return await client.chat.completions.create(**self._parameters(request), stream=True)

    def _answer(self, request: Request) -> OpenAIAnswer:
        return OpenAIAnswer(request.model)


class OpenAIAnswer:
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
            raise TypeError("the text of a piece is not a string")
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


def _counts(usage: dict[str, Any] | None) -> TokenCounts:
    """Return the counts of a usage block; what was cached is part of ``prompt_tokens`` in it."""
    if usage is None:
        return TokenCounts(input=0, output=0, known=False)
    details = usage.get("prompt_tokens_details") or {}
    read = (
        details.get("cached_tokens")
        or usage.get("prompt_cache_hit_tokens")
        or usage.get("cached_tokens")
        or 0
    )
    written = details.get("cache_write_tokens") or 0
    prompt = usage.get("prompt_tokens") or 0
    return TokenCounts(
        input=max(0, prompt - read - written),
        output=usage.get("completion_tokens") or 0,
        cache_read=read,
        cache_write=written,
    )
