"""A client that stays attached to a session: the events of its runner, and of the next one.

Every client of a runner reads its events and sends its requests through this class. If the runner
hangs up, the client connects again and attaches after the last entry that it has seen, so no entry
is missed or repeated. A request is sent again to the next runner with the same id, so it has one
effect. After a runner has exited in order, none is started until the client asks for something.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.runtime.protocol.client import Answer, Connection, RunnerGone, new_request_id
from holdfast.runtime.protocol.messages import (
    Attach,
    Cancel,
    EntryEvent,
    R,
    RequestFor,
    RunnerEvent,
    RunnerExited,
    RunnerStatus,
    StateChanged,
    StatusOf,
)

_TRIES = 5
_RETRY_SECONDS = 0.2
_SILENT_SECONDS = 5.0
_HANG_UP_SECONDS = 2.0
_MOST_LOSSES, _LOSS_SECONDS = 5, 60.0  # runners that may die in so long before the client gives up
NO_HISTORY = 2**62
"""As ``after``: send no earlier entries."""


class Connected(Struct, frozen=True):
    """A runner is attached; running streams and open questions are sent again from the start.

    ``other_version`` is the runner's version if it speaks another protocol: then it can only be
    followed, cancelled and stopped.
    """

    other_version: str | None = None


class Disconnected(Struct, frozen=True):
    """The runner hung up without a good-bye; reading on connects again."""

    why: str


ClientEvent = RunnerEvent | Connected | Disconnected


class ReconnectingClient:
    """The events of one session, and requests to its runner.

    ``async for event in client`` attaches and yields every event. It ends after ``RunnerExited``;
    iterating again attaches to the next runner. Before the first iteration the client is connected
    by requests alone, and not attached.

    ``connect`` returns a connection, and starts a runner if that is wanted. ``after`` is the number
    of the last entry that was yielded. ``answers`` tells the runner that a person can approve tool
    calls here. ``log`` is where a runner that dies at once may say why. With ``detaches``, closing
    is no hang-up: the runner is told first, and where hang-ups end turns this one goes on.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        *,
        after: int = -1,
        live: bool = True,
        answers: bool = False,
        log: Path | None = None,
    ) -> None:
        self._connect = connect
        self._live = live
        self._log = log
        self._connection: Connection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._follows = self._attached = self._announced = self._exited = False
        self._wanted = asyncio.Event()
        self._losses = _Losses()
        self._asked: dict[str, float] = {}
        self.after = after
        self.answers = answers
        self.detaches = False

    @classmethod
    def over(cls, connection: Connection, *, after: int = -1, live: bool = True) -> Self:
        """Return a client that uses one connection and never makes another."""
        given = [connection]

        async def connect() -> Connection:
            if not given:
                raise RunnerGone("The runner closed the connection.")
            return given.pop()

        return cls(connect, after=after, live=live)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        await self.close()

    # Events

    def __aiter__(self) -> Self:
        self._exited = False
        return self

    async def __anext__(self) -> ClientEvent:
        """Return the next event.

        Raises:
            HoldfastError: there is no runner and none can be started, or too many have died.
        """
        if self._exited:
            raise StopAsyncIteration
        self._follows = True
        while True:
            try:
                connection = await self._open_connection()
            except HoldfastError:
                self._wanted.clear()
                raise
            if not self._announced:
                self._announced = True
                self._wanted.clear()
                return Connected(connection.hello.version if connection.skewed else None)
            event = await connection.next_event()
            if connection is not self._connection:
                continue  # a request found it dead and has connected again
            if event is None:
                await self._lose(connection)
                return Disconnected("The connection to the runner was lost; reconnecting.")
            if isinstance(event, RunnerExited):
                self._exited, self._connection = True, None
                # It removes its socket first. Not wait_for: that drops a cancellation which
                # arrives together with the end of the connection.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_HANG_UP_SECONDS):
                        await connection.wait_hung_up()
                await connection.close()
            elif isinstance(event, EntryEvent):
                self.after = max(self.after, event.seq)
            return event

    async def attach(self) -> None:
        """Attach now, before the first event is read.

        Raises:
            HoldfastError: there is no runner and none can be started.
        """
        self._follows = True
        await self._open_connection()

    async def until_idle(self) -> AsyncIterator[ClientEvent]:
        """Yield events until the runner has nothing to do, with all that came before that.

        The runner is asked: a queued prompt may be about to run although the state is idle.

        Raises:
            HoldfastError: there is no runner any more.
        """
        idle_after: int | None = None
        async for event in self:
            yield event
            if isinstance(event, StateChanged) and event.at_rest:
                idle_after = await self.idle_after()
            if idle_after is not None and self.taken >= idle_after:
                return

    @property
    def taken(self) -> int:
        """How many events of this connection have been yielded; ``Connected`` is none of them."""
        return 0 if self._connection is None else self._connection.taken

    def want(self) -> None:
        """Ask that a runner is looked for, or started, again."""
        self._wanted.set()

    async def wait_wanted(self) -> None:
        """Return when a runner is wanted again: by a request, or by ``want``."""
        await self._wanted.wait()
        self._wanted.clear()

    # Requests

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connection is not None

    @property
    def waits(self) -> bool:
        """Whether a reply is outstanding."""
        return bool(self._asked)

    @property
    def silent(self) -> bool:
        """Whether a reply is outstanding for longer than it ever should be."""
        now = time.monotonic()
        return any(now - began > _SILENT_SECONDS for began in self._asked.values())

    async def request(self, request: RequestFor[R]) -> R:
        """Send a request and return the reply; raises as ``ask``."""
        return (await self.ask(request)).reply

    async def ask(self, request: RequestFor[R]) -> Answer[R]:
        """Send a request, to the next runner if this one is gone.

        Return the reply, and how many events of the connection came before it.

        Raises:
            HoldfastError: it was refused, or there is no runner and none can be started.
        """
        for left in reversed(range(_TRIES)):
            if self._connection is None:
                self._wanted.set()
            connection = await self._open_connection()
            self._asked[request.id] = time.monotonic()
            try:
                return await connection.ask(request)
            except RunnerGone:
                if not left or isinstance(request, Cancel):
                    raise
            finally:
                self._asked.pop(request.id, None)
            await asyncio.sleep(_RETRY_SECONDS)  # its last events may be read meanwhile
            if connection is self._connection and connection.hung_up:
                await self._lose(connection)
        raise AssertionError("unreachable")

    async def status(self) -> RunnerStatus | None:
        """Return the status of the runner, ``None`` if it is gone; none is started for this."""
        if self._connection is None:
            return None
        try:
            return (await self._connection.request(StatusOf(id=new_request_id()))).status
        except HoldfastError:
            return None

    async def idle_after(self) -> int | None:
        """Return how many events had come when the runner was idle, ``None`` if it is not.

        Raises:
            HoldfastError: it does not answer.
        """
        answer = await self.ask(StatusOf(id=new_request_id()))
        return answer.events_before if answer.reply.status.state == "idle" else None

    # The connection

    async def disconnect(self) -> None:
        """Detach and hang up; reading on, or a request, connects again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.detach()
            await connection.close()

    async def close(self) -> None:
        """Give up the connection for good."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
        if self.detaches:
            await self.disconnect()
        elif self._connection is not None:
            await self._connection.close()

    async def wait_hung_up(self) -> None:
        """Return when the runner has hung up; whatever it sent is left unread."""
        if self._connection is not None:
            await self._connection.wait_hung_up()

    async def _open_connection(self) -> Connection:
        """Return the connection, attached if events are read; requests and reading share it.

        Raises:
            HoldfastError: there is none and none can be made.
        """
        while (connection := self._connection) is None or (self._follows and not self._attached):
            if self._opening is None:
                self._opening = asyncio.ensure_future(self._open())
                self._opening.add_done_callback(self._opened)
            await asyncio.shield(self._opening)
        return connection

    def _opened(self, opening: asyncio.Task[None]) -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # whoever waited has got it

    async def _open(self) -> None:
        connection = self._connection
        if connection is None:
            if self._losses.any:
                await asyncio.sleep(_RETRY_SECONDS)
            connection = await self._connect()
            self._losses.met(connection.hello.pid)
            self._connection = connection
            self._attached = self._announced = False
        if not self._follows:
            return
        attach = Attach(
            id=new_request_id(), after=self.after, live=self._live, answers=self.answers
        )
        try:
            await connection.request(attach)
        except RunnerGone:
            await self._lose(connection)
        else:
            self._attached = True

    async def _lose(self, connection: Connection) -> None:
        """Forget a connection that has ended.

        Raises:
            RunnerGone: too many have, in a short time.
        """
        if connection is self._connection:
            self._connection = None
        await connection.close()
        if self._losses.are_too_many():
            said = "" if self._log is None else f"; for details see {self._log}"
            raise RunnerGone(
                f"The session's runner has ended {_MOST_LOSSES} times within a minute{said}."
            )


class _Losses:
    """Runners that ended while a client was attached: it gives up after too many in a row."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=_MOST_LOSSES)
        self._pid: int | None = None

    @property
    def any(self) -> bool:
        """Whether a connection was lost since the last runner proved to be alive."""
        return bool(self._times)

    def met(self, pid: int | None) -> None:
        """Note which runner is there. The same as before has not died: it only hung up."""
        if pid == self._pid:
            self._times.clear()
        self._pid = pid

    def are_too_many(self) -> bool:
        """Note that a connection was lost; tells whether that is too often."""
        self._times.append(time.monotonic())
        full = len(self._times) == _MOST_LOSSES
        return full and self._times[-1] - self._times[0] < _LOSS_SECONDS
