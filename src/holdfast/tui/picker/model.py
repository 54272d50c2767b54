"""What a picker shows of all sessions: which of them, in which order, and what it leaves out.

Pure values: nothing here reads a disk or knows of a screen. A session that is not shown is always
counted, and a damaged one is a row like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.model.sanitize import for_terminal
from holdfast.store.types import CLEAN, DAMAGED, INTERRUPTED, RUNNING, Hit, Summary

WAITING, IDLE = "waiting", "idle"
"""How a session stands, beside what a summary says: for an answer; a runner that does nothing."""
_LEAST_OF_ID = 4  # characters; ids are random, and every letter is in many of them
_LONGEST_LINE = 400  # characters; wider than any screen has columns


class Picked(Struct, frozen=True):
    """The session that was chosen, and what for: ``resume``, ``fork`` or ``read``."""

    session: str
    how: str = "resume"


class Scope(Enum):
    """Which sessions are looked at."""

    FOLDER = "This folder"
    PROJECT = "Project"
    ALL = "All"


class Sort(Enum):
    """What they are sorted by."""

    UPDATED = "updated"
    STARTED = "started"
    COST = "cost"
    MESSAGES = "messages"
    TITLE = "title"


class PickerPlace(Struct, frozen=True):
    """Where the picker was opened: a folder, and the names of the git project that it is in."""

    folder: str
    projects: tuple[str, ...] = ()

    def scope_of(self, summary: Summary) -> Scope:
        """Return the narrowest scope that has a session.

        One that tells nothing of itself may be of this folder; it is in no scope's way.
        """
        if summary.workspace == self.folder or _is_unreadable(summary):
            return Scope.FOLDER
        return Scope.PROJECT if summary.project in self.projects else Scope.ALL

    @property
    def scopes(self) -> list[Scope]:
        """The scopes that differ from each other here."""
        return [Scope.FOLDER, *([Scope.PROJECT] if self.projects else []), Scope.ALL]


class PickerRow(Struct, frozen=True):
    """A session as it is shown. ``standing`` is a summary's state, or waiting, or idle.

    ``words`` is what a query is looked for in; ``title`` is one harmless line.
    """

    summary: Summary
    standing: str
    title: str
    words: str
    scope: Scope

    @property
    def id(self) -> str:
        """The session's id."""
        return self.summary.id

    @property
    def unreadable(self) -> bool:
        """Whether nothing of it can be read: then there is nothing to resume."""
        return _is_unreadable(self.summary)


def _is_unreadable(summary: Summary) -> bool:
    return summary.state == DAMAGED and not summary.started


class PickerFilter(Struct, frozen=True):
    """What is asked for."""

    scope: Scope = Scope.FOLDER
    sort: Sort = Sort.UPDATED
    query: str = ""


class PickerView(Struct, frozen=True):
    """The rows to show, and how many there are of what: those that fit the query, and all."""

    rows: list[PickerRow]
    fitting: Mapping[Scope, int]
    others: int = 0

    def within(self, scope: Scope) -> int:
        """Return how many rows that fit the query a scope has."""
        narrower = list(Scope)[: list(Scope).index(scope) + 1]
        return sum(self.fitting.get(each, 0) for each in narrower)


def one_line(text: str) -> str:
    """Return the beginning of a text as one line that is harmless on a screen."""
    return " ".join(for_terminal(text[:_LONGEST_LINE]).split())


def row_of(summary: Summary, place: PickerPlace, standing: str | None = None) -> PickerRow:
    """Return a session's row."""
    title = one_line(summary.title or "")
    if not title and summary.problem:
        title = one_line(summary.problem)
    found_by = (summary.title, summary.first_text, *summary.tags)
    return PickerRow(
        summary,
        standing_of(summary, standing),
        title or "(no text)",
        "\n".join(each for each in found_by if each).casefold(),
        place.scope_of(summary),
    )


