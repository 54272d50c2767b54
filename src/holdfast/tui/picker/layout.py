"""The face of a picker: what is on its screen, and how it is laid out."""

from __future__ import annotations

from pathlib import Path

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import Screen
from textual.widgets import Input, Static

from holdfast.model.sanitize import for_terminal
from holdfast.store.git_project import workspace_path
from holdfast.store.types import Hit
from holdfast.tui.picker.model import Catalogue, PickerPlace, PickerRow, one_line, what_is_shown
from holdfast.tui.picker.table import Heading, SessionList, cut_left, plain, said_tags, short_path

_KEYS = (
    "Enter resume",
    "Space preview",
    "Tab scope",
    "^S sort",
    "^R rename",
    "^D delete",
    "? keys",
    "^T tag",
    "^F fork",
    "^O read-only",
    "^A all",
    "Esc exit",
)


def scopes_line(catalogue: Catalogue, width: int) -> Text:
    """Return the scopes with how much each has, and at the right where we are."""
    text = Text(" ", no_wrap=True, overflow="ellipsis")
    for scope in catalogue.place.scopes:
        is_chosen = scope is catalogue.wanted.scope
        counted = f" {catalogue.view.within(scope):,}" if catalogue.loaded else ""
        label = f"[{scope.value}{counted}]"
        text.append(
            label if is_chosen else f" {label[1:-1]} ", Style(bold=is_chosen, dim=not is_chosen)
        )
        text.append(" ")
    room = width - cell_len(text.plain) - 2
    where = cut_left(short_path(catalogue.place.folder), room) if room > 8 else ""
    text.append(" " * max(width - cell_len(text.plain) - cell_len(where) - 1, 0))
    text.append(where, Style(dim=True))
    return text


def detail_line(row: PickerRow | None, hit: Hit | None, *, beside_preview: bool) -> str:
    """Return what else there is to say about the chosen row."""
    if row is None or beside_preview:
        return ""
    summary = row.summary
    if hit is not None:
        return f" found: …{plain(one_line(hit.snippet))}…"
    said = [
        one_line(summary.problem or ""),
        short_path(summary.workspace),
        plain(one_line(summary.model or "")),
        plain(said_tags(row)),
    ]
    return " " + " · ".join(each for each in said if each)


def said_line(catalogue: Catalogue, deleted: int, progress: str) -> str:
    """Return how much is shown and what is not, and what is still being done."""
    said = what_is_shown(
        catalogue.view,
        catalogue.wanted,
        catalogue.place,
        deleted=deleted,
        searching=catalogue.searching,
    )
    return f"{said} · {progress}" if progress else said


def empty_line(catalogue: Catalogue) -> str:
    """Return what stands in the place of a list without rows."""
    if not catalogue.loaded or catalogue.searching:
        return ""
    if not catalogue.rows:
        return "There are no sessions yet."
    return "No session here matches." if catalogue.wanted.query else "No sessions here."


def keys_line(width: int) -> str:
    """Return the keys that there is room for, the most wanted first."""
    line = ""
    for key in _KEYS:
        longer = f"{line}  {key}" if line else f" {key}"
        if cell_len(longer) > width:
            break
        line = longer
    return line


WIDE = 120
"""Columns from which on a preview has its place beside the list."""


