"""All sessions as a picker knows them at a moment: news come in, a view comes out. Pure state."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.store.search import Hit
from holdfast.tui.picker_model import (
    Place,
    Row,
    Scope,
    View,
    Wanted,
    first_scope,
    next_scope,
    next_sort,
    standing_of,
    view_of,
)

_replaced = msgspec.structs.replace


def is_searchable(query: str) -> bool:
    """Tell whether it is worth while to look for something in texts: one letter is in all."""
    return len(query) > 1 or not query.isascii()


class Catalogue:
    """Rows, what is wanted of them, and the sessions whose texts have what is searched for."""

    def __init__(self, place: Place, query: str = "") -> None:
        self.place = place
        self.wanted = Wanted(query=query)
        self.found: dict[str, Hit] = {}
        self.rows: list[Row] = []
        self.loaded = False
        self.searching = is_searchable(query)
        """Whether texts are yet to be searched."""
        self._scope_chosen = False
        self._narrow = Scope.FOLDER  # what Ctrl+A comes back to
        self._view: View | None = None

    @property
    def view(self) -> View:
        """What is to be shown."""
        if self._view is None:
            self._view = view_of(self.rows, self.wanted, self.found.keys())
        return self._view

    # News

    def take_rows(self, rows: list[Row]) -> None:
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

    def put_back(self, row: Row) -> None:
        """Take a session that is there again."""
        self.drop(row.id)
        self.rows.append(row)

    def _placed(self, row: Row) -> Row:
        scope = self.place.scope_of(row.summary)
        return row if scope is row.scope else _replaced(row, scope=scope)

    def _standing(self, row: Row, known: str | None) -> Row:
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
