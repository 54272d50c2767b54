"""The bounded queue of lines for one subscriber, and when the subscriber is dropped.

Broadcasting never waits for a subscriber. Lines that it has not taken are queued up to a bound;
beyond that it has stalled and is dropped. Its requests are not done faster than it takes the
replies to them. The lines go to a sink: a socket here, and any other stream of lines.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

MOST_QUEUED_BYTES = 8 * 1024 * 1024
MOST_REPLIES = 100
"""How many replies may be queued for a subscriber before its next request has to wait."""


class LineSink(Protocol):
    """Where the lines of one subscriber are written."""

    async def write(self, line: bytes) -> None:
        """Write a line; return when the other end can take the next one.

        Raises:
            OSError: the other end is gone.
        """

    async def close(self) -> None:
        """Close once everything written has been sent; raises as ``write``."""

    def abort(self) -> None:
        """Close at once; what has not been sent is lost."""


class Subscriber:
    """The queue of one subscriber, and how far it has come.

    ``attached``: it gets every event. ``live``: it also wants text while it is streamed.
    ``answers``: it is a terminal, where a person can approve tool calls. ``after`` is the number of
    the last entry that it was sent. Once ``dropped``, nothing is queued or sent any more.
    """

    def __init__(self, sink: LineSink) -> None:
        self._sink = sink
        self._lines: deque[tuple[bytes, bool]] = deque()  # each with whether it is a reply
        self._queued_bytes = 0
        self._replies = 0
        self._wake = asyncio.Event()
        self._empty = asyncio.Event()
        self._taken_some = asyncio.Event()
        self.dropped = False
        self.attached = False
        self.answers = False
        self.live = False
        self.after = -1

    def send(self, line: bytes, *, is_reply: bool = False) -> None:
        """Queue a line; drop the subscriber if too much is queued already."""
        if self.dropped:
            return
        if self._lines and self._queued_bytes + _weight(line) > MOST_QUEUED_BYTES:
            self.drop()
            return
        self._lines.append((line, is_reply))
        self._replies += is_reply
        self._queued_bytes += _weight(line)
        self._wake.set()

    async def ready(self) -> None:
        """Return when so few replies are queued that another request may be done."""
        while self._replies >= MOST_REPLIES and not self.dropped:
            self._taken_some.clear()
            await self._taken_some.wait()

    async def send_all(self, lines: Iterable[bytes]) -> None:
        """Send lines at the subscriber's own pace: it is not dropped for being slow."""
        for line in lines:
            if self._queued_bytes + _weight(line) > MOST_QUEUED_BYTES:
                await self.wait_empty()
            self.send(line)
        await self.wait_empty()

    def drop(self) -> None:
        """Disconnect the subscriber at once; queued lines are not sent."""
        self.dropped = True
        self.attached = False
        self._lines.clear()
        self._wake.set()
        self._empty.set()
        self._taken_some.set()
        self._sink.abort()

    async def send_loop(self) -> None:
        """Write queued lines to the sink until the subscriber is dropped."""
        try:
            while not self.dropped:
                while self._lines:
                    await self._sink.write(self._lines[0][0])
                    self._remove_first()
                self._empty.set()
                self._wake.clear()
                await self._wake.wait()
        except OSError:
            pass  # the other end is gone
        finally:
            self.drop()  # nothing would be sent any more

    def _remove_first(self) -> None:
        if self._lines:  # or the subscriber was dropped while the line was written
            line, is_reply = self._lines.popleft()
            self._queued_bytes -= _weight(line)
            self._replies -= is_reply
            self._taken_some.set()

    async def wait_empty(self) -> None:
        """Return when every queued line has been sent, or the subscriber is dropped."""
        while self._lines:
            self._empty.clear()
            await self._empty.wait()

    async def finish(self, timeout_seconds: float) -> None:
        """Send what is queued and close; drop what cannot be sent in time."""
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(timeout_seconds):
                await self.wait_empty()
                await self._sink.close()
        self.drop()


def _weight(line: bytes) -> int:
    """Return how much a line counts: one large line alone must not look like a stall."""
    return min(len(line), MOST_QUEUED_BYTES // 4)