class QueryInput(Input):
    """What is searched for. Two keys mean something else while nobody is typing: Space and ``?``.

    ``typing`` tells whether the last key was for the query.
    """

    typing = False

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Tell whether a key is for the query."""
        if key == "space" and not (self.typing and self.value):
            return False
        if key == "question_mark" and not self.value:
            return False
        return super().check_consume_key(key, character)


class PickerFace(Screen[None]):
    """The screen with all its lines, showing what ``catalogue`` says."""

    DEFAULT_CSS = """
    #scopes, #ask, #detail, #said, #keys { height: 1; }
    #detail.notice { height: auto; max-height: 4; padding: 0 1; text-style: bold; }
    #ask Static { width: 3; text-style: bold; }
    #ask Input { width: 1fr; }
    Input > .input--cursor { text-style: reverse; color: ansi_default; background: ansi_default; }
    #body { height: 1fr; margin-top: 1; }
    #table { width: 3fr; }
    #pane { width: 2fr; padding: 0 1; border-left: solid ansi_bright_black; }
    SessionList, #pane { scrollbar-size-vertical: 1; scrollbar-color: ansi_bright_black;
        scrollbar-background: ansi_default; }
    #keys, #detail { text-style: dim; }
    """

    def __init__(self, folder: Path, query: str) -> None:
        super().__init__()
        self.catalogue = Catalogue(PickerPlace(workspace_path(folder)), query.strip())
        self.deleted: list[PickerRow] = []
        self.progress = ""
        """What is being read just now."""
        self._asked = query
        self._notice = ""
        self._pane_wanted = True

    def compose(self) -> ComposeResult:
        """Make it."""
        names = Heading()
        yield Static(id="scopes", markup=False)
        with Horizontal(id="ask"):
            yield Static(" /", markup=False)
            yield QueryInput(
                self._asked,
                placeholder="type to search titles and texts",
                select_on_focus=False,
                compact=True,
            )
        with Horizontal(id="body"):
            with Vertical(id="table"):
                yield names
                yield SessionList(names)
            with VerticalScroll(id="pane", can_focus=False):
                yield Static(id="passages", markup=False)
        yield Static(id="detail", markup=False)
        yield Static(id="said", markup=False)
        yield Static(id="keys", markup=False)

    @property
    def is_gone(self) -> bool:
        """Whether it is not there yet, or being taken down: what comes now, nobody sees."""
        return not self.query(SessionList)

    @property
    def typed(self) -> QueryInput:
        """The line that is typed in."""
        return self.query_one(QueryInput)

    @property
    def table(self) -> SessionList:
        """The list of sessions."""
        return self.query_one(SessionList)

    @property
    def is_wide(self) -> bool:
        """Whether the preview has a place of its own now."""
        return self._pane_wanted and self.size.width >= WIDE

    def on_resize(self, _: events.Resize) -> None:
        """Find a place for everything."""
        self.lay_out()

    def lay_out(self) -> None:
        """Show the preview beside the list, where there is room and it is wanted."""
        pane = self.query_one("#pane")
        if pane.display != self.is_wide:
            pane.display = self.is_wide
        self.show_lines()

    def show_all(self, *, first: bool = False) -> None:
        """Show what the catalogue says now."""
        catalogue = self.catalogue
        self.table.show(catalogue.view.rows, catalogue.wanted, first=first)
        self.show_lines()

    def show_lines(self) -> None:
        """Show what the lines around the list say now."""
        self.table.say_if_empty(empty_line(self.catalogue))
        catalogue, width = self.catalogue, self.size.width
        chosen = self.table.chosen
        said = (
            self.progress
            if not catalogue.loaded
            else said_line(catalogue, len(self.deleted), self.progress)
        )
        hit = catalogue.found.get(chosen.id) if chosen is not None else None
        if self._notice:
            self.put("detail", Text(for_terminal(self._notice)))
        else:
            self.put("detail", _line(detail_line(chosen, hit, beside_preview=self.is_wide)))
        self.query_one("#detail").set_class(bool(self._notice), "notice")
        self.put("scopes", scopes_line(catalogue, width))
        self.put("said", _line(f" {said}"))
        self.put("keys", _line(keys_line(width)))

    def put(self, name: str, content: Text) -> None:
        """Show something in one of the lines, or in the preview."""
        self.query_one(f"#{name}", Static).update(content)

    def unsay(self) -> None:
        """Be done with what was said."""
        if self._notice:
            self._notice = ""
            self.show_lines()

    def say(self, sentence: str) -> None:
        """Say something until the next key."""
        self._notice = sentence
        self.show_lines()


def _line(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")
