"""The wish to end a turn before it has ended by itself, and how it reaches what is running.

What runs is guarded: the first wish asks it to end (a command gets TERM, a stream is closed), a
second one insists. The turn itself is never cancelled: it goes on to write down how it ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Stopped(Exception):
    """Raised where a turn waits, once it is to end."""


class CancelToken:
    """One turn's wish to end. ``cause`` is for people; ``limit`` tells that a limit spoke.

    ``reached`` is the limit that was reached, also if somebody had cancelled the turn before: it
    holds for all turns that follow.
    """

    def __init__(self, reached: str | None = None) -> None:
        self.cause = self.reached = reached
        self.limit = reached is not None
        self._running: set[asyncio.Task[Any]] = set()

    def request(self, cause: str, *, limit: bool = False) -> None:
        """Have everything that runs end; the first cause counts. Call it on the event loop."""
        if self.cause is None:
            self.cause, self.limit = cause, limit
        if self.reached is None and limit:
            self.reached = cause
        for task in self._running:
            task.cancel()

    def _requested(self) -> bool:
        return self.cause is not None

    def check(self) -> None:
        """Raise ``Stopped`` if it was requested."""
        if self.cause is not None:
            raise Stopped(self.cause)

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` to its end; what it returns counts, even if it was told to end.

        Raises:
            Stopped: it was told to end and has nothing to return, or it was not begun at all.
        """
        if self._requested():
            work.close()
            raise Stopped(self.cause)
        task = asyncio.ensure_future(work)
        await asyncio.sleep(0)  # one that is cancelled before its first step never hears of it
        self._running.add(task)
        if self._requested():
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            if self.cause is None:
                raise
            raise Stopped(self.cause) from None
        finally:
            self._running.discard(task)
