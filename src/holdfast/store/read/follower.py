"""Entries and live text as they come, from this process or any other.

What is new is found by the medium's ``Watch``: it works beside a writer, after its death and across
compactions, and never returns an entry that a power cut could still take back. Text of a stream
whose message was delivered is not delivered any more.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from holdfast.model.message import Message

if TYPE_CHECKING:
    from typing import Self

    from holdfast.model.entry import Entry
    from holdfast.model.event import Event
    from holdfast.store.backend import Backend, Ref

_POLL_SECONDS = 0.05


class Follower:
    """An endless iterator over what is appended to a session; also an asynchronous one.

    Yields ``Entry`` for what is durable and, with ``live``, ``Event`` for what is being streamed.
    An entry whose message carries a stream's name takes the place of that stream's events.
    """

    def __init__(self, backend: Backend, ref: Ref, after: int, *, live: bool, wait: bool) -> None:
        self._backend = backend
        self._ref = ref
        self._watch = backend.watch(ref, after)
        self._after = after
        self._live = live
        self._wait = wait
        self._ready: deque[Entry | Event] = deque()
        self._finished: set[str] = set()
        self._events: list[Event] = []  # read and not delivered yet
        self._shown: dict[str, int] = {}  # characters delivered of each stream

    @property
    def after(self) -> int:
        """Number of the last entry that was delivered."""
        return self._after

    def poll(self) -> list[Entry | Event]:
        """Return what is new, without waiting.

        Raises:
            StorageError: it cannot be read; asking again is allowed.
        """
        with self._backend.errors("cannot be followed", self._ref):
            self._events += self._new_events()
            entries = self._watch.entries()
        if entries:
            self._after = entries[-1].seq
        for entry in entries:
            if isinstance(entry.body, Message) and entry.body.stream is not None:
                self._finished.add(entry.body.stream)
        events, self._events = self._events, []
        return [*(event for event in events if event.stream not in self._finished), *entries]

    def _new_events(self) -> list[Event]:
        if not self._live:
            return []
        found, is_new = self._watch.live()
        events = found
        if is_new:
            # Emptied, then only new streams are in it; or rewritten, then with all that is running.
            events = _without(self._shown, events)
            self._shown, self._finished = {}, set()
        for event in found:
            self._shown[event.stream] = self._shown.get(event.stream, 0) + len(event.text)
        return events

    def close(self) -> None:
        """Let go of what is open; an iteration ends."""
        self._watch.close()
        self._wait = False

    def __enter__(self) -> Self:
        """Return the follower."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def __iter__(self) -> Self:
        """Return the follower."""
        return self

    def __next__(self) -> Entry | Event:
        """Return the next entry or event, waiting for it unless ``wait`` was false."""
        while not self._ready:
            self._ready.extend(self.poll())
            if not self._ready:
                if not self._wait:
                    self.close()
                    raise StopIteration
                self._watch.wait(_POLL_SECONDS)
        return self._ready.popleft()

    def __aiter__(self) -> Self:
        """Return the follower."""
        return self

    async def __anext__(self) -> Entry | Event:
        """Return the next entry or event without blocking the event loop."""
        import asyncio  # noqa: PLC0415  as in Ticket

        while not self._ready:
            self._ready.extend(await asyncio.to_thread(self.poll))
            if not self._ready:
                if not self._wait:
                    self.close()
                    raise StopAsyncIteration
                await asyncio.sleep(_POLL_SECONDS)
        return self._ready.popleft()


def _without(known: dict[str, int], events: list[Event]) -> list[Event]:
    """Leave out as many characters at the beginning of each stream as are known of it."""
    left = dict(known)
    new = []
    for event in events:
        skipped = min(left.get(event.stream, 0), len(event.text))
        if skipped:
            left[event.stream] -= skipped
        if skipped < len(event.text):
            new.append(msgspec.structs.replace(event, text=event.text[skipped:]))
    return new
