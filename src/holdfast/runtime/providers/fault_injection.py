"""A provider that breaks another one's streams at chosen points, for tests and drills.

A plan is text: faults parted by commas, each ``what@after`` with an optional ``xTimes``. Requests
meet the faults in order, one each; when the plan is used up everything passes.

    429@0x2, disconnect@3, ok, stall@1

Here two requests are refused, the third loses its connection after three deltas, the fourth passes
and the fifth says one thing and nothing more until it is cancelled. What can happen:

| word | what the loop sees |
|---|---|
| ``disconnect`` | ``ConnectFailed`` |
| ``timeout`` | ``TimedOut`` |
| ``end`` | the end of the stream without ``Finished``, as providers report it: ``EmptyReply`` |
| | before the first delta, ``ConnectFailed`` after it |
| ``stall`` | nothing, for ever |
| ``429``, ``500``, ``529`` … | ``BadStatus`` with that status; 401 and 403 are ``KeyRefused`` |
| ``ok`` | the whole answer |
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec import Struct

from holdfast.errors import (
    BadStatus,
    ConnectFailed,
    EmptyReply,
    KeyRefused,
    ProviderError,
    TimedOut,
    UsageError,
)
from holdfast.runtime.providers.base import Delta, Provider, Request

_FAULT = re.compile(r"(?P<what>[a-z]+|[45]\d\d)(?:@(?P<after>\d+))?(?:x(?P<times>\d+))?")
_WORDS = {"disconnect", "timeout", "end", "stall", "ok"}


class Fault(Struct, frozen=True):
    """What happens to one request, and after how many deltas."""

    what: str
    after: int = 0


def parse_plan(text: str) -> list[Fault]:
    """Return the faults of a plan, in order.

    Raises:
        UsageError: it is not a plan.
    """
    faults: list[Fault] = []
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        found = _FAULT.fullmatch(piece.replace(" ", ""))
        if found is None or not (found["what"].isdigit() or found["what"] in _WORDS):
            raise UsageError(
                f"{piece!r} is not a fault. Use for example 'disconnect@3' or '429@0x2', with "
                f"one of {', '.join(sorted(_WORDS))}, or a status from 400 to 599."
            )
        fault = Fault(found["what"], int(found["after"] or 0))
        faults += [fault] * int(found["times"] or 1)
    return faults


class Chaos:
    """A provider; see ``contract.Provider``."""

    def __init__(self, inner: Provider, plan: str) -> None:
        self._inner = inner
        self._faults = parse_plan(plan)
        self.name = inner.name
        self.endpoint = inner.endpoint

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Yield the inner provider's deltas until the fault's turn comes."""
        fault = self._faults.pop(0) if self._faults else Fault("ok")
        left = fault.after
        async with aclosing(self._inner.stream(request)) as deltas:
            if fault.what != "ok" and left == 0:
                await self._strike(fault)
            async for delta in deltas:
                yield delta
                left -= 1
                if fault.what != "ok" and left == 0:
                    await self._strike(fault)

    async def close(self) -> None:
        """Let go of the inner provider's connections."""
        await self._inner.close()

    async def _strike(self, fault: Fault) -> None:
        if fault.what == "stall":
            await asyncio.Event().wait()
        raise self._error(fault)

    def _error(self, fault: Fault) -> ProviderError:
        told = f"{self.name} was broken on purpose ({fault.what} after {fault.after} deltas)."
        if fault.what.isdigit():
            status = int(fault.what)
            kind = KeyRefused if status in {401, 403} else BadStatus
            retryable = status in {408, 409, 429} or status >= 500
            return kind(told, retryable=retryable, status=status)
        if fault.what == "timeout":
            return TimedOut(told, retryable=True)
        if fault.what == "end" and fault.after == 0:
            return EmptyReply(told, retryable=True)
        return ConnectFailed(told, retryable=True)
