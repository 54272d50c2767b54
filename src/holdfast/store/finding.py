"""Finding messages: through the index, and in the files of what it does not have.

The index gives candidates. Each is read from its journal, and only what stands there decides: what
is found, how it is shown and where it ranks do not depend on how it was come upon.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.errors import DamagedJournal
from holdfast.journal.format import parse
from holdfast.journal.reader import Journal
from holdfast.journal.repair import examine
from holdfast.journal.segment import Segment
from holdfast.model.entry import Entry
from holdfast.store.blobs import Blobs
from holdfast.store.candidates import Candidates
from holdfast.store.conditions import Conditions
from holdfast.store.documents import Reader, document
from holdfast.store.growth import facts_of
from holdfast.store.resuming import read_state
from holdfast.store.search import Hit
from holdfast.store.wanted import BEGINNING, INSIDE, Wanted

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from holdfast.journal.files import Files
    from holdfast.store.candidates import Candidate
    from holdfast.store.conditions import Facts
    from holdfast.store.documents import Document
    from holdfast.store.growth import Stale
    from holdfast.store.home import Home

_MOST_RANKED = 200
_NOT_READABLE = (OSError, DamagedJournal)


class Asked(Struct, frozen=True):
    """What a search is about. ``newest`` orders by session, last updated first; else by rank.

    ``substring`` looks inside of words as well; ``None``: only if nothing is found otherwise.
    ``once`` takes the first message of a session only. ``progress`` is told, while files are read,
    how many of how many sessions are done.
    """

    wanted: Wanted
    conditions: Conditions
    limit: int
    newest: bool = True
    substring: bool | None = None
    once: bool = False
    progress: Callable[[int, int], None] | None = None

    @property
    def enough(self) -> int:
        """How many hits are looked for, before they are put in order."""
        return self.limit if self.newest else max(self.limit, _MOST_RANKED)


class Search:
    """One search in a home."""

    def __init__(self, home: Home, asked: Asked) -> None:
        self._home = home
        self._asked = asked
        self._found: dict[tuple[str, int], Hit] = {}
        self._met: set[str] = set()
        self._updated: dict[str, str] = {}

    def run(self, connection: sqlite3.Connection | None, left: list[Stale]) -> list[Hit]:
        """Return what is found. ``left`` are the sessions that the index does not have."""
        self._found.clear()
        self._met.clear()
        asked, known = self._asked, None
        if connection is not None:
            known = Candidates(connection, {each.id for each in left}, asked.conditions)
        unread = [facts for each in left if (facts := self._read_facts(each.id)) is not None]
        words = asked.wanted.in_index(open_end=False)
        if words is not None and not asked.substring:
            if known is not None:
                self._look_up(known, words)
            self._scan(unread, BEGINNING)
            if self._found or asked.substring is False:
                return self._in_order()
        sessions = [*unread, *(facts for _, facts in known.newest())] if known else unread
        sessions.sort(key=lambda facts: (facts.updated, facts.id), reverse=True)
        self._scan(sessions, BEGINNING if asked.substring is False else INSIDE)
        return self._in_order()

    def _in_order(self) -> list[Hit]:
        hits = sorted(self._found.values(), key=lambda hit: hit.seq)
        hits.sort(key=lambda hit: (self._updated[hit.session], hit.session), reverse=True)
        if not self._asked.newest:
            hits.sort(key=lambda hit: hit.rank, reverse=True)
        hits.sort(key=lambda hit: hit.depth)
        return hits[: self._asked.limit]

    # Through the index

    def _look_up(self, known: Candidates, words: str) -> None:
        self._read(known, known.of(words, exhaustive=True))
        words_begun = self._asked.wanted.in_index(open_end=True)
        if words_begun is not None and len(self._found) < self._asked.enough:
            self._read(known, known.of(words_begun, exhaustive=False))

    def _read(self, known: Candidates, candidates: Iterable[Candidate]) -> None:
        for number, of_session in groupby(candidates, lambda each: each.number):
            facts = known.facts(number)
            assert facts is not None
            new = [each for each in of_session if (facts.id, each.seq) not in self._found]
            if not new or self._has_enough_of(facts):
                continue
            try:
                self._read_session(known, facts, new)
            except _NOT_READABLE:
                # It is not what it was a moment ago: what the files say now counts.
                for key in [key for key in self._found if key[0] == facts.id]:
                    del self._found[key]
                self._met.discard(facts.id)
                self._scan([facts], BEGINNING)
            if len(self._found) >= self._asked.enough:
                return

    def _read_session(self, known: Candidates, facts: Facts, of_session: list[Candidate]) -> None:
        folder = self._home.folder(facts.id)
        blobs = Blobs(self._home.files, folder)
        with closing(_Lines(self._home.files, folder)) as lines:
            for each in of_session:
                entry = lines.entry(each)
                tool, model = known.name(each.tool), known.name(each.model)
                found = document(entry, blobs, partial(_one_tool, tool), model)
                self._consider(facts, found, BEGINNING)
                if len(self._found) >= self._asked.enough or self._has_enough_of(facts):
                    return

    def _has_enough_of(self, facts: Facts) -> bool:
        return self._asked.once and facts.id in self._met

    def _consider(self, facts: Facts, found: Document | None, deepest: int) -> None:
        if found is None or not self._asked.conditions.let(found):
            return
        match = self._asked.wanted.match(found, deepest)
        if match is not None:
            self._updated[facts.id] = facts.updated
            self._met.add(facts.id)
            self._found[facts.id, found.seq] = Hit(
                facts.id,
                found.seq,
                found.role,
                found.at,
                match.snippet,
                match.highlights,
                match.piece.kind,
                match.piece.tool,
                found.model,
                facts.title,
                facts.workspace,
                facts.agent,
                match.depth,
                match.rank,
            )

    # In the files

    def _read_facts(self, session_id: str) -> Facts | None:
        try:
            with self._journal(session_id) as journal:
                facts = facts_of(session_id, read_state(journal).state)
        except _NOT_READABLE:
            return None
        return facts if self._asked.conditions.let_session(facts) else None

    def _journal(self, session_id: str) -> Journal:
        journal = Journal(self._home.files, self._home.folder(session_id))
        journal.last.end = examine(journal).end
        return journal

    def _scan(self, sessions: list[Facts], deepest: int) -> None:
        before = len(self._found)
        for done, facts in enumerate(sessions):
            if self._asked.progress is not None:
                self._asked.progress(done, len(sessions))
            try:
                self._scan_session(facts, deepest)
            except _NOT_READABLE:  # deleted a moment ago, or not ours to read
                continue
            if len(self._found) - before >= self._asked.enough:
                return

    def _scan_session(self, facts: Facts, deepest: int) -> None:
        with self._journal(facts.id) as journal:
            reader = Reader(Blobs(self._home.files, journal.folder))
            for record in journal.records():
                if isinstance(record, Entry):
                    look = self._asked.wanted.may_be_in(record.line)
                    self._consider(facts, reader.take(record, look=look), deepest)
                    if self._has_enough_of(facts):
                        return


def _one_tool(tool: str | None, _: str) -> str | None:
    return tool


class _Lines:
    """Lines of one session's files, by their places."""

    def __init__(self, files: Files, folder: Path) -> None:
        self._files = files
        self._folder = folder
        self._first: Segment | None = None
        self._journal: Journal | None = None

    def entry(self, each: Candidate) -> Entry:
        """Return an entry.

        Raises:
            OSError: it cannot be read; FileNotFoundError: it is not there any more.
        """
        segment = self._segment(each.file)
        data = segment.read(each.offset, each.offset + each.length)
        entry = parse(data, None, each.offset, segment.number)
        if entry is None or entry.seq != each.seq:
            raise FileNotFoundError
        return entry

    def _segment(self, file: int) -> Segment:
        if file == 0:  # as nearly always: no look at the others
            if self._first is None:
                self._first = Segment(self._files, self._folder, 1)
            return self._first
        if self._journal is None:
            self._journal = Journal(self._files, self._folder)
        if file >= len(self._journal.segments):
            raise FileNotFoundError
        return self._journal.segments[file]

    def close(self) -> None:
        """Close the files."""
        for each in (self._first, self._journal):
            if each is not None:
                each.close()
