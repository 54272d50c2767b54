"""A command that runs: how its end is noticed, and how it is brought about.

``Child`` is one that this process started, ``Orphan`` one whose agent died and that was found in
the spool. ``follow`` waits for either, shows its output, and turns a cancelled task into a command
that is told to end.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from holdfast.runtime.tools.base import settled
from holdfast.runtime.tools.shell import wrapper
from holdfast.runtime.tools.shell.output import OutputFollower, size_of
from holdfast.runtime.tools.shell.spool import CommandStatus, Recovered, decode_status, end, recover

_LOOK_SECONDS = 0.03
_SLACK_SECONDS = 2.0  # for a wrapper that should have killed the command by now


class Running(Protocol):
    """What ``follow`` needs to know of a command."""

    async def ended(self, seconds: float) -> bool:
        """Wait for the end, but not for longer; tell whether it came."""
        ...

    def status(self) -> CommandStatus | None:
        """Return how it ended, once it has; blocks."""
        ...

    def end(self, *, kill: bool) -> None:
        """Tell it to end; blocks."""
        ...


class Orphan:
    """A command that an agent left behind."""

    def __init__(self, spool: Path, call_id: str) -> None:
        self._where = (spool, call_id)

    async def ended(self, seconds: float) -> bool:
        """Look, and look again."""
        if (await asyncio.to_thread(self._look)).state != "running":
            return True
        await asyncio.sleep(seconds)
        return False

    def status(self) -> CommandStatus | None:
        """Return what the wrapper left; nothing if it was killed."""
        return self._look().status

    def end(self, *, kill: bool) -> None:
        """Signal whoever is there."""
        recovered = self._look()
        if recovered.state == "running":
            end(recovered, kill=kill)

    def _look(self) -> Recovered:
        return recover(*self._where, claim=False)


class Child:
    """A command under a wrapper that is our own child process."""

    def __init__(self, process: subprocess.Popen[bytes], spool: Path, call_id: str) -> None:
        self._process = process
        self._orphan = Orphan(spool, call_id)
        self._event = asyncio.Event()
        self._told: bytes | None = None
        assert process.stdout is not None
        self._pipe = process.stdout
        # Readable when the wrapper has printed the status, or died.
        asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._event.set)

    async def ended(self, seconds: float) -> bool:
        """Wait for the end of the wrapper; if somebody killed it, for that of the command."""
        if self._told is None:
            try:
                async with asyncio.timeout(seconds):
                    await self._event.wait()
            except TimeoutError:
                return False
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())
            self._told, _ = await settled(self._process.communicate)
        return self.status() is not None or await self._orphan.ended(seconds)

    def status(self) -> CommandStatus | None:
        """Return what the wrapper said before it went."""
        return decode_status(self._told or b"")

    def end(self, *, kill: bool) -> None:
        """Let the wrapper end the command; with ``kill`` neither of them is asked."""
        if kill or self._told is not None:
            self._orphan.end(kill=kill)
        if self._told is None:
            self._process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)


class Ended(msgspec.Struct, frozen=True):
    """How following came to an end: the command's status, and whether the task was cancelled."""

    status: CommandStatus | None
    size_bytes: int
    cancelled: bool


async def follow(
    running: Running,
    folder: Path,
    show: Callable[[str], None],
    grace_seconds: float,
    *,
    cancelled: bool = False,
) -> Ended:
    """Show a command's output until it ends.

    Cancelling the task tells the command to end, cancelling it again kills it; it returns when the
    command has ended. With ``cancelled`` it was cancelled before. What ``show`` raises ends the
    command too, and is raised then.
    """
    watch = _Watch(running, OutputFollower(folder / wrapper.OUTPUT), show, grace_seconds)
    if cancelled:
        watch.stop()
    watching = asyncio.ensure_future(watch.run())
    while True:
        try:
            status = await asyncio.shield(watching)
        except asyncio.CancelledError:
            watch.stop()
            if watching.cancelled():  # the event loop cancels everything when it is closed
                watching = asyncio.ensure_future(watch.run())
            continue
        size = await settled(size_of, folder / wrapper.OUTPUT)
        return Ended(status, status.size_bytes if status else size, watch.stops > 0)


class _Watch:
    """The task that looks at a command again and again; nobody but ``follow`` cancels it."""

    def __init__(
        self, running: Running, follower: OutputFollower, show: Callable[[str], None], grace: float
    ) -> None:
        self._running = running
        self._follower = follower
        self._show = show
        self._grace = grace
        self._told = 0
        self._kill_at: float | None = None
        self._trouble: Exception | None = None
        self.stops = 0

    def stop(self) -> None:
        """Have the command ended: asked for the first time, without asking from then on."""
        self.stops += 1

    async def run(self) -> CommandStatus | None:
        while not await self._running.ended(_LOOK_SECONDS):
            await self._end_if_told()
            self._hand_on(await asyncio.to_thread(self._follower.more))
        status = await asyncio.to_thread(self._running.status)
        self._hand_on(await asyncio.to_thread(self._follower.rest, status))
        if self._trouble is not None:
            raise self._trouble
        return status

    async def _end_if_told(self) -> None:
        late = self._kill_at is not None and time.monotonic() >= self._kill_at
        if self.stops == self._told and not late:
            return
        kill = late or self.stops > 1
        self._told = self.stops
        self._kill_at = None if kill else time.monotonic() + self._grace + _SLACK_SECONDS
        await asyncio.to_thread(self._running.end, kill=kill)

    def _hand_on(self, text: str) -> None:
        if not text or self._trouble is not None:
            return
        try:
            self._show(text)
        except Exception as error:  # noqa: BLE001  raised when the command has ended
            self._trouble = error
            self.stop()