def standing_of(summary: Summary, known: str | None) -> str:
    """Return how a session stands: ``known`` is what its runner, or its last turn, says."""
    if summary.state == DAMAGED or known is None:
        return summary.state
    return known


def first_scope(rows: Iterable[PickerRow], place: PickerPlace) -> Scope:
    """Return the narrowest scope that has anything to show."""
    there = {row.scope for row in rows}
    return next((scope for scope in place.scopes if scope in there), Scope.FOLDER)


def next_scope(place: PickerPlace, scope: Scope) -> Scope:
    """Return the scope behind one, the first behind the last."""
    scopes = place.scopes
    here = scopes.index(scope) if scope in scopes else -1
    return scopes[(here + 1) % len(scopes)]


def next_sort(sort: Sort) -> Sort:
    """Return the order behind one."""
    every = list(Sort)
    return every[(every.index(sort) + 1) % len(every)]


def fits(row: PickerRow, words: list[str]) -> bool:
    """Tell whether each word is in a row's title, first text, tags or id."""
    return all(
        word in row.words or (len(word) >= _LEAST_OF_ID and word in row.id) for word in words
    )


def view_of(
    rows: Iterable[PickerRow], wanted: PickerFilter, found: AbstractSet[str] = frozenset()
) -> PickerView:
    """Return what is to be shown. ``found`` are the ids of sessions whose texts fit the query."""
    words = wanted.query.casefold().split()
    shown: list[PickerRow] = []
    fitting: Counter[Scope] = Counter()
    others = 0
    shown_scopes = set(list(Scope)[: list(Scope).index(wanted.scope) + 1])
    for row in rows:
        inside = row.scope in shown_scopes
        if not words or row.id in found or fits(row, words):
            fitting[row.scope] += 1
            if inside:
                shown.append(row)
        elif inside:
            others += 1
    _put_in_order(shown, wanted.sort)
    return PickerView(shown, fitting, others)


def _put_in_order(rows: list[PickerRow], sort: Sort) -> None:
    # Twice, because Python's sort is stable: what is equal stays last updated first.
    rows.sort(key=lambda row: (row.summary.updated, row.id), reverse=True)
    keys: dict[Sort, Callable[[PickerRow], Any]] = {
        Sort.STARTED: lambda row: row.summary.started,
        Sort.COST: lambda row: row.summary.cost_usd,
        Sort.MESSAGES: lambda row: row.summary.messages,
        Sort.TITLE: lambda row: row.title.casefold(),
    }
    if sort in keys:
        rows.sort(key=keys[sort], reverse=sort is not Sort.TITLE)


def what_is_shown(
    view: PickerView,
    wanted: PickerFilter,
    place: PickerPlace,
    *,
    deleted: int = 0,
    searching: bool = False,
) -> str:
    """Return the sentence that says how much is shown, what is not, and how to see it."""
    said = [f"{len(view.rows):,} shown"]
    if view.others:
        unmatched = f"{'does' if view.others == 1 else 'do'} not match"
        said.append(f"{view.others:,} {'not found yet' if searching else unmatched}")
    narrow = view.within(wanted.scope)
    in_project = view.within(Scope.PROJECT) - narrow
    if wanted.scope is Scope.FOLDER and place.projects and in_project:
        said.append(f"{in_project:,} elsewhere in this project (Tab)")
        narrow += in_project
    elsewhere = view.within(Scope.ALL) - narrow
    if elsewhere:
        where = "folders" if wanted.scope is Scope.FOLDER else "projects"
        said.append(f"{elsewhere:,} in other {where} (Ctrl+A)")
    if deleted:
        said.append(f"{deleted:,} deleted (Ctrl+Z)")
    return " · ".join(said)


WORDS = {CLEAN: "", RUNNING: "running", WAITING: "waiting", IDLE: "idle"}
WORDS |= {INTERRUPTED: "interrupted", DAMAGED: "damaged"}
SIGNS = {CLEAN: " ", RUNNING: "●", WAITING: "?", IDLE: "○", INTERRUPTED: "!", DAMAGED: "✗"}
"""The word and the sign of each standing: nothing is told by a colour alone."""


