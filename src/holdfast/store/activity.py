"""What happened when: requests, tokens, cost and messages of all sessions, by quarters of an hour.

The index has it; of sessions that the index does not have as they are, the files do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import DamagedJournal
from holdfast.journal.reader import Journal
from holdfast.journal.repair import examine
from holdfast.model.entry import Entry
from holdfast.store.candidates import Candidates
from holdfast.store.conditions import Conditions
from holdfast.store.documents import COUNTS, Activity, Tally
from holdfast.store.growth import facts_of
from holdfast.store.resuming import read_state

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from holdfast.store.conditions import Facts
    from holdfast.store.growth import Stale
    from holdfast.store.home import Home

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
    known = Candidates(connection, without, Conditions())
    for number, at, model, *counts in connection.execute(_SELECT):
        facts = known.facts(number)
        if facts is not None:
            yield _told(Activity(facts.id, at, known.name(model or None), *counts), facts)


def _read(home: Home, stale: Stale) -> list[Activity]:
    tally = Tally(stale.id)
    try:
        with Journal(home.files, stale.folder) as journal:
            journal.last.end = examine(journal).end
            for record in journal.records():
                if isinstance(record, Entry):
                    tally.take(record)
            state = read_state(journal).state
    except (OSError, DamagedJournal):  # deleted a moment ago, or not ours to read
        return []
    tally.even_out(state, tally.counted)
    facts = facts_of(stale.id, state)
    return [_told(each, facts) for each in tally.activities]


def _told(activity: Activity, facts: Facts) -> Activity:
    activity.agent = facts.agent
    activity.workspace = facts.workspace
    activity.project = facts.project
    return activity
