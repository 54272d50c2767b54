"""A vendor on loopback for a program in another process: the server runs in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cli.program import until
from tests.runtime.providers.wire import (
    FakeVendor,
    Received,
    Reply,
    chat_reply,
    messages_reply,
    text_block,
)


class Vendor:
    """The server as the test sees it."""

    def __init__(self, inner: FakeVendor, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop
        self.url = inner.url

    @property
    def received(self) -> list[Received]:
        return self._inner.received

    def options(self, provider: str, model: str = "served-model") -> list[str]:
        """The options that have a program ask this server."""
        url = self.url if provider == "anthropic" else f"{self.url}/v1"
        return ["--provider", provider, "--base-url", url, "--model", model]

    def asked(self, times: int = 1) -> None:
        """Wait for so many requests."""
        until(lambda: len(self.received) >= times, f"request {times}")

    def go_on(self) -> None:
        """Let a reply that pauses be written to its end."""
        self._loop.call_soon_threadsafe(self._inner.go.set)


@contextmanager
def vendor_on_loopback(*replies: Reply) -> Iterator[Vendor]:
    """Give a server; what it was sent is held against the vendor's rules at the end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def on_the_loop(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(20)

    inner = FakeVendor(*replies)
    on_the_loop(inner.__aenter__())
    try:
        yield Vendor(inner, loop)
    finally:
        loop.call_soon_threadsafe(inner.go.set)
        on_the_loop(inner.__aexit__(RuntimeError))  # the complaints are ours to raise
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
    assert inner.complaints() == []


def streamed(provider: str, *pieces: str, **given: Any) -> Reply:
    """A reply in pieces, in the protocol of a provider; ``pause`` counts the pieces."""
    if "pause" in given:
        given["pause"] += 3 if provider == "anthropic" else 0
    if provider == "anthropic":
        return messages_reply(text_block(0, *pieces), **given)
    return chat_reply([{"content": piece} for piece in pieces], **given)