_replaced = msgspec.structs.replace


def is_searchable(query: str) -> bool:
    """Tell whether it is worth while to look for something in texts: one letter is in all."""
    return len(query) > 1 or not query.isascii()


class Catalogue:
    """Rows, what is wanted of them, and the sessions whose texts have what is searched for."""

    def __init__(self, place: PickerPlace, query: str = "") -> None:
        self.place = place
        self.wanted = PickerFilter(query=query)
        self.found: dict[str, Hit] = {}
        self.rows: list[PickerRow] = []
        self.loaded = False
        self.searching = is_searchable(query)
        """Whether texts are yet to be searched."""
        self._scope_chosen = False
        self._narrow = Scope.FOLDER  # what Ctrl+A comes back to
        self._view: PickerView | None = None

    @property
    def view(self) -> PickerView:
        """What is to be shown."""
        if self._view is None:
            self._view = view_of(self.rows, self.wanted, self.found.keys())
        return self._view

    # News

    def take_rows(self, rows: list[PickerRow]) -> None:
        """Take all rows anew."""
        # They were made in a thread, perhaps before it was known which project this is.
        self.rows = [self._placed(row) for row in rows]
        self.loaded = True
        self._choose_scope()

    def take_projects(self, projects: tuple[str, ...]) -> None:
        """Hear which project the folder is in."""
        self.place = _replaced(self.place, projects=projects)
        self.rows = [self._placed(row) for row in self.rows]
        self._choose_scope()

    def take_standings(self, standings: Mapping[str, str]) -> None:
        """Hear how sessions stand that are not simply at rest."""
        self.rows = [self._standing(row, standings.get(row.id)) for row in self.rows]
        self._view = None

    def take_hits(self, query: str, hits: list[Hit]) -> None:
        """Take all that was found in texts; of older queries nothing."""
        if query == self.wanted.query:
            self.searching = False
            self.found = {hit.session: hit for hit in hits}
            self._view = None

    def drop(self, session_id: str) -> None:
        """Forget a session that was deleted."""
        self.rows = [row for row in self.rows if row.id != session_id]
        self._view = None

    def put_back(self, row: PickerRow) -> None:
        """Take a session that is there again."""
        self.drop(row.id)
        self.rows.append(row)

    def _placed(self, row: PickerRow) -> PickerRow:
        scope = self.place.scope_of(row.summary)
        return row if scope is row.scope else _replaced(row, scope=scope)

    def _standing(self, row: PickerRow, known: str | None) -> PickerRow:
        standing = standing_of(row.summary, known)
        return row if standing == row.standing else _replaced(row, standing=standing)

    def _choose_scope(self) -> None:
        """Begin with the narrowest scope that has anything, until somebody chooses."""
        self._view = None
        if self.loaded and not self._scope_chosen:
            self._want(scope=first_scope(self.rows, self.place))

    # Wishes

    def search(self, query: str) -> None:
        """Look for something else."""
        if query != self.wanted.query:
            self.found = {}
            self.searching = is_searchable(query)
            self._want(query=query)

    def widen(self) -> None:
        """Go to the next scope."""
        self._scope_chosen = True
        self._want(scope=next_scope(self.place, self.wanted.scope))

    def toggle_all(self) -> None:
        """Show all sessions, or what was shown before."""
        self._scope_chosen = True
        if self.wanted.scope is Scope.ALL:
            self._want(scope=self._narrow)
        else:
            self._narrow = self.wanted.scope
            self._want(scope=Scope.ALL)

    def sort(self) -> None:
        """Go to the next order."""
        self._want(sort=next_sort(self.wanted.sort))

    def _want(self, **changes: object) -> None:
        self.wanted = _replaced(self.wanted, **changes)
        self._view = None
