"""Finding messages by reading logs: what matches, how it is shown and how it ranks.

Works on any medium. What stands in the log decides; an index can only say where to look first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.errors import DamagedJournal
from holdfast.model.entry import Entry
from holdfast.store.read.resume import resume_state
from holdfast.store.search.documents import Activity, DocumentReader, Tally
from holdfast.store.search.query import BEGINNING, INSIDE, Filters, Query, facts_of
from holdfast.store.types import Hit, sort_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.store.backend import BlobSource, Log
    from holdfast.store.search.documents import Document
    from holdfast.store.search.query import SessionFacts

_MOST_RANKED = 200
NOT_READABLE = (OSError, DamagedJournal)


class SearchRequest(Struct, frozen=True):
    """What a search is about. ``newest`` orders by session, last updated first; else by rank.

    ``substring`` looks inside of words as well; ``None``: only if nothing is found otherwise.
    ``once`` takes the first message of a session only. ``progress`` is told, while files are read,
    how many of how many sessions are done.
    """

    wanted: Query
    conditions: Filters
    limit: int
    newest: bool = True
    substring: bool | None = None
    once: bool = False
    progress: Callable[[int, int], None] | None = None

    @property
    def enough(self) -> int:
        """How many hits are looked for, before they are put in order."""
        return self.limit if self.newest else max(self.limit, _MOST_RANKED)


class Scan:
    """One search through logs, which ``open_log`` opens up to their last whole entry."""

    def __init__(
        self,
        request: SearchRequest,
        open_log: Callable[[str], Log],
        blobs: Callable[[str], BlobSource],
    ) -> None:
        self._asked = request
        self._open_log = open_log
        self._blobs = blobs
        self._found: dict[tuple[str, int], Hit] = {}
        self._met: set[str] = set()
        self._updated: dict[str, str] = {}

    def in_all(self, session_ids: list[str]) -> list[Hit]:
        """Return what is found in these sessions, without an index."""
        asked = self._asked
        sessions = [facts for each in session_ids if (facts := self._read_facts(each)) is not None]
        sessions.sort(key=_last_updated, reverse=True)  # a limit keeps the newest
        if asked.wanted.in_index(open_end=False) is not None and not asked.substring:
            self._scan(sessions, BEGINNING)
            if self._found or asked.substring is False:
                return self._in_order()
        self._scan_newest(sessions)
        return self._in_order()

    def _scan_newest(self, sessions: list[SessionFacts]) -> None:
        """Read sessions, last updated first, and look inside of words unless told not to."""
        sessions.sort(key=_last_updated, reverse=True)
        self._scan(sessions, BEGINNING if self._asked.substring is False else INSIDE)

    def _in_order(self) -> list[Hit]:
        hits = sorted(self._found.values(), key=lambda hit: hit.seq)
        updated = {hit.session: sort_time(self._updated[hit.session]) for hit in hits}
        hits.sort(key=lambda hit: (updated[hit.session], hit.session), reverse=True)
        if not self._asked.newest:
            hits.sort(key=lambda hit: hit.rank, reverse=True)
        hits.sort(key=lambda hit: hit.depth)
        return hits[: self._asked.limit]

    def _has_enough_of(self, facts: SessionFacts) -> bool:
        return self._asked.once and facts.id in self._met

    def _consider(self, facts: SessionFacts, found: Document | None, deepest: int) -> None:
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

    def _read_facts(self, session_id: str) -> SessionFacts | None:
        try:
            with self._open_log(session_id) as log:
                facts = facts_of(session_id, resume_state(log).state)
        except NOT_READABLE:
            return None
        return facts if self._asked.conditions.let_session(facts) else None

    def _scan(self, sessions: list[SessionFacts], deepest: int) -> None:
        before = len(self._found)
        for done, facts in enumerate(sessions):
            if self._asked.progress is not None:
                self._asked.progress(done, len(sessions))
            try:
                self._scan_session(facts, deepest)
            except NOT_READABLE:  # deleted a moment ago, or not ours to read
                continue
            if len(self._found) - before >= self._asked.enough:
                return

    def _scan_session(self, facts: SessionFacts, deepest: int) -> None:
        with self._open_log(facts.id) as log:
            reader = DocumentReader(self._blobs(facts.id))
            for record in log.records():
                if isinstance(record, Entry):
                    look = self._asked.wanted.may_be_in(record.line)
                    self._consider(facts, reader.take(record, look=look), deepest)
                    if self._has_enough_of(facts):
                        return


def _last_updated(facts: SessionFacts) -> tuple[str, str]:
    return sort_time(facts.updated), facts.id


def activities_in(session_id: str, log: Log) -> list[Activity]:
    """Return what happened in a session, by quarters of an hour."""
    tally = Tally(session_id)
    for record in log.records():
        if isinstance(record, Entry):
            tally.take(record)
    state = resume_state(log).state
    tally.even_out(state, tally.counted)
    facts = facts_of(session_id, state)
    return [place_activity(each, facts) for each in tally.activities]


def place_activity(activity: Activity, facts: SessionFacts) -> Activity:
    """Say which agent, folder and project an activity belongs to."""
    activity.agent = facts.agent
    activity.workspace = facts.workspace
    activity.project = facts.project
    return activity
