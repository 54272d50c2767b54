"""What the index says may be found: which lines of which sessions, newest sessions first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.model.codec import dumps, loads
from holdfast.store.conditions import Facts
from holdfast.store.schema import DOCUMENT_BITS
from holdfast.store.texts import folded

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

    from holdfast.store.conditions import Conditions

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
        self, connection: sqlite3.Connection, without: set[str], conditions: Conditions
    ) -> None:
        self._connection = connection
        self._without = without
        self._conditions = conditions
        self._facts: dict[int, Facts | None] = {}
        self._names: dict[int, str] = {}
        connection.execute("BEGIN")

    def facts(self, number: int) -> Facts | None:
        """Return what is known of a session; ``None`` if it is not one that is searched here."""
        if number not in self._facts:
            found = self._connection.execute(
                "SELECT id, facts FROM sessions WHERE number = ?", (number,)
            ).fetchone()
            self._facts[number] = None if found is None else self._let(*found)
        return self._facts[number]

    def _let(self, session_id: str, data: bytes | None) -> Facts | None:
        if data is None or session_id in self._without:
            return None
        try:
            facts = msgspec.convert(loads(data), Facts)
        except ValueError as error:  # the second opinion's word for what is no JSON
            raise msgspec.DecodeError(str(error)) from error
        return facts if self._conditions.let_session(facts) else None

    def newest(self) -> Iterator[tuple[int, Facts]]:
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
    return lambda name: names is not None and folded(name) in names
