"""Text that is being streamed, and what a crash left of it.

``write`` puts text into the live file within 50 ms, before anybody else can see it; the file is
synced within a second. ``finish`` turns the stream into one message, in the journal like any
other. What a process that died had written becomes a message with ``stop: interrupted`` (or a
tool result with outcome ``unknown``) when the session is opened next.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import HoldfastError, UsageError
from holdfast.model.codec import loads
from holdfast.model.event import Event
from holdfast.model.ids import new_name
from holdfast.model.message import AnyPart, Message, Text, Thinking, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from types import TracebackType
    from typing import Self

    from holdfast.journal.ticket import Ticket
    from holdfast.model.entry import Body, Position
    from holdfast.store.backend import LiveLog

_LOG = logging.getLogger("holdfast")
LARGEST_LIVE_BYTES = 4 * 1024 * 1024
_WRITE_WITHIN_SECONDS = 0.05
_RETRY_SECONDS = 1.0
_SYNC_WITHIN_SECONDS = 0.5  # the promise is one second; the sync itself takes time

KINDS = frozenset({"text", "thinking", "tool_call", "tool_output"})


class Stream:
    """One message in the making. Made by ``session.stream``; use it in a ``with`` block.

    Leaving the block without ``finish`` finishes it: with stop ``end``, or ``interrupted`` if an
    exception passes through.
    """

    def __init__(self, streams: Streams, first: Event) -> None:
        self._streams = streams
        self._first = first
        self.events: list[Event] = []
        self._finished = False

    @property
    def name(self) -> str:
        """The stream's name, which the finished message carries."""
        return self._first.stream

    def write(
        self,
        text: str,
        *,
        kind: str | None = None,
        call_id: str | None = None,
        name: str | None = None,
    ) -> None:
        """Add text. ``kind`` is text, thinking, tool_call (with ``call_id`` and ``name``)."""
        if self._finished:
            raise UsageError("This stream is finished. Start a new one with session.stream().")
        kind = kind or self._first.kind
        if kind not in KINDS or not isinstance(text, str):
            raise UsageError(
                f"The kind of streamed text must be one of {', '.join(sorted(KINDS))}."
            )
        event = msgspec.structs.replace(
            self._first,
            kind=kind,
            text=text,
            call_id=call_id or self._first.call_id,
            name=name or self._first.name,
        )
        with self._streams.lock:
            self.events.append(event)
            self._streams.written(event)

    def finish(
        self, stop: str = "end", content: list[AnyPart] | None = None, **fields: Any
    ) -> Position:
        """Make the stream one durable message. See ``submit``."""
        return self._streams.settle(self.submit(stop, content, **fields))

    def submit(
        self,
        stop: str = "end",
        content: list[AnyPart] | None = None,
        *,
        along: Sequence[Body] = (),
        **fields: Any,
    ) -> Ticket:
        """Finish without waiting: returns a ticket to wait for or to await.

        Args:
            stop: how the message ended. A tool's output ends with the outcome of that name
                (``end`` means completed, ``interrupted`` unknown).
            content: the exact parts, where they are more than the text that was written
                (signatures, parsed arguments).
            along: what is written behind the message, in the same atomic batch.
            fields: further fields of the message, such as ``request``.
        """
        with self._streams.lock:
            if self._finished:
                raise UsageError("This stream is already finished.")
            message = assemble(self._first, self.events, stop)
            if content is not None:
                message = msgspec.structs.replace(message, content=content)
            ticket = self._streams.append([msgspec.structs.replace(message, **fields), *along])
            self._finished = True
        return ticket

    def interrupt(self) -> None:
        """Finish as interrupted, unless it is finished or nothing was ever written."""
        with self._streams.lock:
            if not self._finished and self.events:
                self.submit("interrupted")

    def __enter__(self) -> Self:
        """Return the stream."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Finish the stream if the block did not."""
        if not self._finished:
            self.finish("end" if kind is None else "interrupted")

    async def __aenter__(self) -> Self:
        """Return the stream."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Finish the stream if the block did not."""
        if not self._finished:
            await self.submit("end" if kind is None else "interrupted")


