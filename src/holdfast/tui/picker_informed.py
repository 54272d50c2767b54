"""A picker's screen and what it hears from its threads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rich.text import Text
from textual.message import Message
from textual.timer import Timer

from holdfast.errors import HoldfastError
from holdfast.store.local import LocalStore
from holdfast.tui import picker_reading
from holdfast.tui.picker_catalogue import is_searchable
from holdfast.tui.picker_dialogs import Reading, passages_text
from holdfast.tui.picker_face import PickerFace
from holdfast.tui.picker_model import Row
from holdfast.tui.picker_preview import Preview, preview
from holdfast.tui.picker_reading import News, Work

_PREVIEW_SECONDS = 0.08
_LOOK_SECONDS = 5.0


class Told(Message):
    """A thread has something to say."""

    def __init__(self, news: News) -> None:
        super().__init__()
        self.news = news


class InformedScreen(PickerFace):
    """Reads sessions, texts and previews in threads, and shows them as they come."""

    def __init__(self, store: LocalStore, folder: Path, query: str) -> None:
        super().__init__(folder, query)
        self.store = store
        self._watch = picker_reading.Watch(store)
        self._standings: dict[str, str] | None = None
        self._works: dict[str, Work] = {}
        self._pauses: dict[str, Timer] = {}
        self._previewed_id = ""

    def on_mount(self) -> None:
        """Begin to read; the screen is there already."""
        self.typed.cursor_blink = False  # over a slow line every blink is a stutter
        self.typed.focus()
        self._work("locate", picker_reading.locate(self.catalogue.place.folder))
        self.action_load()
        self.set_interval(_LOOK_SECONDS, self._look)

    def on_unmount(self) -> None:
        """Want no more of what is being read."""
        for work in self._works.values():
            work.give_up()

    def _work(self, name: str, do: Callable[[Work], None]) -> None:
        """Begin something, in the place of what is under way of that name."""
        if name in self._works:
            self._works[name].give_up()
        self._works[name] = Work(do, self._tell)

    def _tell(self, news: News) -> None:
        with suppress(RuntimeError):  # the loop has ended in this very moment
            self.post_message(Told(news))

    def soon(self, name: str, seconds: float, do: Callable[[], None]) -> None:
        """Do something when nothing of that name was wanted for a while."""
        if name in self._pauses:
            self._pauses[name].stop()
        self._pauses[name] = self.set_timer(seconds, do)

    def action_load(self) -> None:
        """Read all sessions again."""
        if not self.catalogue.loaded:
            self.progress = "reading sessions …"
        do = picker_reading.load(self.store, self.catalogue.place, self._standings or {})
        self._work("load", do)

    def _look(self) -> None:
        """See how sessions stand, unless that is still being done."""
        if "look" not in self._works or self._works["look"].over:
            self._work("look", self._watch.look([row.summary for row in self.catalogue.rows]))

    def search_texts(self) -> None:
        """Look for the query in texts."""
        query = self.catalogue.wanted.query
        self.progress = ""
        if is_searchable(query):
            self._work("search", picker_reading.search(self.store, query))
        else:
            self.give_up_search()

    def give_up_search(self) -> None:
        """Want no more of what was searched for."""
        if "search" in self._works:
            self._works["search"].give_up()

    def preview_soon(self) -> None:
        """Read a preview of the chosen row, unless another is chosen at once."""
        self.soon("preview", _PREVIEW_SECONDS, self._read_preview)

    def _read_preview(self) -> None:
        if self.is_gone:
            return
        row = self.table.chosen
        if row is None:
            self.put("passages", Text())
        elif self.is_wide or isinstance(self.app.screen, Reading):
            self._work("preview", preview(self.store, row, self.catalogue.found.get(row.id)))

    def on_told(self, message: Told) -> None:
        """Hear what a thread says."""
        if self.is_gone:
            return
        match message.news:
            case picker_reading.Loading(done=done, total=total):
                self.progress = f"reading sessions: {done:,} of {total:,}"
                self.show_lines()
            case picker_reading.Loaded(rows=rows):
                self._loaded(rows)
            case picker_reading.Located(projects=projects):
                self.catalogue.take_projects(projects)
                self.show_all()
            case picker_reading.Standings(known=known):
                self._stood(known)
            case picker_reading.Searching() as searching:
                self._searching(searching)
            case picker_reading.Found() as found:
                self._found(found)
            case Preview() as read:
                self._previewed(read)
            case picker_reading.Failed(error=error):
                self._failed(error)

    def _loaded(self, rows: list[Row]) -> None:
        is_first = not self.catalogue.loaded
        self.progress = ""
        self.catalogue.take_rows(rows)
        self.show_all(first=is_first)
        self._look()
        if is_first:
            self.search_texts()

    def _stood(self, known: dict[str, str]) -> None:
        if known == self._standings:
            return
        is_first, self._standings = self._standings is None, known
        self.catalogue.take_standings(known)
        self.show_all()
        if not is_first:
            self.action_load()  # whoever came or went has written something

    def _searching(self, searching: picker_reading.Searching) -> None:
        if searching.query == self.catalogue.wanted.query:
            part = 100 * searching.done // max(searching.total, 1)
            self.progress = f"searching texts: {part} %"
            self.show_lines()

    def _found(self, found: picker_reading.Found) -> None:
        if found.query == self.catalogue.wanted.query:
            self.progress = ""
            self.catalogue.take_hits(found.query, found.hits)
            self.show_all()

    def _previewed(self, read: Preview) -> None:
        row = self.table.chosen
        if row is None or row.id != read.session:
            return
        if isinstance(self.app.screen, Reading):
            self.app.screen.show(read.passages)
        self.put("passages", passages_text(read.passages))
        if row.id != self._previewed_id:
            self._previewed_id = row.id
            self.query_one("#pane").scroll_home(animate=False)

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, HoldfastError):
            raise error
        self.progress = ""
        self.say(str(error))
