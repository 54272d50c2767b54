"""Add up what sessions did and what it cost: by day, model, project and agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct, field

from holdfast.store.search.documents import COUNTS, Activity, quarter_of
from holdfast.store.store import Store
from holdfast.store.types import Summary, stamp

DIMENSIONS = ("day", "model", "project", "agent")
UNKNOWN = "?"
_MOST_SESSIONS = 5


class Sums(Struct):
    """Totals of one day, model, project, agent or session."""

    name: str
    sessions: set[str] = field(default_factory=set)
    requests: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    messages: int = 0
    prompts: int = 0
    turns: int = 0

    def add(self, activity: Activity) -> None:
        """Add some activity."""
        self.sessions.add(activity.session)
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(activity, name))

    @property
    def tokens(self) -> int:
        """All tokens, cached ones included."""
        return self.input + self.output + self.cache_read + self.cache_write

    def to_json(self) -> dict[str, Any]:
        """Return the totals as JSON data; of the sessions, only their number."""
        return {**msgspec.structs.asdict(self), "sessions": len(self.sessions)}


class LongSession(Struct, frozen=True):
    """One of the sessions with the most messages."""

    session: str
    title: str | None
    messages: int
    prompts: int
    turns: int
    tokens: int
    cost_usd: float
    unpriced: int


class Statistics(Struct, frozen=True):
    """Totals of a period: all of it, one table per dimension, and the longest sessions."""

    since: datetime | None
    until: datetime | None
    total: Sums
    tables: dict[str, list[Sums]]
    longest: list[LongSession]

    def to_json(self) -> dict[str, Any]:
        """Return the statistics as JSON data."""
        return {
            "since": None if self.since is None else stamp(self.since),
            "until": None if self.until is None else stamp(self.until),
            "total": self.total.to_json(),
            "by": {name: [row.to_json() for row in rows] for name, rows in self.tables.items()},
            "longest": [msgspec.structs.asdict(each) for each in self.longest],
        }


def read_statistics(
    store: Store,
    *,
    by: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Statistics:
    """Return the statistics of a store; ``by`` limits them to one table.

    ``progress`` is called with sessions read and sessions to read while the index is updated.
    """
    activities = _between(store.activity(progress=progress), since, until)
    tables = {name: _table(activities, name) for name in (DIMENSIONS if by is None else (by,))}
    total = Sums("total")
    for each in activities:
        total.add(each)
    longest = _longest(activities, {each.id: each for each in store.list()})
    return Statistics(since, until, total, tables, longest)


def _between(
    activities: Iterable[Activity], since: datetime | None, until: datetime | None
) -> list[Activity]:
    """Return the activity of a period, to the quarter of an hour."""
    first = "" if since is None else quarter_of(stamp(since))
    last = "~" if until is None else stamp(until)
    return [each for each in activities if first <= each.at < last]


def _day(activity: Activity) -> str:
    try:
        return f"{datetime.fromisoformat(f'{activity.at}:00+00:00').astimezone():%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return UNKNOWN


_KEYS: dict[str, Callable[[Activity], str | None]] = {
    "day": _day,
    "model": lambda activity: activity.model,
    "project": lambda activity: activity.project or activity.workspace or "",
    "agent": lambda activity: activity.agent,
}


def _table(activities: list[Activity], dimension: str) -> list[Sums]:
    """Return rows, the newest day or the most tokens first. Activity without a model has no row."""
    rows: dict[str, Sums] = {}
    for activity in activities:
        name = _KEYS[dimension](activity)
        if name is not None:
            rows.setdefault(name or UNKNOWN, Sums(name or UNKNOWN)).add(activity)
    if dimension == "day":
        return sorted(rows.values(), key=lambda row: row.name, reverse=True)
    return sorted(rows.values(), key=lambda row: (-row.tokens, -row.messages, row.name))


def _longest(activities: list[Activity], summaries: dict[str, Summary]) -> list[LongSession]:
    """Return the sessions with the most messages."""
    rows: dict[str, Sums] = {}
    for each in activities:
        rows.setdefault(each.session, Sums(each.session)).add(each)
    found = [row for row in rows.values() if row.messages or row.requests]  # not mere forks
    most = sorted(found, key=lambda row: (-row.messages, row.name))[:_MOST_SESSIONS]
    return [
        LongSession(
            session=row.name,
            title=summaries[row.name].title if row.name in summaries else None,
            messages=row.messages,
            prompts=row.prompts,
            turns=row.turns,
            tokens=row.tokens,
            cost_usd=row.cost_usd,
            unpriced=row.unpriced,
        )
        for row in most
    ]