class Streams:
    """All running streams of a session, and the live file they share.

    A stream runs until its message is durable: only then may its text leave the live file.
    """

    def __init__(
        self,
        open_file: Callable[[], LiveLog],
        append: Callable[[Sequence[Body]], Ticket],
        settle: Callable[[Ticket], Position],
    ) -> None:
        self.lock = threading.RLock()
        self._open_file = open_file
        self.append = append
        self.settle = settle
        self._closed = False
        self._left: set[str] = set()  # streams of an earlier process, not durable as entries yet
        self._file: LiveLog | None = None
        self._running: list[Stream] = []
        self._unwritten: list[Event] = []
        self._write_due: float | None = None
        self._sync_due: float | None = None
        self._last_write = 0.0
        self._distrusted = False  # whether a sync of the file failed
        self._needed_bytes = 0  # size after the last rewrite: it takes twice that to pay again
        self.wake: Callable[[], None] = lambda: None
        self.listeners: list[Callable[[Event], None]] = []
        """Told of each piece of text once it is in the file, in order, under the lock."""

    def begin(self, first: Event) -> Stream:
        """Begin a stream."""
        stream = Stream(self, first)
        with self.lock:
            self._check_open()
            self._running.append(stream)
        return stream

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("This session is closed; open it again to stream.")

    def written(self, event: Event) -> None:
        """Take an event: into the file now, or together with what follows in the next 50 ms."""
        with self.lock:
            self._check_open()
            self._unwritten.append(event)
            now = time.monotonic()
            if self._write_due is None:
                self._write_due = max(now, self._last_write + _WRITE_WITHIN_SECONDS)
            if self._write_due <= now:
                self._write(now)
        self.wake()

    def _write(self, now: float) -> None:
        try:
            if self._file is None:
                self._file = self._open_file()
            self._file.append(_joined(self._unwritten))
        except (OSError, HoldfastError):
            # Not shown to anybody yet, and still in memory: the finished message will carry it, or
            # fail loudly. Try again with the next text.
            self._write_due = now + _RETRY_SECONDS
            return
        self._written()
        self._last_write, self._write_due = now, None
        if self._sync_due is None:
            self._sync_due = now + _SYNC_WITHIN_SECONDS
        if self._file.size_bytes > max(LARGEST_LIVE_BYTES, 2 * self._needed_bytes):
            self._shrink(self._file)

    def _written(self) -> None:
        """Show what is in the file by now."""
        events, self._unwritten = self._unwritten, []
        if self.listeners:
            for event in _joined(events):
                for listener in list(self.listeners):
                    try:
                        listener(event)
                    except Exception:  # noqa: BLE001  other people's code; the text is safe
                        _LOG.exception("A listener failed on live text")

    def _shrink(self, file: LiveLog) -> None:
        with suppress(OSError):  # the old one is still there
            self._rewrite(file)

    def _rewrite(self, file: LiveLog) -> None:
        if not self._left:  # their text is in the file only
            file.rewrite(_joined(event for stream in self._running for event in stream.events))
            self._written()
            self._write_due, self._needed_bytes = None, file.size_bytes

    def work(self) -> float | None:
        """Do what is due; return the seconds until the next thing is."""
        with self.lock:
            now = time.monotonic()
            if self._write_due is not None and self._write_due <= now and self._unwritten:
                self._write(now)
            due = self._file is not None and self._sync_due is not None and self._sync_due <= now
            if due:
                self._sync_due = None
            file = self._file
        if due and file is not None:
            self._sync(file)
        with self.lock:
            times = [at for at in (self._write_due, self._sync_due) if at is not None]
            return max(0.0, min(times) - time.monotonic()) if times else None

    def _sync(self, file: LiveLog) -> None:
        """Sync without the lock, so that nobody who streams waits for the disk."""
        try:
            if not self._distrusted:
                file.sync()
                return
        except OSError:
            pass
        # After a failed sync the pages may be gone, and the next sync would not say so: everything
        # that still counts goes into a new file, from memory; again and again until it does.
        with self.lock:
            self._distrusted = True
            try:
                if self._file is file:
                    self._rewrite(file)
                    self._distrusted = bool(self._left)
            except OSError:
                pass
            if self._distrusted:
                self._sync_due = time.monotonic() + _RETRY_SECONDS

    def settled(self, names: Collection[str]) -> None:
        """Let streams go whose messages are durable; empty the live file after the last one."""
        with self.lock:
            self._left.difference_update(names)
            self._running = [stream for stream in self._running if stream.name not in names]
            self._unwritten = [event for event in self._unwritten if event.stream not in names]
            if not self._unwritten:
                self._write_due = None
            if self._file is not None and not self._running and not self._left:
                self._sync_due, self._needed_bytes, self._distrusted = None, 0, False
                with suppress(OSError):  # finished streams in it are recognised by their names
                    self._file.clear()

    def adopt(self, names: Collection[str]) -> None:
        """Take over the live file of an earlier process, with streams that are yet to be kept."""
        with self.lock, suppress(OSError):
            self._left.update(names)
            self._file = self._open_file()

    def drop_finished(self) -> None:
        """Rewrite the live file without streams that are entries by now.

        Their names in the journal are what keeps them from coming back; a compaction may drop them.

        Raises:
            OSError: they are still in it.
        """
        with self.lock:
            if self._file is None:
                self._file = self._open_file()
            if self._running or self._left:
                self._rewrite(self._file)
            else:
                self._file.clear()
                self._file.sync()  # or a power cut brings the text back

    def leave_to_parent(self) -> None:
        """In a forked child: take nothing more, whoever held the lock."""
        self.lock = threading.RLock()
        self._closed = True
        self._file = None

    def interrupt_all(self) -> None:
        """Finish every running stream as interrupted."""
        for stream in list(self._running):
            stream.interrupt()

    def close(self) -> None:
        """Close the live file; streams take nothing more."""
        with self.lock:
            self._closed = True
            if self._file is not None:
                self._file.close()
                self._file = None


