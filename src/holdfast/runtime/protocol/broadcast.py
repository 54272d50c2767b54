"""Sends a runner's events to all its subscribers, each at its own pace.

A subscriber that attaches first gets the entries of the journal, read for it alone, then the text
that is being streamed; once it has caught up it gets every event as it happens. Nothing is missed
or repeated in between: it catches up to the last entry that all the others were sent, and never
past it. Broadcasting waits for no subscriber: one whose queue is full is dropped, and continues
after the last entry it has when it attaches again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from msgspec import Raw

from holdfast.model.entry import Entry
from holdfast.model.event import Event
from holdfast.model.message import Message
from holdfast.runtime.protocol.messages import (
    CaughtUp,
    EntryEvent,
    LiveText,
    RunnerEvent,
    encode,
)
from holdfast.runtime.protocol.subscriber import Subscriber
from holdfast.store.read.follower import Follower
from holdfast.store.session import Session

_PORTION_BYTES = 1024 * 1024  # how much history is read and sent at once
_MOST_FINISHED = 1000


class Broadcaster:
    """All subscribers of one runner. All of it runs on the event loop."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._seq = session.seq
        self._moved = asyncio.Event()
        self._streams: dict[str, list[bytes]] = {}
        self._lengths: dict[str, int] = {}
        self._finished: deque[str] = deque(maxlen=_MOST_FINISHED)
        self._early: deque[tuple[Event, int]] = deque()
        self._on_attach: list[Callable[[Subscriber], None]] = []
        self._on_disconnect: list[Callable[[Subscriber], None]] = []
        self._listeners: list[Callable[[Entry], None]] = []
        self.clients: set[Subscriber] = set()

    def listen(self) -> Callable[[], None]:
        """Broadcast every entry and live event of the session; return a function that stops it."""
        loop = asyncio.get_running_loop()

        def entry(entry: Entry) -> None:
            loop.call_soon_threadsafe(self._entry, entry)

        def live(event: Event) -> None:
            loop.call_soon_threadsafe(self._live, event, self._session.seq)

        ends = (self._session.on_entry(entry), self._session.on_live(live))

        def stop() -> None:
            for end in ends:
                end()

        return stop

    def on_attach(self, send_state: Callable[[Subscriber], None]) -> None:
        """Call ``send_state`` with each subscriber that has caught up."""
        self._on_attach.append(send_state)

    def on_disconnect(self, disconnected: Callable[[Subscriber], None]) -> None:
        """Call ``disconnected`` with each subscriber that is gone."""
        self._on_disconnect.append(disconnected)

    def on_entry(self, heard: Callable[[Entry], None]) -> None:
        """Call ``heard`` with each entry, after it was queued for all subscribers."""
        self._listeners.append(heard)

    def disconnect(self, client: Subscriber) -> None:
        """Forget a subscriber that is gone."""
        self.clients.discard(client)
        for disconnected in self._on_disconnect:
            disconnected(client)

    @property
    def seq(self) -> int:
        """The last entry that was broadcast."""
        return self._seq

    @property
    def present(self) -> bool:
        """Whether a terminal that can answer questions is attached."""
        return any(client.attached and client.answers for client in self.clients)

    @property
    def terminals(self) -> bool:
        """Whether a terminal is connected; it may still be catching up."""
        return any(client.answers and not client.dropped for client in self.clients)

    def broadcast(self, event: RunnerEvent) -> None:
        """Send an event to every attached subscriber."""
        line = encode(event)
        for client in self.clients:
            if client.attached:
                client.send(line)

    async def wait_until_sent(self, seq: int) -> None:
        """Return when the entry numbered ``seq`` has been broadcast."""
        while self._seq < seq:
            self._moved.clear()
            await self._moved.wait()

    # Catching up

    async def attach(self, client: Subscriber, after: int, *, live: bool, answers: bool) -> None:
        """Send a subscriber what it has missed, then every event as it happens.

        Raises:
            StorageError: the journal cannot be read.
        """
        client.attached = False
        client.after, client.live, client.answers = after, live, answers
        shown: dict[str, int] = {}
        await self._send_history(client)
        client.send(encode(CaughtUp(seq=client.after)))
        while not client.dropped:
            await self._send_history(client)
            lines = self._unseen(shown) if live else []
            if not lines:
                break  # nothing can happen before it is attached: nothing is awaited until then
            await client.send_all(lines)
        if client.dropped:
            return
        client.attached = True
        for send_state in self._on_attach:
            send_state(client)

    def detach(self, client: Subscriber) -> None:
        """Send a subscriber no more events; if it disconnects after this, that is no hang-up."""
        client.attached = client.answers = False

    async def _send_history(self, client: Subscriber) -> None:
        """Send entries up to the last one that was broadcast."""
        while client.after < self._seq and not client.dropped:
            upto = self._seq
            with self._session.follow(client.after, wait=False) as follower:
                while client.after < upto and not client.dropped:
                    entries = await asyncio.to_thread(_some, follower)
                    if not entries:
                        break
                    known = [entry for entry in entries if client.after < entry.seq <= upto]
                    await client.send_all([_entry_line(entry) for entry in known])
                    client.after = max(client.after, min(entries[-1].seq, upto))
            client.after = max(client.after, upto)  # entries that cannot be read are skipped

    def _unseen(self, shown: dict[str, int]) -> list[bytes]:
        """Return some lines of the running streams; ``shown`` counts those taken of each."""
        lines: list[bytes] = []
        size = 0
        for stream, known in self._streams.items():
            for line in known[shown.get(stream, 0) :]:
                lines.append(line)
                shown[stream] = shown.get(stream, 0) + 1
                size += len(line)
                if size >= _PORTION_BYTES:
                    return lines
        return lines

    # Events

    def _entry(self, entry: Entry) -> None:
        self._seq = max(self._seq, entry.seq)
        self._moved.set()
        if isinstance(entry.body, Message) and entry.body.stream is not None:
            self._finish(entry.body.stream)
        line = _entry_line(entry)
        for client in self.clients:
            if client.attached and entry.seq > client.after:
                client.after = entry.seq
                client.send(line)
        for heard in self._listeners:
            heard(entry)
        while self._early and self._early[0][1] <= self._seq:
            self._send_live(self._early.popleft()[0])

    def _finish(self, stream: str) -> None:
        self._streams.pop(stream, None)
        self._lengths.pop(stream, None)
        self._finished.append(stream)

    def _live(self, event: Event, behind: int) -> None:
        """Send live text, but not before the entries up to ``behind``, which came before it.

        Entries come from several threads, so text that answers a prompt may overtake the prompt.
        """
        if self._early or behind > self._seq:
            self._early.append((event, behind))
        else:
            self._send_live(event)

    def _send_live(self, event: Event) -> None:
        if event.stream in self._finished:
            return  # it came late: the entry has all of its text
        length = self._lengths.get(event.stream, 0)
        self._lengths[event.stream] = length + len(event.text)
        line = encode(
            LiveText(
                stream=event.stream,
                at=length,
                kind=event.kind,
                text=event.text,
                call_id=event.call_id,
                name=event.name,
            )
        )
        self._streams.setdefault(event.stream, []).append(line)
        for client in self.clients:
            if client.attached and client.live:
                client.send(line)


def _entry_line(entry: Entry) -> bytes:
    return encode(EntryEvent(entry=Raw(entry.line)))


def _some(follower: Follower) -> list[Entry]:
    """Return the next entries, about a megabyte of them."""
    entries: list[Entry] = []
    size = 0
    for entry in follower:
        if isinstance(entry, Entry):
            entries.append(entry)
            size += len(entry.line)
            if size >= _PORTION_BYTES:
                break
    return entries
