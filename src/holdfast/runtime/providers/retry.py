"""Asking again, when the first try came to nothing.

Only a request of which nothing has been seen yet is repeated: once a delta was handed on it is in
the live file and on screens, and a second answer would be put behind the first. Waiting is visible
(``ProviderStatus``) and ends at once when the turn is cancelled.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from msgspec import Struct

from holdfast.errors import BadStatus, ConnectFailed, EmptyReply, ProviderError
from holdfast.runtime.providers.base import Delta, Finished, Provider, ProviderStatus, Request


class Patience(Struct, frozen=True):
    """How often and how long. ``tries`` counts the first one.

    A provider that asks for a longer wait than ``longest_seconds`` is not asked again.
    """

    tries: int = 5
    first_seconds: float = 1.0
    longest_seconds: float = 60.0


class Retrying:
    """A provider that asks another one again; see ``contract.Provider``.

    ``jitter`` returns a number from 0 to 1; ``sleep`` waits.
    """

    def __init__(
        self,
        inner: Provider,
        patience: Patience | None = None,
        *,
        jitter: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._inner = inner
        self._patience = patience or Patience()
        self._jitter = jitter
        self._sleep = sleep
        self.name = inner.name
        self.endpoint = inner.endpoint

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Yield deltas of the first try that gets anywhere, ``Finished`` last."""
        tried = 0
        while True:
            started = False
            try:
                async with aclosing(self._inner.stream(request)) as deltas:
                    async for delta in deltas:
                        started = started or not isinstance(delta, ProviderStatus)
                        yield delta
                        if isinstance(delta, Finished):
                            return
                raise self._unfinished(started=started)
            except ProviderError as error:
                tried += 1
                wait_seconds = self._wait_seconds(error, tried)
                if started or wait_seconds is None:
                    raise
                told = f"{str(error).rstrip('.')}. Trying again in {wait_seconds:.0f} s"
            yield ProviderStatus(
                f"{told} (try {tried + 1} of {self._patience.tries}).",
                retry_in_seconds=wait_seconds,
            )
            await self._sleep(wait_seconds)

    async def close(self) -> None:
        """Let go of connections."""
        await self._inner.close()

    def _wait_seconds(self, error: ProviderError, tried: int) -> float | None:
        """Return how long to wait before the next try, ``None`` if there is to be none."""
        limits = self._patience
        if not error.retryable or tried >= limits.tries:
            return None
        asked = error.retry_after_seconds if isinstance(error, BadStatus) else None
        if asked is not None:
            # Jitter on top: a thousand clients are told the same number.
            return None if asked > limits.longest_seconds else asked + self._jitter()
        backoff_seconds = min(limits.longest_seconds, limits.first_seconds * 2.0 ** (tried - 1))
        return backoff_seconds * (0.5 + self._jitter() / 2)

    def _unfinished(self, *, started: bool) -> ProviderError:
        if started:
            return ConnectFailed(
                f"The answer of {self.name} ended early; try again.", retryable=True
            )
        return EmptyReply(f"{self.name} sent an empty answer; try again.", retryable=True)
