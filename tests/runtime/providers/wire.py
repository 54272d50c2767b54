"""A server on loopback that speaks the vendors' wire protocols, as their documentation describes.

It answers each request with the next of its replies and keeps what it was sent. Every request is
held against the vendor's documented rules when the server closes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from tests.runtime.request_validators import anthropic_complaints, openai_complaints

JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream"}


@dataclass
class Reply:
    """What one request gets: chunks, each written on its own, and then ``end``.

    ``end`` is ``close`` (the body is complete), ``abort`` (the connection breaks) or ``hang`` (no
    more until the client goes). Before ``pause`` chunks have been written nothing is waited for;
    after them the server waits until the test sets ``FakeVendor.go``.
    """

    chunks: list[bytes] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: dict(EVENTS))
    end: str = "close"
    pause: int | None = None


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class FakeVendor:
    """The server. Use it with ``async with``."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.received: list[Received] = []
        self.asked = asyncio.Event()
        self.left = asyncio.Event()
        self.go = asyncio.Event()
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._open:
            writer.transport.abort()
        await asyncio.gather(*self._tasks)
        await self._server.wait_closed()
        if kind is None:
            assert self.complaints() == []

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    @property
    def body(self) -> dict[str, Any]:
        return self.received[-1].body

    def complaints(self) -> list[str]:
        found: list[str] = []
        for one in self.received:
            check = anthropic_complaints if one.path == "/v1/messages" else openai_complaints
            found += check(one.body)
        return found

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        self._open.add(writer)
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left.set()
        finally:
            self._open.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.received.append(Received(head[0].split()[1], headers, json.loads(body)))
        self.asked.set()
        reply = self.replies.pop(0)
        fields = {**reply.headers, "transfer-encoding": "chunked"}
        lines = [f"HTTP/1.1 {reply.status} Told"] + [f"{k}: {v}" for k, v in fields.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        for index, chunk in enumerate(reply.chunks):
            if index == reply.pause:
                await self.go.wait()
            writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            await writer.drain()
        if reply.end == "close":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            return True
        if reply.end == "hang":
            await reader.read(1)
            self.left.set()
        writer.close()  # what was written is delivered; the body's end is missing
        return False


def event(name: str, **data: Any) -> bytes:
    """One named event of Anthropic's protocol."""
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[bytes]:
    """The events of one content block."""
    return [
        event("content_block_start", index=index, content_block=start),
        *(event("content_block_delta", index=index, delta=delta) for delta in deltas),
        event("content_block_stop", index=index),
    ]


def text_block(index: int, *pieces: str) -> list[bytes]:
    deltas = ({"type": "text_delta", "text": piece} for piece in pieces)
    return block(index, {"type": "text", "text": ""}, *deltas)


def call_block(index: int, call_id: str, name: str, *pieces: str) -> list[bytes]:
    start = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    deltas = ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)
    return block(index, start, *deltas)


def message_start(**usage: int) -> bytes:
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "claude-haiku-4-5-20251001",
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 25, "output_tokens": 1, **usage},
    }
    return event("message_start", message=message)


def message_end(stop: str = "end_turn", **usage: int) -> list[bytes]:
    delta = {"stop_reason": stop, "stop_sequence": None}
    return [
        event("message_delta", delta=delta, usage={"output_tokens": 15, **usage}),
        event("message_stop"),
    ]


def messages_reply(*blocks: list[bytes], stop: str = "end_turn", **given: Any) -> Reply:
    """A whole answer of Anthropic's, with a ping as the documentation promises."""
    inner = [chunk for one in blocks for chunk in one]
    chunks = [message_start(), event("ping"), *inner, *message_end(stop)]
    return Reply(chunks, headers={**EVENTS, "request-id": "req_9"}, **given)


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    """One chunk of a Chat Completions stream."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    frame = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1760000000,
        "model": "served-model",
        "choices": choices,
        **more,
    }
    return f"data: {json.dumps(frame)}\n\n".encode()


USAGE = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
DONE = b"data: [DONE]\n\n"


def chat_reply(
    deltas: Iterable[dict[str, Any]],
    finish: str = "stop",
    usage: dict[str, Any] | None = USAGE,
    **given: Any,
) -> Reply:
    """A whole answer of a Chat Completions server."""
    chunks = [*(chunk(delta) for delta in deltas), chunk({}, finish)]
    if usage is not None:
        chunks.append(chunk(usage=usage))
    return Reply([*chunks, DONE], headers={**EVENTS, "x-request-id": "req_7"}, **given)


def call(
    index: int | None, call_id: str | None, name: str | None, arguments: Any
) -> dict[str, Any]:
    """A delta with one fragment of a tool call; what is ``None`` is not there."""
    fragment: dict[str, Any] = {"type": "function", "function": {}}
    if index is not None:
        fragment["index"] = index
    if call_id is not None:
        fragment["id"] = call_id
    if name is not None:
        fragment["function"]["name"] = name
    if arguments is not None:
        fragment["function"]["arguments"] = arguments
    return {"tool_calls": [fragment]}


def refusal(status: int, kind: str, message: str, **headers: str) -> Reply:
    """An error, in the form that both vendors share."""
    body = {"type": "error", "error": {"type": kind, "message": message, "code": None}}
    return Reply([json.dumps(body).encode()], status, {**JSON, **headers})
