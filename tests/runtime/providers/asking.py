"""Asking a provider, and what comes back."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest

from holdfast import Message, user
from holdfast.errors import ProviderError
from holdfast.runtime.providers.base import Delta, Finished, Provider, Request, ToolSpec

LOOK = ToolSpec(
    name="look",
    description="Looks.",
    parameters={"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
)
KEY = "very-secret-0123456789"  # not in the form of any vendor: it is known, not guessed


def request(*messages: Message, **more: Any) -> Request:
    more.setdefault("model", "claude-haiku-4-5")
    return Request(messages=list(messages) or [user("hello")], **more)


async def ask(provider: Provider, asked: Request | None = None) -> list[Any]:
    """Ask once and return every delta."""
    async with aclosing(provider.stream(asked or request())) as deltas:
        return [delta async for delta in deltas]


async def answer(provider: Provider, asked: Request | None = None) -> Finished:
    last = (await ask(provider, asked))[-1]
    assert isinstance(last, Finished)
    return last


async def refused(provider: Provider, asked: Request | None = None) -> tuple[list[Delta], Any]:
    """Ask a provider that fails; return what came before, and the error."""
    deltas: list[Delta] = []
    with pytest.raises(ProviderError) as caught:
        async with aclosing(provider.stream(asked or request())) as stream:
            async for delta in stream:
                deltas.append(delta)  # noqa: PERF401  what came before the error counts
    await provider.close()
    return deltas, caught.value
