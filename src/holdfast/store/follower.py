"""Entries and live text as they come, from this process or any other.

A follower asks for nothing but files: it works beside a writer, after its death, across
continuation files and compactions (it notices another inode or a shorter file, opens again and
skips by number). It never delivers an entry that a power cut could still take back: what lies
beyond the writer's durable offset it syncs itself first.
"""

from __future__ import annotations

import time
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from holdfast.journal.live import NOTHING_LIVE, read_live
from holdfast.journal.lock import durable_size
from holdfast.journal.names import segment_name
from holdfast.journal.reader import Journal
from holdfast.journal.repair import examine, without_torn_end
from holdfast.model.entry import Entry
from holdfast.model.message import Message
from holdfast.store.refusals import os_errors

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from holdfast.journal.files import Files
    from holdfast.model.event import Event

_POLL_SECONDS = 0.05
_MOST_AT_ONCE = 2000


class Follower:
    """An endless iterator over what is appended to a session; also an asynchronous one.

    Yields ``Entry`` for what is durable and, with ``live``, ``Event`` for what is being streamed.
    An entry whose message carries a stream's name takes the place of that stream's events.
    """

    def __init__(self, files: Files, folder: Path, after: int, *, live: bool, wait: bool) -> None:
        self._files = files
        self._folder = folder
        self._after = after
        self._live = NOTHING_LIVE if live else None
        self._wait = wait
        self._journal: Journal | None = None
        self._offset = 0
        self._ready: deque[Entry | Event] = deque()
        self._finished: set[str] = set()
        self._events: list[Event] = []  # read and not delivered yet
        self._shown: dict[str, int] = {}  # characters delivered of each stream
        self._distrusted: set[int] = set()  # files of which a sync failed

    @property
    def after(self) -> int:
        """Number of the last entry that was delivered."""
        return self._after

    def poll(self) -> list[Entry | Event]:
        """Return what is new, without waiting.

        Raises:
            StorageError: it cannot be read; asking again is allowed.
        """
        with os_errors(f"{self._folder} cannot be followed", self._folder):
            self._events += self._new_events()
            entries = self._new_entries()
        for entry in entries:
            if isinstance(entry.body, Message) and entry.body.stream is not None:
                self._finished.add(entry.body.stream)
        events, self._events = self._events, []
        return [*(event for event in events if event.stream not in self._finished), *entries]

    def _new_events(self) -> list[Event]:
        if self._live is None:
            return []
        view = read_live(self._files, self._folder, self._live)
        events = view.events
        if (view.inode, view.generation) != (self._live.inode, self._live.generation):
            # Emptied, then only new streams are in it; or rewritten, then with all that is running.
            events = _without(self._shown, events)
            self._shown, self._finished = {}, set()
        for event in view.events:
            self._shown[event.stream] = self._shown.get(event.stream, 0) + len(event.text)
        self._live = view
        return events

    def _new_entries(self) -> list[Entry]:
        journal = self._current()
        return [] if journal is None else self._read(journal)

    def _current(self) -> Journal | None:
        """Return the open journal, opened again if the files are not the same any more."""
        journal = self._journal
        if journal is not None:
            last = journal.last
            try:
                status = self._files.status_of(last.path)
                size = status.st_size if last.packed is None else last.packed.size
                same = status.st_ino == last.inode and size >= self._offset
                following = self._folder / segment_name(last.number + 1)
                if same and not self._files.exists(following):
                    last.size = last.end = size
                    return journal
            except FileNotFoundError:
                pass  # deleted, or being replaced
            journal.close()
            self._journal = None
        try:
            self._journal = Journal(self._files, self._folder)
        except FileNotFoundError:
            return None
        self._offset = 0
        return self._journal

    def _read(self, journal: Journal) -> list[Entry]:
        last = journal.last
        if self._offset == 0:
            entries = self._catch_up(journal)
        else:
            last.end = last.last_newline() + 1  # what has no newline is not yet written
            new = [record for block in last.forward(self._offset) for record in block.records]
            records = without_torn_end(new)
            entries = [record for record in records if isinstance(record, Entry)]
            if not entries:
                return []
            end = entries[-1].offset + len(entries[-1].line) + 1
            if not self._is_durable(journal, end):
                return []
            self._offset = end
        entries = [entry for entry in entries if entry.seq > self._after]
        if entries:
            self._after = entries[-1].seq
        return entries

    def _catch_up(self, journal: Journal) -> list[Entry]:
        """Read from the last number seen, a few thousand entries at a time."""
        journal.last.end = journal.last.last_newline() + 1
        journal.last.end = end = examine(journal).end
        if not self._is_durable(journal, end):
            return []
        every = (record for record in journal.records(self._after) if isinstance(record, Entry))
        entries = list(islice(every, _MOST_AT_ONCE))
        if len(entries) < _MOST_AT_ONCE:
            self._offset = end
        return entries

    def _is_durable(self, journal: Journal, end: int) -> bool:
        """Make everything up to ``end`` durable, if its writer has not; tell whether it is."""
        inode = journal.last.inode
        if end <= durable_size(self._files, self._folder, inode):
            return True
        if inode in self._distrusted:
            return False
        # The kernel reports a failed sync once and then takes the lost pages for clean: from here
        # on only what a writer says counts.
        self._distrusted.add(inode)
        for segment in journal.segments:
            self._files.sync(segment.descriptor)
        self._distrusted.remove(inode)
        return True

    def close(self) -> None:
        """Close the files."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        self._wait = False

    def __enter__(self) -> Self:
        """Return the follower."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files."""
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
                time.sleep(_POLL_SECONDS)
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
