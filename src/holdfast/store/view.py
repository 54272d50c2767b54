"""A journal that is being written, as its own session reads it.

It shows all that is durable and nothing else. It is opened when it is first asked for, anew after
a rewrite has put another file in its place, and also if somebody took the files away. Who holds it
can read it without the mutex: it is closed when it is of no use any more and nobody holds it, and
its end only moves on.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from holdfast.journal.reader import Journal

if TYPE_CHECKING:
    from holdfast.journal.appender import Place
    from holdfast.journal.files import Files


class View:
    """What the writer of a journal reads of it. The caller holds the writer's mutex."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._journal: Journal | None = None
        self._holders: Counter[Journal] = Counter()

    def of(self, place: Place) -> Journal:
        """Return all that is durable of the journal at ``place``."""
        if self._journal is not None and self._journal.last.inode != place.inode:
            self.close()
        if self._journal is None:
            self._journal = self._open(place)
        self._journal.last.size = self._journal.last.end = place.end
        return self._journal

    def _open(self, place: Place) -> Journal:
        try:
            journal = Journal(self._files, place.folder)
            if journal.last.inode == place.inode:
                return journal
            journal.close()
        except OSError:
            pass
        # Somebody deleted or replaced the files. What we have open can still be read and exported.
        return Journal(self._files, place.folder, (place.descriptor, place.segment))

    def hold(self, journal: Journal) -> None:
        """Keep it open until ``release``."""
        self._holders[journal] += 1

    def release(self, journal: Journal) -> None:
        """Let it be closed, if nobody else holds it and it is of no use any more."""
        self._holders[journal] -= 1
        if not self._holders[journal]:
            del self._holders[journal]
            if journal is not self._journal:
                journal.close()

    def close(self) -> None:
        """Let go of the files; they are opened again if need be."""
        journal, self._journal = self._journal, None
        if journal is not None and journal not in self._holders:
            journal.close()
