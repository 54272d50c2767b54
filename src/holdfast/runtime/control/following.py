"""Staying with a session: attached to its runner, and to the next one if that dies.

A client asks for a connection when it starts and whenever it wants something; between a runner that
has left and the next wish nothing is started. What is asked is sent again to the next runner, with
the same id, so it is done once.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from pathlib import Path
from typing import Any, Protocol

from holdfast.errors import HoldfastError, StorageError
from holdfast.runtime.control.client import Connection, RunnerGone, new_request_id
from holdfast.runtime.control.protocol import Attach, Cancel, Request

_TRIES = 5
_RETRY_SECONDS = 0.2
_SILENT_SECONDS = 5.0
_MOST_LOSSES, _LOSS_SECONDS = 5, 60.0  # runners that may end under it, in so long


class Listener(Protocol):
    """A client of a session, as the one that stays with it sees it."""

    @property
    def after(self) -> int:
        """The number of the last entry that was taken."""

    @property
    def answers(self) -> bool:
        """Whether somebody is there who can approve."""

    async def reach(self) -> Connection:
        """Return a connection; a runner is started if there is none."""

    async def hear(self, event: dict[str, Any]) -> None:
        """Take an event; a runner of another version is told as ``skewed``."""

    def stands(self, why: HoldfastError | str | None) -> None:
        """Be told whether a runner is there: ``None``, or why not."""


class Following:
    """Keeps a client attached. ``log`` is where a runner that dies at once may say why.

    ``on_purpose`` tells that the client leaves of its own will: for the session, that is no
    hang-up.
    """

    def __init__(self, listener: Listener, log: Path) -> None:
        self._listener = listener
        self._log = log
        self._connection: Connection | None = None
        self._waiters: list[asyncio.Future[Connection]] = []
        self._wanted = asyncio.Event()
        self._losses = _Losses()
        self._asked: dict[str, float] = {}
        self.on_purpose = False

    @property
    def connection(self) -> Connection | None:
        """The connection, while there is one."""
        return self._connection

    @property
    def waits(self) -> bool:
        """Whether a reply is waited for."""
        return bool(self._asked)

    @property
    def silent(self) -> bool:
        """Whether a reply is waited for longer than it ever should."""
        now = time.monotonic()
        return any(now - began > _SILENT_SECONDS for began in self._asked.values())

    def want(self) -> None:
        """Have a runner looked for, or started, again."""
        self._wanted.set()

    async def keep(self) -> None:
        """Stay attached; runs until it is cancelled."""
        self._wanted.set()
        while True:
            await self._wanted.wait()
            try:
                why = await self.attached()
            except HoldfastError as error:
                self._wanted.clear()
                self._listener.stands(error)
                continue
            except Exception as error:  # noqa: BLE001  whoever stays with it must hear of a defect
                self._wanted.clear()
                told = f"Following the session failed: {type(error).__name__}: {error}."
                self._listener.stands(StorageError(told))
                continue
            if why is not None:
                self._listener.stands(why)
                await asyncio.sleep(_RETRY_SECONDS)
            elif not self._waiters:  # it has left of its own accord
                self._wanted.clear()

    async def attached(self) -> str | None:
        """Attach, and hand on what comes; return why it ended, ``None`` if the runner has left.

        Raises:
            HoldfastError: there is no runner, and none can be started; or too many have died.
        """
        try:
            why = await self._once()
            if why is not None and self._losses.are_too_many():
                raise RunnerGone(
                    f"The session's runner has ended {_MOST_LOSSES} times within a minute; what it "
                    f"said, if anything, is in {self._log}."
                )
        except HoldfastError as error:
            for waiter in self._taken_waiters():
                waiter.set_exception(error)
            raise
        return why

    async def ask(self, request: Request) -> dict[str, Any]:
        """Have something done, by the next runner if this one is gone; return the reply.

        Raises:
            HoldfastError: it was refused, or nobody takes it.
        """
        for left in reversed(range(_TRIES)):
            connection = await self._any_connection()
            self._asked[request.id] = time.monotonic()
            try:
                return await connection.request(request)
            except RunnerGone:
                if not left or isinstance(request, Cancel):
                    raise
            finally:
                self._asked.pop(request.id, None)
            await asyncio.sleep(_RETRY_SECONDS)
        raise AssertionError("unreachable")

    async def _any_connection(self) -> Connection:
        if self._connection is not None:
            return self._connection
        waiter: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._wanted.set()
        return await waiter

    def _taken_waiters(self) -> list[asyncio.Future[Connection]]:
        waiters, self._waiters = self._waiters, []
        return [waiter for waiter in waiters if not waiter.done()]

    async def _once(self) -> str | None:
        connection = await self._listener.reach()
        self._losses.met(connection.hello.get("pid"))
        try:
            after, answers = self._listener.after, self._listener.answers
            self._listener.stands(None)
            await connection.request(Attach(id=new_request_id(), after=after, answers=answers))
            self._connection = connection
            for waiter in self._taken_waiters():
                waiter.set_result(connection)
            if connection.skewed:
                version = connection.hello["version"]
                await self._listener.hear({"type": "skewed", "version": version})
            return await self._heard(connection)
        except RunnerGone as error:
            return str(error)
        finally:
            self._connection = None
            if self.on_purpose:
                await connection.detach()
            await connection.close()

    async def _heard(self, connection: Connection) -> str | None:
        async for event in connection.events():
            await self._listener.hear(event)
            if event["type"] == "bye":
                self._listener.stands(f"The runner has left: {event['why']}.")
                return None
        return "The runner is gone; looking for it."


class _Losses:
    """Runners that ended under a client, and when: there is always a next one, but not for ever."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=_MOST_LOSSES)
        self._pid: int | None = None

    def met(self, pid: int | None) -> None:
        """Note who is there. The same as before has not ended: it only hung up."""
        if pid == self._pid:
            self._times.clear()
        self._pid = pid

    def are_too_many(self) -> bool:
        """Note that a connection was lost; tells whether it is enough."""
        self._times.append(time.monotonic())
        full = len(self._times) == _MOST_LOSSES
        return full and self._times[-1] - self._times[0] < _LOSS_SECONDS
