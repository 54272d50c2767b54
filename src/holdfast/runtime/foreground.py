"""A runner in the process of its own client: one process that ends with its terminal.

It is the very same runner, and listens as always: its client, and any other, speaks to it through
the socket. Signals are the client's; told to leave, the runner cancels and saves the turn, lets go
of the session, and says good-bye.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.runtime.control.address import socket_path
from holdfast.runtime.control.client import Connection, connect
from holdfast.runtime.preloading import preload
from holdfast.runtime.process import Begun, begin
from holdfast.runtime.wishes import Launch


class Host:
    """A session's runner, if it is in this process. ``here`` tells whether it is.

    If it is not, another process has the session, and whoever connects is one of its clients.
    """

    def __init__(self, path: Path, begun: Begun | None) -> None:
        self._path = path
        self._runner = None if begun is None else begun.runner
        self._living = None if begun is None else asyncio.ensure_future(begun.live())
        self._told = False

    @property
    def here(self) -> bool:
        """Whether it is in this process."""
        return self._living is not None

    @property
    def leaving(self) -> bool:
        """Whether it is here and on its way out, or has gone."""
        return self._runner is not None and self._runner.leaving is not None

    async def connect(self) -> Connection:
        """Return a connection to the runner, wherever it is.

        Raises:
            RunnerGone: it has left.
        """
        return await connect(self._path)

    def leave(self, why: str, *, insist: bool = False) -> None:
        """Have it leave, if it is here: cancelled and saved. To be told again changes nothing.

        Unless somebody insists: then neither commands nor room on a full disk are waited for. A
        terminal that goes is noticed in several ways, none of which is a wish for that.
        """
        if self._runner is None or (self._told and not insist):
            return
        self._runner.insisted = self._runner.insisted or (self._told and insist)
        self._told = True
        self._runner.leave(why)

    async def gone(self) -> int:
        """Return when it has let go of the session: 0, or the exit code of what kept it from it."""
        return 0 if self._living is None else await asyncio.shield(self._living)


@asynccontextmanager
async def hosted(launch: Launch) -> AsyncIterator[Host]:
    """Be the session's runner for as long as this lasts, unless another process is.

    Raises:
        HoldfastError: it cannot be; says why.
    """
    await asyncio.to_thread(preload)
    try:
        begun = await begin(launch)
    except OSError as error:
        raise StorageError(f"The session cannot be run here: {error}.") from error
    host = Host(socket_path(Path(launch.home), launch.session), begun)
    try:
        yield host
    finally:
        if not host.leaving:
            host.leave("its terminal has gone")
        await host.gone()
