"""The face of a picker: what is on its screen, and how it is laid out."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import Screen
from textual.widgets import Input, Static

from holdfast.runtime.tools.terminal import for_terminal
from holdfast.store.project import workspace_path
from holdfast.tui.picker_catalogue import Catalogue
from holdfast.tui.picker_lines import detail_line, empty_line, keys_line, said_line, scopes_line
from holdfast.tui.picker_list import Heading, SessionList
from holdfast.tui.picker_model import Place, Row

WIDE = 120
"""Columns from which on a preview has its place beside the list."""


class Query(Input):
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
        self.catalogue = Catalogue(Place(workspace_path(folder)), query.strip())
        self.deleted: list[Row] = []
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
            yield Query(
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
    def typed(self) -> Query:
        """The line that is typed in."""
        return self.query_one(Query)

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
