"""A session with a broadcaster and a server in this process: for tests that need exact timing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import holdfast
from holdfast.runtime.protocol.broadcast import Broadcaster
from holdfast.runtime.protocol.client import connect
from holdfast.runtime.protocol.messages import Request
from holdfast.runtime.protocol.server import Server
from tests.runtime.runner.runner_clients import Caller


async def _nothing(_: Request) -> dict[str, Any]:
    return {}


class Desk:
    """Serves one session; ``answer`` does what requests ask for."""

    def __init__(
        self, folder: Path, answer: Callable[[Request], Awaitable[dict[str, Any]]] = _nothing
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

        async def answer(request: Request) -> dict[str, Any]:
            return await self._answer(request)

        self.server = server = Server(
            self.path, broadcaster, answer, {"session": self.session.id, "pid": 1}
        )
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
