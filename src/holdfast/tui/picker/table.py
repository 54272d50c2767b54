"""The table of sessions: only the lines that are on the screen are ever made."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from holdfast.store.types import DAMAGED, INTERRUPTED, RUNNING
from holdfast.tui.picker.model import (
    IDLE,
    SIGNS,
    WAITING,
    WORDS,
    PickerFilter,
    PickerRow,
    Scope,
    Sort,
    one_line,
)

# They join characters, or make them wider, in some terminals and not in others.
_JOINERS = re.compile("[\u200b-\u200d\u2060\ufe00-\ufe0f\ufeff]")
_LEFT_TO_RIGHT = "\u200e"
_GAP = 2
_MOST_TITLE = 100
_UNITS = (("y", 31_557_600), ("mo", 2_629_800), ("w", 604_800), ("d", 86_400), ("h", 3600))
_FIRST_OF = {"y": 2, "mo": 2, "w": 2}  # 13 days say more than one week


class Column(Struct, frozen=True):
    """A column: its name, its width, whether it stands at the right, and its order's name."""

    name: str
    width: int
    right: bool = False
    sort: Sort | None = None


class Cell(Struct, frozen=True):
    """A text of exactly its column's width, and the name of its column."""

    column: str
    text: str


def columns(width: int, scope: Scope, sort: Sort) -> list[Column]:
    """Return the columns of a table that is ``width`` cells wide; the title has what is left."""
    dated = Sort.STARTED if sort is Sort.STARTED else Sort.UPDATED
    fixed = [
        Column("state", 11),
        Column(dated.value, 8, right=True, sort=dated),
        Column("msgs", 5, right=True, sort=Sort.MESSAGES),
        Column("cost", 7, right=True, sort=Sort.COST),
    ]
    for least, kept in ((64, fixed), (44, fixed[:2]), (30, fixed[1:2]), (0, [])):
        if width >= least:  # the fewer there is room for, the more useful they are
            fixed = list(kept)
            break
    spare = width - 3 - _room(fixed) - 40
    if scope is not Scope.FOLDER and spare >= 16:
        fixed.insert(1, Column("folder", min(28, spare - _GAP)))
        spare -= fixed[1].width + _GAP
    if spare >= 24:
        fixed.insert(-3, Column("model", min(24, spare - _GAP)))
    title = max(min(width - 3 - _room(fixed), _MOST_TITLE), 1)
    return [Column("title", title, sort=Sort.TITLE), *fixed]


def _room(fixed: list[Column]) -> int:
    return sum(column.width + _GAP for column in fixed)


def heading(shown: list[Column], sort: Sort) -> list[Cell]:
    """Return the names of the columns; the one that is sorted by has an arrow."""
    cells = [Cell("sign", "   ")]
    for column in shown:
        arrow = "" if column.sort is not sort else "▴" if sort is Sort.TITLE else "▾"
        name = f"{arrow}{column.name}" if column.right else f"{column.name}{arrow}"
        cells += [Cell("heading", _padded(name, column)), Cell("gap", " " * _GAP)]
    return cells[:-1]


def line(row: PickerRow, shown: list[Column], now: datetime) -> list[Cell]:
    """Return the cells of a row."""
    cells = [Cell("sign", f" {SIGNS.get(row.standing, '?')} ")]
    for column in shown:
        if column.name == "title":
            cells += _title(row, column)
        else:
            cells.append(Cell(column.name, _padded(_text(row, column, now), column)))
        cells.append(Cell("gap", " " * _GAP))
    return cells[:-1]


def _title(row: PickerRow, column: Column) -> list[Cell]:
    """Return the title, and what there is room for of the tags."""
    tags = said_tags(row)
    title = plain(row.title)
    room = column.width - cell_len(title) - _GAP
    if not tags or room < 4:
        return [Cell("title", _padded(title, column))]
    said = cut(plain(tags), room)
    left = column.width - cell_len(said)
    return [Cell("title", _padded(title, Column("", left))), Cell("tags", _guarded(said))]


