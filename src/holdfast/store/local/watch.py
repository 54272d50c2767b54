"""What is new in a session's files, whoever writes them.

It asks for nothing but files: it works beside a writer, after its death, across continuation files
and compactions (it notices another inode or a shorter file, opens again and skips by number). It
never returns an entry that a power cut could still take back: what lies beyond the writer's durable
offset it syncs itself first.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING

from holdfast.model.entry import Entry
from holdfast.store.local.layout import segment_name
from holdfast.store.local.live import NOTHING_LIVE, read_live
from holdfast.store.local.lock import durable_size
from holdfast.store.local.reader import Journal
from holdfast.store.local.repair import inspect_tail, without_torn_end

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.files import Files
    from holdfast.model.event import Event

_MOST_AT_ONCE = 2000


class FileWatch:
    """Reads what was added to a session's folder since the last look."""

    def __init__(self, files: Files, folder: Path, after: int) -> None:
        self._files = files
        self.folder = folder
        self._after = after
        self._live = NOTHING_LIVE
        self._journal: Journal | None = None
        self._offset = 0
        self._distrusted: set[int] = set()  # files of which a sync failed

    def live(self) -> tuple[list[Event], bool]:
        """Return new text, and whether the live file was emptied or rewritten since."""
        view, before = read_live(self._files, self.folder, self._live), self._live
        self._live = view
        is_new = (view.inode, view.generation) != (before.inode, before.generation)
        return view.events, is_new

    def wait(self, seconds: float) -> None:
        """Wait: files do not tell when they change."""
        time.sleep(seconds)

    def close(self) -> None:
        """Close the files."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def entries(self) -> list[Entry]:
        """Return entries that are durable and were not returned before, some thousands at most."""
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
                following = self.folder / segment_name(last.number + 1)
                if same and not self._files.exists(following):
                    last.size = last.end = size
                    return journal
            except FileNotFoundError:
                pass  # deleted, or being replaced
            journal.close()
            self._journal = None
        try:
            self._journal = Journal(self._files, self.folder)
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
        journal.last.end = end = inspect_tail(journal).end
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
        if end <= durable_size(self._files, self.folder, inode):
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
