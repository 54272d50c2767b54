"""The table of sessions: only the lines that are on the screen are ever made."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from holdfast.store.contract import DAMAGED, INTERRUPTED, RUNNING
from holdfast.tui.picker_columns import Cell, Column, columns, current_time, heading, line
from holdfast.tui.picker_model import IDLE, WAITING, Row, Scope, Sort, Wanted

_DIM = Style(dim=True)
_STANDINGS = {
    RUNNING: Style(color="green", bold=True),
    WAITING: Style(color="yellow", bold=True),
    IDLE: Style(color="green"),
    INTERRUPTED: Style(color="yellow"),
    DAMAGED: Style(color="red", bold=True),
}
_COLUMNS = {"title": Style.null(), "gap": Style.null()}
_CHOSEN = Style(reverse=True)


class Heading(Widget):
    """The names of the columns."""

    DEFAULT_CSS = "Heading { height: 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._cells: list[Cell] = []

    def show(self, cells: list[Cell]) -> None:
        """Show other names."""
        self._cells = cells
        self.refresh()

    def render_line(self, y: int) -> Strip:  # noqa: ARG002  there is one
        """Return the line."""
        strip = Strip([Segment(cell.text, _DIM) for cell in self._cells])
        return strip.adjust_cell_length(self.size.width)


class SessionList(ScrollView, can_focus=False):
    """Rows with one that is chosen; ``heading`` shows the names of their columns."""

    DEFAULT_CSS = """
    SessionList {
        height: 1fr;
        overflow-x: hidden;
        scrollbar-gutter: stable;
    }
    """

    class Chosen(Message):
        """Another row is the chosen one; ``decided`` if it was clicked twice."""

        def __init__(self, *, decided: bool = False) -> None:
            super().__init__()
            self.decided = decided

    def __init__(self, names: Heading) -> None:
        super().__init__()
        self._names = names
        self._rows: list[Row] = []
        self._columns: list[Column] = []
        self._wanted = Wanted(Scope.FOLDER, Sort.UPDATED)
        self._cursor = 0
        self._empty = ""

    @property
    def chosen(self) -> Row | None:
        """The row that is chosen, if there is any."""
        return self._rows[self._cursor] if self._rows else None

    def show(self, rows: list[Row], wanted: Wanted, *, first: bool = False) -> None:
        """Show other rows; the chosen one stays chosen if it is among them, unless ``first``."""
        before, cursor = self.chosen, self._cursor
        self._rows, self._wanted = rows, wanted
        self.virtual_size = Size(1, len(rows))
        self._lay_out()
        place = None
        if before is not None and not first:
            place = next((i for i, row in enumerate(rows) if row.id == before.id), cursor)
        self._choose(place or 0)

    def say_if_empty(self, sentence: str) -> None:
        """Say something in the place of rows, if there are none."""
        if sentence != self._empty:
            self._empty = sentence
            self.refresh()

    def choose(self, session_id: str) -> None:
        """Choose the row of a session, if there is one."""
        found = (place for place, row in enumerate(self._rows) if row.id == session_id)
        self._choose(next(found, self._cursor))

    def move(self, lines: int) -> None:
        """Choose another row, so many lines further."""
        self._choose(self._cursor + lines)

    def move_to_end(self) -> None:
        """Choose the last row."""
        self._choose(len(self._rows) - 1)

    @property
    def page(self) -> int:
        """How many lines a page has, one of them from the page before."""
        return max(self.size.height - 1, 1)

    def _choose(self, place: int) -> None:
        self._cursor = max(min(place, len(self._rows) - 1), 0)
        height, top = max(self.size.height, 1), round(self.scroll_y)
        if self._cursor < top:
            self.scroll_to(y=self._cursor, animate=False, force=True)
        elif self._cursor >= top + height:
            self.scroll_to(y=self._cursor - height + 1, animate=False, force=True)
        self.refresh()
        self.post_message(self.Chosen())

    def _lay_out(self) -> None:
        self._columns = columns(max(self.size.width - 1, 1), self._wanted.scope, self._wanted.sort)
        self._names.show(heading(self._columns, self._wanted.sort))

    def on_resize(self, _: events.Resize) -> None:
        """Lay the columns out anew, and keep the chosen row on the screen."""
        self._lay_out()
        self._choose(self._cursor)

    def render_line(self, y: int) -> Strip:
        """Return one line of what is on the screen."""
        place, width = y + round(self.scroll_y), self.size.width
        if place >= len(self._rows):
            said = self._empty if place == len(self._rows) == 0 else ""
            return Strip([Segment(f"   {said}", _DIM)]).adjust_cell_length(width)
        row, is_chosen = self._rows[place], place == self._cursor
        cells = line(row, self._columns, current_time())
        if is_chosen:
            text = ">" + "".join(cell.text for cell in cells)[1:]
            strip = Strip([Segment(text, _CHOSEN)])
            return strip.adjust_cell_length(width, _CHOSEN)
        standing = _STANDINGS.get(row.standing, _DIM)
        styles = {**_COLUMNS, "sign": standing, "state": standing}
        strip = Strip([Segment(cell.text, styles.get(cell.column, _DIM)) for cell in cells])
        return strip.adjust_cell_length(width)

    def on_click(self, event: events.Click) -> None:
        """Choose the row that was clicked."""
        place = event.y + round(self.scroll_y)
        if place < len(self._rows):
            self._choose(place)
            if event.chain == 2:
                self.post_message(self.Chosen(decided=True))
