"""Finding messages: through the index, and in the files of what it does not have.

The index gives candidates. Each is read from its journal, and only what stands there decides: what
is found, how it is shown and where it ranks do not depend on how it was come upon.

What the index says may be found: which lines of which sessions, newest sessions first.

What happened when: requests, tokens, cost and messages of all sessions, by quarters of an hour.

The index has it; of sessions that the index does not have as they are, the files do.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.errors import DamagedJournal
from holdfast.journal.format import parse
from holdfast.model.codec import dumps, loads
from holdfast.store.local.blobs import Blobs
from holdfast.store.local.reader import Journal
from holdfast.store.local.repair import inspect_tail
from holdfast.store.local.segment import Segment
from holdfast.store.search.documents import COUNTS, Activity, document, fold_case
from holdfast.store.search.query import BEGINNING, Filters, SessionFacts
from holdfast.store.search.scan import NOT_READABLE, Scan, activities_in, place_activity
from holdfast.store.search.text_index import DOCUMENT_BITS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from holdfast.files import Files
    from holdfast.model.entry import Entry
    from holdfast.store.local.layout import Home
    from holdfast.store.search.scan import SearchRequest
    from holdfast.store.search.text_index import Stale
    from holdfast.store.types import Hit


class Search(Scan):
    """One search in a home."""

    def __init__(self, home: Home, request: SearchRequest) -> None:
        super().__init__(request, self._journal, lambda each: Blobs(home.files, home.folder(each)))
        self._home = home

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
        self._scan_newest(sessions)
        return self._in_order()

    def _journal(self, session_id: str) -> Journal:
        journal = Journal(self._home.files, self._home.folder(session_id))
        journal.last.end = inspect_tail(journal).end
        return journal

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
            except NOT_READABLE:
                # It is not what it was a moment ago: what the files say now counts.
                for key in [key for key in self._found if key[0] == facts.id]:
                    del self._found[key]
                self._met.discard(facts.id)
                self._scan([facts], BEGINNING)
            if len(self._found) >= self._asked.enough:
                return

    def _read_session(
        self, known: Candidates, facts: SessionFacts, of_session: list[Candidate]
    ) -> None:
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


_MOST_AT_ONCE = 1000
_LAST_MOMENT = "\U0010ffff"
_LOOK = (
    "SELECT id, seq, file, offset, length, tool, model FROM {} "
    "WHERE at >= ? AND at < ? AND {} ORDER BY id"
)
_OF_IDS = _LOOK.format("documents", "id IN (SELECT value FROM json_each(?))")
_OF_SESSION = _LOOK.format(
    "texts CROSS JOIN documents ON id = texts.rowid",
    "texts MATCH ? AND texts.rowid BETWEEN ? AND ?",
)


class Candidate(NamedTuple):
    """A document of the index: where its line is, and what the line itself does not say."""

    id: int
    seq: int
    file: int
    offset: int
    length: int
    tool: int | None
    model: int | None

    @property
    def number(self) -> int:
        """The number of its session."""
        return self.id >> DOCUMENT_BITS


class Candidates:
    """One view of the index. ``without`` are sessions that it does not have as they are."""

    def __init__(
        self, connection: sqlite3.Connection, without: set[str], conditions: Filters
    ) -> None:
        self._connection = connection
        self._without = without
        self._conditions = conditions
        self._facts: dict[int, SessionFacts | None] = {}
        self._names: dict[int, str] = {}
        connection.execute("BEGIN")

    def facts(self, number: int) -> SessionFacts | None:
        """Return what is known of a session; ``None`` if it is not one that is searched here."""
        if number not in self._facts:
            found = self._connection.execute(
                "SELECT id, facts FROM sessions WHERE number = ?", (number,)
            ).fetchone()
            self._facts[number] = None if found is None else self._let(*found)
        return self._facts[number]

    def _let(self, session_id: str, data: bytes | None) -> SessionFacts | None:
        if data is None or session_id in self._without:
            return None
        try:
            facts = msgspec.convert(loads(data), SessionFacts)
        except ValueError as error:  # the second opinion's word for what is no JSON
            raise msgspec.DecodeError(str(error)) from error
        return facts if self._conditions.let_session(facts) else None

    def newest(self) -> Iterator[tuple[int, SessionFacts]]:
        """Yield sessions that are searched, last updated first."""
        rows = self._connection.execute(
            "SELECT number FROM sessions ORDER BY updated DESC, id DESC"
        )
        for (number,) in rows.fetchall():
            facts = self.facts(number)
            if facts is not None:
                yield number, facts

    def name(self, number: int | None) -> str | None:
        """Return a name by its number."""
        if number is None:
            return None
        if not self._names:
            rows = self._connection.execute("SELECT number, name FROM names")
            self._names = {each: name.decode("utf-8", "surrogatepass") for each, name in rows}
        return self._names.get(number)

    def of(self, words: str, *, exhaustive: bool) -> Iterator[Candidate]:
        """Yield documents that have the words, by session.

        Of more than a thousand, those of sessions that were read last, unless ``exhaustive``.
        """
        facets = self._facets()
        if facets is None:
            return
        query = f"text : ({words}){facets}"
        ids = self._ids(query, "")
        if len(ids) <= _MOST_AT_ONCE:
            yield from self._by_session(ids)
        elif exhaustive:
            for number, _ in self.newest():
                first = number << DOCUMENT_BITS
                last = first | ((1 << DOCUMENT_BITS) - 1)
                yield from self._look(_OF_SESSION, query, first, last)
        else:
            yield from self._by_session(self._ids(query, "ORDER BY rowid DESC")[:-1])

    def _ids(self, query: str, order: str) -> list[int]:
        rows = self._connection.execute(
            f"SELECT rowid FROM texts WHERE texts MATCH ? {order} LIMIT {_MOST_AT_ONCE + 1}",  # noqa: S608  only our own words
            (query,),
        )
        return [rowid for (rowid,) in rows]

    def _by_session(self, ids: list[int]) -> Iterator[Candidate]:
        found = [
            each for each in self._look(_OF_IDS, dumps(ids).decode()) if self.facts(each.number)
        ]

        def age(each: Candidate) -> tuple[str, str]:
            facts = self.facts(each.number)
            assert facts is not None
            return facts.updated, facts.id

        yield from sorted(found, key=age, reverse=True)

    def _look(self, query: str, *values: str | int) -> list[Candidate]:
        since = self._conditions.since or ""
        until = self._conditions.until or _LAST_MOMENT
        return [Candidate(*row) for row in self._connection.execute(query, (since, until, *values))]

    def _facets(self) -> str | None:
        """Return the part of an expression that stands for conditions; ``None`` if none can fit."""
        said = ""
        wanted = self._conditions
        for kind, names, fits in (
            ("role", wanted.roles, _in(wanted.roles)),
            ("tool", wanted.tools, _in(wanted.tools)),
            ("model", wanted.models, wanted.let_model),
        ):
            if names is not None:
                rows = self._connection.execute(
                    "SELECT number, name FROM names WHERE kind = ?", (kind,)
                )
                fitting = [
                    f"n{number}"
                    for number, name in rows
                    if fits(name.decode("utf-8", "surrogatepass"))
                ]
                if not fitting:
                    return None
                said += f" AND facets : ({' OR '.join(fitting)})"
        return said


def _in(names: frozenset[str] | None) -> Callable[[str], bool]:
    return lambda name: names is not None and fold_case(name) in names


_SELECT = f"SELECT session, at, model, {', '.join(COUNTS)} FROM activity"  # noqa: S608  only our own words


def activities(
    home: Home, connection: sqlite3.Connection | None, left: list[Stale]
) -> list[Activity]:
    """Return all of it, oldest first; see ``TextIndex.ask``."""
    found = [each for stale in left for each in _read(home, stale)]
    if connection is not None:
        found += _known(connection, {each.id for each in left})
    found.sort(key=lambda each: (each.at, each.session, each.model or ""))
    return found


def _known(connection: sqlite3.Connection, without: set[str]) -> Iterator[Activity]:
    known = Candidates(connection, without, Filters())
    for number, at, model, *counts in connection.execute(_SELECT):
        facts = known.facts(number)
        if facts is not None:
            yield place_activity(Activity(facts.id, at, known.name(model or None), *counts), facts)


def _read(home: Home, stale: Stale) -> list[Activity]:
    try:
        with Journal(home.files, stale.folder) as journal:
            journal.last.end = inspect_tail(journal).end
            return activities_in(stale.id, journal)
    except (OSError, DamagedJournal):  # deleted a moment ago, or not ours to read
        return []
