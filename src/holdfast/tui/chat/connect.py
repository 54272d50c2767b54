"""How a chat gets to its session's runner: in the background, or in this very process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.runtime.protocol.client import Connection, new_request_id
from holdfast.runtime.protocol.messages import Rename, SetModel
from holdfast.runtime.runner.spawn import connect_or_start
from holdfast.store.store import Store
from holdfast.tui.target import Target

if TYPE_CHECKING:
    from holdfast.runtime.runner.in_process import InProcessRunner

_COUNTS_FROM_START = (
    "This session is already running. --allow, --allow-all, --script and --chaos only apply when "
    "a runner starts. Stop it with /stop, then start the chat again."
)


class Access:
    """The way to one session. ``warn`` is told what a user has to know; from any thread."""

    def __init__(self, store: Store, target: Target, warn: Callable[[str], None]) -> None:
        self._store = store
        self._target = target
        self._warn = warn
        self._stack = AsyncExitStack()
        self._host: InProcessRunner | None = None
        self._is_first = True

    async def reach(self) -> Connection:
        """Return a connection to the session's runner, started if there is none.

        Raises:
            HoldfastError: there is none, and none can be started; says why.
        """
        if self._target.foreground:
            connection = await self._hosted()
        else:
            connection = await connect_or_start(self._target.launch, self._warn)
        first, self._is_first = self._is_first, False
        if first and not connection.skewed:
            await self._carry_over(connection)
        return connection

    async def leave(self, why: str) -> None:
        """Have a runner in this process save the turn and let go of the session, if there is one.

        Nothing is said to the terminal before that.
        """
        if self._host is not None:
            self._host.stop(why)
            await self._host.wait_stopped()

    async def close(self) -> None:
        """Let go of everything."""
        await self._stack.aclose()

    async def _hosted(self) -> Connection:
        if self._host is None:
            from holdfast.runtime.runner.in_process import hosted  # noqa: PLC0415  slow to import

            self._host = await self._stack.enter_async_context(
                hosted(self._target.launch, self._store)
            )
            if not self._host.here:
                self._warn("another process already runs this session; following it")
        return await self._host.connect()

    async def _carry_over(self, connection: Connection) -> None:
        """Ask a runner that was there before for what this chat was started with."""
        launch = self._target.launch
        wishes, here = launch.wishes, connection.is_new or self._is_hosted
        if self._target.title is not None and not launch.is_new:
            await self._ask(connection, Rename(id=new_request_id(), title=self._target.title))
        if here:
            return
        if wishes.allow or wishes.allow_all or wishes.script or wishes.chaos:
            self._warn(_COUNTS_FROM_START)
        if wishes.model or wishes.provider or wishes.base_url:
            switch = SetModel(
                id=new_request_id(),
                model=wishes.model,
                provider=wishes.provider,
                base_url=wishes.base_url,
            )
            await self._ask(connection, switch)

    @property
    def _is_hosted(self) -> bool:
        return self._host is not None and self._host.here

    async def _ask(self, connection: Connection, request: Rename | SetModel) -> None:
        try:
            await connection.request(request)
        except HoldfastError as error:
            self._warn(str(error))
