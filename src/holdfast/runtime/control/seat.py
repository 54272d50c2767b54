"""One connection as the runner sees it: what waits to be sent to a client, and when it is dropped.

Nothing waits for a client but what is meant for it alone. What it does not take is kept up to a
bound; beyond that it has stalled and is let go. Its requests are not done faster than it takes the
replies to them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

MOST_QUEUED_BYTES = 8 * 1024 * 1024
MOST_REPLIES = 100
"""How many replies may wait for a client before its next request does."""


class Client:
    """What waits to be sent, and how far the client has come.

    ``attached`` tells that it hears everything; ``live``, that it wants text as it is streamed;
    ``answers``, that it is a terminal: somebody is there who can approve; ``after`` is the last
    entry it was sent.
    """

    def __init__(self, write: asyncio.StreamWriter) -> None:
        self._write = write
        self._lines: deque[tuple[bytes, bool]] = deque()  # each with whether it is a reply
        self._queued_bytes = 0
        self._replies = 0
        self._wake = asyncio.Event()
        self._drained = asyncio.Event()
        self._taken_some = asyncio.Event()
        self.dropped = False
        self.attached = False
        self.answers = False
        self.live = False
        self.after = -1

    def send(self, line: bytes, *, is_reply: bool = False) -> None:
        """Queue a line; a client that has not taken the ones before it for too long is dropped."""
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
        """Return when it has taken so many replies that another request may be done for it."""
        while self._replies >= MOST_REPLIES and not self.dropped:
            self._taken_some.clear()
            await self._taken_some.wait()

    async def send_all(self, lines: Iterable[bytes]) -> None:
        """Send lines at the client's own pace: it is waited for, and not dropped for being slow."""
        for line in lines:
            if self._queued_bytes + _weight(line) > MOST_QUEUED_BYTES:
                await self.drained()
            self.send(line)
        await self.drained()

    def drop(self) -> None:
        """Let go of it at once; what it has not taken is not sent."""
        self.dropped = True
        self.attached = False
        self._lines.clear()
        self._wake.set()
        self._drained.set()
        self._taken_some.set()
        self._write.transport.abort()

    async def pump(self) -> None:
        """Send what is queued, for as long as it lives."""
        try:
            while not self.dropped:
                while self._lines:
                    self._write.write(self._lines[0][0])
                    await self._write.drain()
                    self._taken()
                self._drained.set()
                self._wake.clear()
                await self._wake.wait()
        except OSError:
            pass  # it is gone
        finally:
            self.drop()  # nothing would be sent any more

    def _taken(self) -> None:
        """Forget the first line, which was sent; by now it may be forgotten with all the others."""
        if self._lines:
            line, is_reply = self._lines.popleft()
            self._queued_bytes -= _weight(line)
            self._replies -= is_reply
            self._taken_some.set()

    async def drained(self) -> None:
        """Return when everything queued has been sent, or it is gone."""
        while self._lines:
            self._drained.clear()
            await self._drained.wait()

    async def finish(self, seconds: float) -> None:
        """Hang up once it has taken what is queued, and at the latest after so long."""
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(seconds):
                await self.drained()
                self._write.close()
                await self._write.wait_closed()
        self.drop()


def _weight(line: bytes) -> int:
    """Return what a line counts: a single large one must not pass for a client that stalls."""
    return min(len(line), MOST_QUEUED_BYTES // 4)
