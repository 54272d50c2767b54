"""A runner in the process of its client: one process, whose turns stop when it exits.

It is the same runner. Its own client connects without a socket file; clients of other processes
connect through one, unless the store is in memory. The client handles signals; when it stops the
runner, the turn is cancelled and saved and the session released.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.runtime.protocol.client import Connection, connect, connect_over
from holdfast.runtime.protocol.socket_path import socket_path
from holdfast.runtime.runner.launch_options import Launch
from holdfast.runtime.runner.main import LiveRunner, begin, preload
from holdfast.store.store import Store


class InProcessRunner:
    """A session's runner. ``here`` tells whether it is in this process.

    If it is not, another process runs the session, and connections go to that one.
    """

    def __init__(self, path: Path, begun: LiveRunner | None) -> None:
        self._path = path
        self._server = None if begun is None else begun.server
        self._runner = None if begun is None else begun.runner
        self._living = None if begun is None else asyncio.ensure_future(begun.live())
        self._stopped = False

    @property
    def here(self) -> bool:
        """Whether the runner is in this process."""
        return self._living is not None

    @property
    def stopping(self) -> bool:
        """Whether the runner is in this process, and is stopping or has stopped."""
        return self._runner is not None and self._runner.stopping is not None

    async def connect(self) -> Connection:
        """Return a connection to the runner, wherever it is.

        Raises:
            RunnerGone: it has stopped.
        """
        if self._server is None:
            return await connect(self._path)
        return await connect_over(await self._server.connect_here(), self._path.stem)

    def stop(self, why: str, *, insist: bool = False) -> None:
        """Stop the runner if it is in this process; a turn is cancelled and saved.

        Calling it again changes nothing, except with ``insist``: then neither commands nor room on
        a full disk are waited for. A closed terminal is noticed in several ways, none of which
        insists.
        """
        if self._runner is None or (self._stopped and not insist):
            return
        self._runner.force = self._runner.force or (self._stopped and insist)
        self._stopped = True
        self._runner.stop(why)

    async def wait_stopped(self) -> int:
        """Return when the session is released: 0, or the exit code of what went wrong."""
        return 0 if self._living is None else await asyncio.shield(self._living)


@asynccontextmanager
async def hosted(launch: Launch, store: Store) -> AsyncIterator[InProcessRunner]:
    """Run the session in this process inside the block, unless another process runs it.

    ``store`` has the session.

    Raises:
        HoldfastError: it cannot be run here; says why.
    """
    await asyncio.to_thread(preload)
    try:
        begun = await begin(launch, None if store.is_shared else store)
    except OSError as error:
        raise StorageError(f"The agent cannot be started in this process: {error}.") from error
    host = InProcessRunner(socket_path(Path(launch.home), launch.session), begun)
    try:
        yield host
    finally:
        if not host.stopping:
            host.stop("its terminal was closed")
        await host.wait_stopped()