def new_stream(
    after: int, *, kind: str, call_id: str | None, name: str | None, model: str | None
) -> Event:
    """Return the pattern that all events of a new stream follow."""
    return Event(new_name(), kind, after, "", call_id=call_id, name=name, model=model)


def _joined(events: Iterable[Event]) -> list[Event]:
    """Join neighbouring text of the same stream, kind and call."""
    runs: list[tuple[Event, list[str]]] = []
    for event in events:
        last = runs[-1][0] if runs else None
        if (
            last is not None
            and (last.stream, last.kind, last.call_id) == (event.stream, event.kind, event.call_id)
            and (last.after, last.name, last.model) == (event.after, event.name, event.model)
        ):
            runs[-1][1].append(event.text)
        else:
            runs.append((event, [event.text]))
    return [msgspec.structs.replace(event, text="".join(texts)) for event, texts in runs]


def assemble(first: Event, events: list[Event], stop: str) -> Message:
    """Make the message that a stream's events amount to."""
    pieces = _joined(sorted(events, key=_place_of(events)))
    if first.kind == "tool_output":
        outcome = {"end": "completed", "interrupted": "unknown"}.get(stop, stop)
        text: list[AnyPart] = [Text(text=piece.text) for piece in pieces]
        result = ToolResult(call_id=first.call_id or "", content=text, outcome=outcome)
        return Message(role="tool", content=[result], stream=first.stream)
    content = [_part(piece) for piece in pieces]
    return Message(
        role="assistant", content=content, model=first.model, stop=stop, stream=first.stream
    )


def _place_of(events: list[Event]) -> Callable[[Event], int]:
    """Order events so that pieces of parallel tool calls come together, first come first."""
    first_seen: dict[tuple[str, str | None], int] = {}
    for number, event in enumerate(events):
        if event.kind == "tool_call":
            first_seen.setdefault((event.kind, event.call_id), number)
    places = {
        id(event): first_seen.get((event.kind, event.call_id), number)
        for number, event in enumerate(events)
    }
    return lambda event: places[id(event)]


def _part(piece: Event) -> AnyPart:
    if piece.kind == "thinking":
        return Thinking(text=piece.text)
    if piece.kind != "tool_call":
        return Text(text=piece.text)
    arguments, partial = None, None
    try:
        arguments = loads(piece.text.encode())
    except (ValueError, RecursionError):
        partial = piece.text  # it broke off: kept for people, never sent or run
    return ToolCall(
        id=piece.call_id or "", name=piece.name or "", arguments=arguments, partial=partial
    )


def unfinished(events: list[Event], finished: set[str]) -> list[Message]:
    """Return the messages that the streams nobody finished amount to, in order of beginning."""
    streams: dict[str, list[Event]] = {}
    for event in events:
        if event.stream not in finished:
            streams.setdefault(event.stream, []).append(event)
    return [assemble(parts[0], parts, "interrupted") for parts in streams.values()]