def said_tags(row: PickerRow) -> str:
    """Return a session's tags as one line; it begins with ``foreign`` if it is from elsewhere."""
    mark = ["foreign"] if row.summary.foreign else []
    return one_line(" ".join([*mark, *(f"#{each}" for each in row.summary.tags)]))


def _text(row: PickerRow, column: Column, now: datetime) -> str:
    summary = row.summary
    match column.name:
        case "state":
            said = WORDS.get(row.standing, row.standing)
        case "folder":
            said = cut_left(short_path(summary.workspace), column.width)
        case "model":
            said = one_line(summary.model or "")
        case "msgs":
            said = count(summary.messages)
        case "cost":
            said = cost(summary.cost_usd, summary.totals.unpriced)
        case name:
            said = age(summary.started if name == "started" else summary.updated, now)
    return said


def _padded(text: str, column: Column) -> str:
    text = cut(plain(text), column.width)
    padding = " " * (column.width - cell_len(text))
    text = _guarded(text)
    return padding + text if column.right else text + padding


def plain(text: str) -> str:
    """Return text whose width every terminal agrees on."""
    return _JOINERS.sub("", text)


def cut(text: str, width: int) -> str:
    """Return what of a text fits into so many cells, with a sign if that is not all."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - 1, 0)).rstrip(" ") + "…" if width > 0 else ""


def cut_left(text: str, width: int) -> str:
    """Return the end of a text, as a path's is what tells it from others."""
    if cell_len(text) <= width:
        return text
    while text and cell_len(text) > width - 1:
        text = text[1:]
    return f"…{text}" if width > 0 else ""


def _guarded(text: str) -> str:
    """Return text that keeps its place on a line, also in a terminal that turns directions.

    There, numbers behind a text from right to left would move to its other side.
    """
    if any(unicodedata.bidirectional(each) in ("R", "AL", "AN") for each in text):
        return f"{_LEFT_TO_RIGHT}{text}{_LEFT_TO_RIGHT}"
    return text


# Values


def age(stamp: str, now: datetime) -> str:
    """Return how long ago something was, in short: ``now``, ``3m``, ``5h``, ``2d``, ``7w``."""
    try:
        then = datetime.fromisoformat(stamp)
    except ValueError:
        return "?"
    seconds = int((now - then).total_seconds()) if then.tzinfo else 0
    for unit, size in _UNITS:
        if seconds >= size * _FIRST_OF.get(unit, 1):
            return f"{seconds // size}{unit}"
    return f"{seconds // 60}m" if seconds >= 60 else "now"


def cost(usd: float, unpriced: int) -> str:
    """Return what a session cost; nothing if nothing was asked, ``$?`` if no price is known."""
    if usd <= 0:
        return "$?" if unpriced else ""
    if usd < 0.01:
        return "<$0.01"
    return f"${usd:.2f}" if usd < 1000 else f"${usd:,.0f}"


def count(number: int) -> str:
    """Return a number in at most five characters."""
    if number < 10_000:
        return str(number)
    return f"{number // 1000}k" if number < 1_000_000 else f"{number // 1_000_000}M"


def moment(stamp: str) -> str:
    """Return a point in time for people, in their own time zone."""
    try:
        then = datetime.fromisoformat(stamp).astimezone()
    except (ValueError, OverflowError):
        return "?"
    return then.strftime("%Y-%m-%d %H:%M")


def short_path(path: str | None) -> str:
    """Return a folder as one harmless line, with ``~`` for the home folder."""
    shown, home = path or "", str(Path.home())
    if shown == home or shown.startswith(f"{home}/"):
        shown = f"~{shown[len(home) :]}"
    return plain(one_line(shown))


def current_time() -> datetime:
    """Return the time that ages are counted from."""
    return datetime.now(UTC)


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
        self._rows: list[PickerRow] = []
        self._columns: list[Column] = []
        self._wanted = PickerFilter(Scope.FOLDER, Sort.UPDATED)
        self._cursor = 0
        self._empty = ""

    @property
    def chosen(self) -> PickerRow | None:
        """The row that is chosen, if there is any."""
        return self._rows[self._cursor] if self._rows else None

    def show(self, rows: list[PickerRow], wanted: PickerFilter, *, first: bool = False) -> None:
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
