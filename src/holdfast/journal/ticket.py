"""The promise for one append: it is on its way, and this is how to wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.model.entry import Body, Entry, Position

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

Draft = tuple[str, Body, bytes]
"""A body on its way to become an entry: its type, itself, and its JSON."""


class Ticket(Struct, eq=False):
    """Stands for entries that were accepted but may not be durable yet.

    ``ticket.wait()`` blocks, ``await ticket`` does not; both return the ``Position`` of the last
    entry once it is durable. Giving up on a wait (a cancelled task, a time-out) does not withdraw
    the entries. While the disk is full both raise ``DiskFull``; the ticket stays good, is completed
    by itself when there is room, and may be waited for again.
    """

    writer: Any
    """Whom to wait for; ``None`` once there is nothing to wait for."""
    drafts: list[Draft]
    id: str | None = None
    entries: Sequence[Entry] = ()
    """What the drafts became; numbered by the first attempt to write them."""
    error: HoldfastError | None = None
    refusals: int = 0
    """How often there was no room."""
    abandoned: bool = False
    """Whether its caller was told that the disk is full."""
    seen: bool = False
    """Whether somebody has been told of the error."""
    finishes_stream: bool = False
    payloads: Sequence[bytes] = ()
    """Blobs to be written before the entries."""
    callbacks: Sequence[Callable[[], None]] = ()

    @property
    def done(self) -> bool:
        """Whether the entries are durable, or never will be."""
        return self.writer is None

    @property
    def position(self) -> Position:
        """Where the last entry is, once it is durable."""
        return self.entries[-1].position

    def wait(self, timeout_seconds: float | None = None) -> Position:
        """Return once the entries are durable.

        Raises:
            TimeoutError: they are not durable yet; they are still on their way.
            DiskFull: there is no room; they are still on their way.
            WriteFailed: they will never be durable.
        """
        if self.writer is not None:
            self.writer.wait(self, timeout_seconds)
        return self._result()

    def _result(self) -> Position:
        if self.error is not None:
            self.seen = True
            raise self.error
        return self.position

    def __await__(self) -> Generator[Any, None, Position]:
        """Wait without blocking the event loop."""
        import asyncio  # noqa: PLC0415  whoever awaits has it; others are spared 20 ms

        if self.done:
            return self._result()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        def settled() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(wake)

        writer = self.writer
        refusals = writer.subscribe(self, settled)
        yield from future
        if not self.done and self.refusals > refusals:
            raise writer.disk_full()
        return self._result()

    def notify(self) -> None:
        """Wake whoever awaits. For the writer."""
        callbacks, self.callbacks = self.callbacks, ()
        for callback in callbacks:
            callback()
