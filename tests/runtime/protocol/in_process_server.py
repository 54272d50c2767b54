"""A session with a broadcaster and a server in this process: for tests that need exact timing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import holdfast
from holdfast.runtime.protocol.broadcast import Broadcaster
from holdfast.runtime.protocol.client import connect
from holdfast.runtime.protocol.messages import (
    PROTOCOL,
    Greeting,
    Reply,
    Request,
    RunnerStatus,
    StatusOf,
    StatusReply,
)
from holdfast.runtime.protocol.server import Server
from tests.runtime.runner.runner_clients import Caller

STATUS = RunnerStatus(
    session="s",
    pid=1,
    version="0",
    protocol=PROTOCOL,
    state="idle",
    started="",
    memory_bytes=0,
    clients=1,
    queue=0,
    model="m",
    title=None,
    workspace=None,
    seq=-1,
    trouble=None,
)


async def no_work(request: Request) -> Reply:
    """Answer as a runner that has nothing to do."""
    if isinstance(request, StatusOf):
        return StatusReply(status=STATUS)
    return Reply()


class Desk:
    """Serves one session; ``answer`` does what requests ask for."""

    def __init__(
        self, folder: Path, answer: Callable[[Request], Awaitable[Reply]] = no_work
    ) -> None:
        self._store = holdfast.open_store(folder / "home")
        self.session = self._store.create()
        self.path = folder / "desk.sock"
        self._answer = answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self._store.close()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Broadcaster]:
        self.broadcaster = broadcaster = Broadcaster(self.session)
        stop = broadcaster.listen()

        async def answer(request: Request) -> Reply:
            return await self._answer(request)

        greeting = Greeting(protocol=PROTOCOL, version="0", session=self.session.id, pid=1)
        self.server = server = Server(self.path, broadcaster, answer, greeting)
        await server.listen()
        try:
            yield broadcaster
        finally:
            stop()
            await server.close()

    async def raw(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self.path, limit=1 << 26)

    async def call(self) -> Caller:
        return Caller(await connect(self.path, {}))
