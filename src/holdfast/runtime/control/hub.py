"""What a runner tells its clients: entries, live text, questions, notes; to each at its own pace.

A client that attaches first gets what is in the journal, read for it alone, then what is being
streamed; once it has caught up it hears everything as it happens. The hand-over has neither gap nor
duplicate: a client catches up to the last entry that was handed on to all the others, and never
past it. Nobody is waited for: a client whose queue is full has stalled, is dropped, and continues
from the last number it saw when it comes back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from holdfast.model.entry import Entry
from holdfast.model.event import Event
from holdfast.model.message import Message
from holdfast.runtime.control.protocol import encode, entry_line, live_line
from holdfast.runtime.control.seat import Client
from holdfast.store.follower import Follower
from holdfast.store.session import Session

_PORTION_BYTES = 1024 * 1024  # what a client that catches up is given at once
_MOST_FINISHED = 1000


class Hub:
    """All clients of one runner. Used on the event loop; ``listen`` hears from other threads."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._seq = session.state.seq
        self._moved = asyncio.Event()
        self._streams: dict[str, list[bytes]] = {}
        self._lengths: dict[str, int] = {}
        self._finished: deque[str] = deque(maxlen=_MOST_FINISHED)
        self._early: deque[tuple[Event, int]] = deque()
        self._greetings: list[Callable[[Client], None]] = []
        self._partings: list[Callable[[Client], None]] = []
        self._listeners: list[Callable[[Entry], None]] = []
        self.clients: set[Client] = set()

    def listen(self) -> Callable[[], None]:
        """Hear of everything that happens in the session; returns a function that ends it."""
        loop = asyncio.get_running_loop()

        def entry(entry: Entry) -> None:
            loop.call_soon_threadsafe(self._entry, entry)

        def live(event: Event) -> None:
            loop.call_soon_threadsafe(self._live, event, self._session.state.seq)

        ends = (self._session.on_entry(entry), self._session.on_live(live))

        def stop() -> None:
            for end in ends:
                end()

        return stop

    def on_attach(self, greet: Callable[[Client], None]) -> None:
        """Have ``greet`` called with each client that has caught up."""
        self._greetings.append(greet)

    def on_part(self, parted: Callable[[Client], None]) -> None:
        """Have ``parted`` called with each client that has gone."""
        self._partings.append(parted)

    def on_entry(self, heard: Callable[[Entry], None]) -> None:
        """Have ``heard`` called with each entry, behind all clients."""
        self._listeners.append(heard)

    def part(self, client: Client) -> None:
        """Forget a client that has gone."""
        self.clients.discard(client)
        for parted in self._partings:
            parted(client)

    @property
    def seq(self) -> int:
        """The last entry that was handed on."""
        return self._seq

    @property
    def present(self) -> bool:
        """Whether anybody is there who can answer a question."""
        return any(client.attached and client.answers for client in self.clients)

    @property
    def terminals(self) -> bool:
        """Whether any terminal is connected, be it that it is still catching up."""
        return any(client.answers and not client.dropped for client in self.clients)

    def broadcast(self, message: dict[str, Any]) -> None:
        """Tell everybody who is attached."""
        line = encode(message)
        for client in self.clients:
            if client.attached:
                client.send(line)

    async def heard(self, seq: int) -> None:
        """Return when the entry numbered ``seq`` has been handed on."""
        while self._seq < seq:
            self._moved.clear()
            await self._moved.wait()

    # Catching up

    async def attach(self, client: Client, after: int, *, live: bool, answers: bool) -> None:
        """Bring a client up to date, then let it hear what happens.

        Raises:
            StorageError: the journal cannot be read.
        """
        client.attached = False
        client.after, client.live, client.answers = after, live, answers
        shown: dict[str, int] = {}
        await self._send_history(client)
        client.send(encode({"type": "caught_up", "seq": client.after}))
        while not client.dropped:
            await self._send_history(client)
            lines = self._unseen(shown) if live else []
            if not lines:
                break  # and nothing can come in between: this is the event loop
            await client.send_all(lines)
        if client.dropped:
            return
        client.attached = True
        for greet in self._greetings:
            greet(client)

    def detach(self, client: Client) -> None:
        """Let a client hear no more; that it goes then means nothing."""
        client.attached = client.answers = False

    async def _send_history(self, client: Client) -> None:
        """Send entries up to the last one that everybody was told of."""
        while client.after < self._seq and not client.dropped:
            upto = self._seq
            with self._session.follow(client.after, wait=False) as follower:
                while client.after < upto and not client.dropped:
                    entries = await asyncio.to_thread(_some, follower)
                    if not entries:
                        break
                    known = [entry for entry in entries if client.after < entry.seq <= upto]
                    await client.send_all([entry_line(entry.line) for entry in known])
                    client.after = max(client.after, min(entries[-1].seq, upto))
            client.after = max(client.after, upto)  # what cannot be read is passed over

    def _unseen(self, shown: dict[str, int]) -> list[bytes]:
        """Return a portion of what is being streamed; ``shown`` counts what was taken of each."""
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

    # What happens

    def _entry(self, entry: Entry) -> None:
        self._seq = max(self._seq, entry.seq)
        self._moved.set()
        if isinstance(entry.body, Message) and entry.body.stream is not None:
            self._finish(entry.body.stream)
        line = entry_line(entry.line)
        for client in self.clients:
            if client.attached and entry.seq > client.after:
                client.after = entry.seq
                client.send(line)
        for heard in self._listeners:
            heard(entry)
        while self._early and self._early[0][1] <= self._seq:
            self._tell_live(self._early.popleft()[0])

    def _finish(self, stream: str) -> None:
        self._streams.pop(stream, None)
        self._lengths.pop(stream, None)
        self._finished.append(stream)

    def _live(self, event: Event, behind: int) -> None:
        """Tell live text, but not before the entries up to ``behind``, which came before it.

        Entries are handed on by whichever thread is at it; text that answers a prompt may overtake
        the prompt.
        """
        if self._early or behind > self._seq:
            self._early.append((event, behind))
        else:
            self._tell_live(event)

    def _tell_live(self, event: Event) -> None:
        if event.stream in self._finished:
            return  # written late: the entry had it all
        length = self._lengths.get(event.stream, 0)
        self._lengths[event.stream] = length + len(event.text)
        line = live_line(event, length)
        self._streams.setdefault(event.stream, []).append(line)
        for client in self.clients:
            if client.attached and client.live:
                client.send(line)


def _some(follower: Follower) -> list[Entry]:
    """Return the next entries, a portion of them."""
    entries: list[Entry] = []
    size = 0
    for entry in follower:
        if isinstance(entry, Entry):
            entries.append(entry)
            size += len(entry.line)
            if size >= _PORTION_BYTES:
                break
    return entries
