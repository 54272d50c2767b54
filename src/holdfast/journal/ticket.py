"""The promise for one append: it is on its way, and this is how to wait for it."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from threading import TIMEOUT_MAX, Lock
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.model.entry import Body, Entry, Position

if TYPE_CHECKING:
    import asyncio
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
    ids: Sequence[str | None] = ()
    """One for each draft; empty if no draft has one."""
    payloads: Sequence[bytes] = ()
    """Blobs to be written before the entries."""
    entries: Sequence[Entry] = ()
    """What the drafts became; numbered by the first attempt to write them."""
    error: HoldfastError | None = None
    refusals: int = 0
    """How often there was no room."""
    seen: bool = False
    """Whether somebody has been told of the error."""
    finishes_stream: bool = False
    trailer: Sequence[Entry] = ()
    """Lines of the journal's own that are written behind the entries."""
    callbacks: Sequence[Callable[[], None]] = ()
    known: bool = False
    """Whether the entries were there already, so that nothing was written; final once ``done``."""
    known_entries: Sequence[Entry] = ()
    """What the first drafts became earlier, if they were there already: they are not written."""
    expect_head: int | UnsetType | None = UNSET
    """Which entry has to be the head when the drafts are numbered."""

    @property
    def done(self) -> bool:
        """Whether the entries are durable, or never will be."""
        return self.writer is None

    @property
    def position(self) -> Position:
        """Where the last entry is, once it is durable."""
        position = self.entries[-1].position
        return replace(position, known=True) if self.known else position

    def wait(self, timeout_seconds: float | None = None) -> Position:
        """Return once the entries are durable.

        Raises:
            TimeoutError: they are not durable yet; they are still on their way.
            DiskFull: there is no room; they are still on their way.
            WriteFailed: they will never be durable.
        """
        writer = self.writer  # read once: it goes when the ticket is settled
        if writer is not None:
            if timeout_seconds is None:
                writer.wait(self)
            else:
                self._wait_beside(writer, timeout_seconds)
        return self._result()

    def _wait_beside(self, writer: Any, timeout_seconds: float) -> None:
        """Wait while others write: whoever writes cannot leave when the time is over."""
        gate = Lock()
        gate.acquire()
        refusals = writer.subscribe(self, gate.release)
        if not gate.acquire(timeout=min(max(timeout_seconds, 0), TIMEOUT_MAX)):
            raise TimeoutError("The entries are not durable yet: they are still being written.")
        if self.writer is not None and self.refusals > refusals:
            raise writer.disk_full()

    def _result(self) -> Position:
        if self.error is not None:
            self.seen = True
            raise self.error
        return self.position

    def __await__(self) -> Generator[Any, None, Position]:
        """Wait without blocking the event loop."""
        import asyncio  # noqa: PLC0415  whoever awaits has it; others are spared 20 ms

        loop = asyncio.get_running_loop()
        while True:
            writer = self.writer
            if writer is None:
                return self._result()
            future: asyncio.Future[None] = loop.create_future()
            refusals = writer.subscribe(self, partial(_wake, loop, future))
            yield from future
            if self.writer is not None and self.refusals > refusals:
                raise writer.disk_full()

    # For the writer, under its mutex. An interrupt may have a step done twice; none is left out.

    def settle(self, error: HoldfastError | None) -> None:
        """Tell that the entries are durable, or why they never will be."""
        self.error = error
        self.writer = None
        if self.callbacks:
            self._notify()

    def refuse(self) -> None:
        """Tell that there is no room."""
        self.refusals += 1
        if self.callbacks:
            self._notify()

    def _notify(self) -> None:
        for callback in self.callbacks:
            callback()
        self.callbacks = ()


class DuplicateTicket(Ticket, kw_only=True):
    """Stands for drafts that an earlier ticket, which may still wait, has brought already.

    ``last`` is the place of the last of them among the entries of ``original``.
    """

    original: Ticket
    last: int

    @property
    def done(self) -> bool:
        """Whether the original is."""
        return self.original.done

    @property
    def position(self) -> Position:
        """Where the last entry is, once it is durable."""
        entries = [*self.original.known_entries, *self.original.entries]
        return replace(entries[self.last].position, known=True)

    def wait(self, timeout_seconds: float | None = None) -> Position:
        """Wait for the original."""
        self.original.wait(timeout_seconds)
        return self.position

    def __await__(self) -> Generator[Any, None, Position]:
        """Wait for the original without blocking the event loop."""
        yield from self.original.__await__()
        return self.position


def _wake(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    """Have ``future`` end, from any thread; it may have been cancelled, and the loop closed."""

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    with suppress(RuntimeError):
        loop.call_soon_threadsafe(wake)
