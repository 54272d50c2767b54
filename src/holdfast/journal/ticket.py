"""The promise for one append: it is on its way, and this is how to wait for it."""

from __future__ import annotations

import os
from functools import partial
from threading import TIMEOUT_MAX, Lock, RLock
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
            refusals = writer.subscribe(self, partial(_WAKER.wake, loop, future))
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


class _Inbox(Struct):
    """Futures of one event loop that are to end when it runs next."""

    futures: list[asyncio.Future[None]]
    announced: bool = False


class LoopWaker:
    """Ends futures of event loops from any thread, with one wake-up for all that end together."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all: in a forked child the lock may be held, and the loops are the parent's."""
        self._mutex = RLock()  # reentrant: a signal handler may append, too
        self._inboxes: dict[asyncio.AbstractEventLoop, _Inbox] = {}

    def wake(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
        """Have ``future`` end; it may have been cancelled, and the loop closed."""
        with self._mutex:
            inbox = self._inboxes.get(loop)
            if inbox is None:
                self._forget_closed()
                inbox = self._inboxes[loop] = _Inbox([])
            inbox.futures.append(future)
            if not inbox.announced:
                try:
                    loop.call_soon_threadsafe(self._end, loop)
                except RuntimeError:  # closed
                    del self._inboxes[loop]
                    return
                inbox.announced = True  # last: an interrupt before it only wakes the loop twice

    def _forget_closed(self) -> None:
        """Forget loops that were closed before they ran again."""
        for loop in [loop for loop in self._inboxes if loop.is_closed()]:
            del self._inboxes[loop]

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        """End the futures. Called by the loop."""
        with self._mutex:
            inbox = self._inboxes.pop(loop, None)
        for future in inbox.futures if inbox is not None else ():
            if not future.done():
                future.set_result(None)


_WAKER = LoopWaker()
os.register_at_fork(after_in_child=_WAKER.reset)
