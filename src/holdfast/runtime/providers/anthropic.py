"""Answers from Anthropic's Messages API, over the vendor's own SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from holdfast.model.message import AnyPart, Message, Opaque, Text, Thinking, ToolCall
from holdfast.runtime.providers import sdk
from holdfast.runtime.providers.anthropic_request import VENDOR, parameters
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
from holdfast.runtime.providers.sdk_provider import VendorProvider

ENDPOINT = "https://api.anthropic.com"
_STOPS = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}


class Anthropic(VendorProvider):
    """A provider; see ``contract.Provider``."""

    name = VENDOR
    _request_header = "request-id"

    def __init__(
        self,
        key: str,
        *,
        base_url: str | None = None,
        timeout_seconds: float = sdk.IDLE_SECONDS,
    ) -> None:
        super().__init__(key, base_url or ENDPOINT, timeout_seconds)

    def _open(self) -> Any:
        module = sdk.load("anthropic")
        client = module.AsyncAnthropic(**self._settings(module))
        _ = client.messages  # the greater part of the SDK is loaded by this
        return client

    async def _ask(self, client: Any, request: Request) -> Any:
        return await client.messages.create(**parameters(request), stream=True)

    def _answer(self, request: Request) -> AnthropicAnswer:
        return AnthropicAnswer(request.model)


class AnthropicAnswer:
    """A message that grows event by event.

    ``started`` is true once anything of the answer was handed on, ``complete`` once its last event
    was taken.
    """

    def __init__(self, model: str) -> None:
        self.request: str | None = None
        self.started = False
        self.complete = False
        self._model = model
        self._blocks: dict[int, dict[str, Any]] = {}
        self._json: dict[int, str] = {}
        self._usage: dict[str, int] = {}
        self._stop = "end"

    def take(self, event: dict[str, Any]) -> Iterator[Delta]:
        """Take one event; yield what it adds."""
        match event:
            case {"type": "message_start", "message": dict(message)}:
                self._model = message.get("model") or self._model
                self.request = self.request or message.get("id")
                self._count(message.get("usage"))
            case {"type": "content_block_start", "index": int(index), "content_block": dict(block)}:
                yield from self._begin(index, block)
            case {"type": "content_block_delta", "index": int(index), "delta": dict(delta)}:
                yield from self._grow(index, delta)
            case {"type": "message_delta", "delta": dict(delta)}:
                word = delta.get("stop_reason") or "end_turn"
                self._stop = _STOPS.get(word, word)
                self._count(event.get("usage"))
            case {"type": "message_stop"}:
                self.complete = True

    def finished(self) -> Finished:
        """Return the whole of it."""
        message = Message(
            role="assistant",
            content=[part for index in sorted(self._blocks) for part in self._part(index)],
            model=self._model,
            stop=self._stop,
            request=self.request,
        )
        used = self._usage
        counts = TokenCounts(
            input=used.get("input_tokens", 0),
            output=used.get("output_tokens", 0),
            cache_read=used.get("cache_read_input_tokens", 0),
            cache_write=used.get("cache_creation_input_tokens", 0),
            known="output_tokens" in used,
        )
        return Finished(message=message, counts=counts)

    def _count(self, usage: Any) -> None:
        # Each event's numbers are totals so far: the later ones replace the earlier.
        if isinstance(usage, dict):
            self._usage |= {name: count for name, count in usage.items() if type(count) is int}

    def _begin(self, index: int, block: dict[str, Any]) -> Iterator[Delta]:
        block = dict(block)
        if block.get("type") == "tool_use":
            taken = {each.get("id") for each in self._blocks.values()}
            if not block.get("id") or block["id"] in taken:  # servers that imitate the API do this
                block["id"] = new_id()
        self._blocks[index] = block
        match block:
            case {"type": "tool_use", "id": str(call_id), "name": str(name)}:
                self.started = True
                yield ToolCallDelta(call_id=call_id, text="", name=name)
            case {"type": "text", "text": str(text)} if text:
                self.started = True
                yield TextDelta(text)
            case {"type": "thinking", "thinking": str(text)} if text:
                self.started = True
                yield ThinkingDelta(text)

    def _grow(self, index: int, delta: dict[str, Any]) -> Iterator[Delta]:
        block = self._blocks[index]
        self.started = True
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                block["text"] = block.get("text", "") + text
                yield TextDelta(text)
            case {"type": "thinking_delta", "thinking": str(text)}:
                block["thinking"] = block.get("thinking", "") + text
                yield ThinkingDelta(text)
            case {"type": "signature_delta", "signature": str(signature)}:
                block["signature"] = (block.get("signature") or "") + signature
            case {"type": "input_json_delta", "partial_json": str(text)}:
                self._json[index] = self._json.get(index, "") + text
                if block["type"] == "tool_use":
                    yield ToolCallDelta(call_id=block["id"], text=text)

    def _part(self, index: int) -> list[AnyPart]:
        block = self._blocks[index]
        match block:
            case {"type": "text"}:
                text = block.get("text", "")
                return [Text(text=text)] if text else []
            case {"type": "thinking"}:
                thought, signature = block.get("thinking", ""), block.get("signature") or None
                return [Thinking(text=thought, signature=signature)] if thought or signature else []
            case {"type": "tool_use"}:
                return [self._call(index, block)]
        if index in self._json:
            block["input"] = json.loads(self._json[index] or "{}")
        return [Opaque(vendor=VENDOR, data=block)]

    def _call(self, index: int, block: dict[str, Any]) -> ToolCall:
        text = self._json.get(index, "")
        given = arguments_of(text) if text else block.get("input") or {}
        if isinstance(given, str) and self._stop == "length":
            return ToolCall(id=block["id"], name=block["name"], arguments={}, partial=text)
        return ToolCall(id=block["id"], name=block["name"], arguments=given)
