"""The promise for one append: it is on its way, and this is how to wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from holdfast.journal.writer import Writer
    from holdfast.model.entry import Entry, Position


_DONE: Any = object()  # stands in for the writer once there is nothing left to wait for


class Ticket:
    """Stands for entries that were accepted and numbered but may not be durable yet.

    ``ticket.wait()`` blocks, ``await ticket`` does not; both return the ``Position`` of the last
    entry once it is durable. Giving up on a wait (a cancelled task, a time-out) does not withdraw
    the entries. While the disk is full both raise ``DiskFull``; the ticket stays good, is completed
    by itself when there is room, and may be waited for again.
    """

    __slots__ = (
        "_callbacks",
        "_observed",
        "_writer",
        "abandoned",
        "after",
        "entries",
        "error",
        "payloads",
        "refusals",
    )

    def __init__(self, writer: Writer | None, entries: list[Entry]) -> None:
        self._writer: Any = writer or _DONE
        self._callbacks: list[Callable[[], None]] = []
        self._observed = False
        self.entries = entries
        self.after: Any = None  # the state that these entries lead to; published with them
        self.error: HoldfastError | None = None
        self.refusals = 0
        self.abandoned = False  # its caller was told that the disk is full
        self.payloads: list[bytes] = []  # blobs to be written before the entries

    @property
    def done(self) -> bool:
        """Whether the entries are durable, or never will be."""
        return self.error is not None or self._writer is _DONE

    @property
    def position(self) -> Position:
        """Where the last entry is, or will be."""
        return self.entries[-1].position

    def wait(self, timeout_seconds: float | None = None) -> Position:
        """Return once the entries are durable.

        Raises:
            TimeoutError: they are not durable yet; they are still on their way.
            DiskFull: there is no room; they are still on their way.
            WriteFailed: they will never be durable.
        """
        if self._writer is not _DONE:
            self._writer.wait(self, timeout_seconds)
        return self._result()

    def _result(self) -> Position:
        if self.error is not None:
            self._observed = True
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

        refusals = self._writer.subscribe(self, settled)
        yield from future
        if not self.done and self.refusals > refusals:
            raise self._writer.disk_full()
        return self._result()

    # For the writer

    def settle(self, error: HoldfastError | None = None) -> None:
        """Mark as durable, or as failed."""
        self.error = error
        if error is None:
            self._writer = _DONE

    def notify(self) -> None:
        """Wake whoever awaits."""
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, at the next change."""
        self._callbacks.append(callback)

    @property
    def unseen_error(self) -> HoldfastError | None:
        """The error that nobody has been told yet."""
        return None if self._observed else self.error

    def mark_seen(self) -> None:
        """The error has been told."""
        self._observed = True
