"""The screen of a picker: which key does what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input

from holdfast.errors import HoldfastError
from holdfast.keeper.edit import delete_session, rename_session, tag_session
from holdfast.keeper.text import printable
from holdfast.model.sanitize import for_terminal, quoted_line
from holdfast.store.store import Store
from holdfast.tui.picker import loader as picker_reading
from holdfast.tui.picker.dialogs import (
    Confirmation,
    InputDialog,
    KeysDialog,
    PreviewDialog,
    passages_text,
)
from holdfast.tui.picker.layout import WIDE, PickerFace
from holdfast.tui.picker.loader import BackgroundTask, News
from holdfast.tui.picker.model import Picked, PickerRow, is_searchable, one_line
from holdfast.tui.picker.preview import Preview, facts, preview
from holdfast.tui.picker.table import SessionList

_PREVIEW_SECONDS = 0.08
_LOOK_SECONDS = 5.0
_ANSWER_SECONDS = 5.0


class Told(Message):
    """A thread has something to say."""

    def __init__(self, news: News) -> None:
        super().__init__()
        self.news = news


class InformedScreen(PickerFace):
    """Reads sessions, texts and previews in threads, and shows them as they come."""

    def __init__(self, store: Store, folder: Path, query: str) -> None:
        super().__init__(folder, query)
        self.store = store
        self._watch = picker_reading.SessionWatch(store)
        self._standings: dict[str, str] | None = None
        self._works: dict[str, BackgroundTask] = {}
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

    def _work(self, name: str, do: Callable[[BackgroundTask], None]) -> None:
        """Begin something, in the place of what is under way of that name."""
        if name in self._works:
            self._works[name].give_up()
        self._works[name] = BackgroundTask(do, self._tell)

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
        elif self.is_wide or isinstance(self.app.screen, PreviewDialog):
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
            case picker_reading.SearchResult() as found:
                self._found(found)
            case Preview() as read:
                self._previewed(read)
            case picker_reading.Failed(error=error):
                self._failed(error)

    def _loaded(self, rows: list[PickerRow]) -> None:
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

    def _found(self, found: picker_reading.SearchResult) -> None:
        if found.query == self.catalogue.wanted.query:
            self.progress = ""
            self.catalogue.take_hits(found.query, found.hits)
            self.show_all()

    def _previewed(self, read: Preview) -> None:
        row = self.table.chosen
        if row is None or row.id != read.session:
            return
        if isinstance(self.app.screen, PreviewDialog):
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


_DEBOUNCE_SECONDS = 0.15


class PickerScreen(InformedScreen):
    """All of the picker."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "pick('resume')", priority=True),
        Binding("ctrl+f", "pick('fork')", priority=True),
        Binding("ctrl+o", "pick('read')", priority=True),
        Binding("escape,ctrl+c", "leave", priority=True),
        Binding("up,ctrl+p", "move(-1)", priority=True),
        Binding("down,ctrl+n", "move(1)", priority=True),
        Binding("pageup", "turn_page(-1)", priority=True),
        Binding("pagedown", "turn_page(1)", priority=True),
        Binding("ctrl+home", "first", priority=True),
        Binding("ctrl+end", "last", priority=True),
        Binding("ctrl+up", "scroll_pane(-3)", priority=True),
        Binding("ctrl+down", "scroll_pane(3)", priority=True),
        Binding("tab", "widen", priority=True),
        Binding("ctrl+a", "all", priority=True),
        Binding("ctrl+s", "sort", priority=True),
        Binding("space", "preview", priority=True),
        Binding("f3", "preview", priority=True),
        Binding("ctrl+r", "rename", priority=True),
        Binding("ctrl+t", "tag", priority=True),
        Binding("ctrl+d", "delete", priority=True),
        Binding("ctrl+z", "restore", priority=True),
        Binding("question_mark", "keys", priority=True),
        Binding("f1", "keys", priority=True),
        Binding("f5", "load", priority=True),
    ]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let no key do anything before there is a list, or after."""
        return not self.is_gone and super().check_action(action, parameters)

    def on_key(self, _: events.Key) -> None:
        """Be done with what was said."""
        self.unsay()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Look for what is typed: in titles at once, in texts when the typing pauses."""
        event.stop()
        self.typed.typing = True
        if event.value.strip() == self.catalogue.wanted.query:
            return
        self.catalogue.search(event.value.strip())
        self.give_up_search()
        self.progress = ""
        self.unsay()
        self.show_all(first=True)
        self.soon("search", _DEBOUNCE_SECONDS, self.search_texts)

    def on_session_list_chosen(self, event: SessionList.Chosen) -> None:
        """Show what is to be shown of the row that is chosen now."""
        event.stop()
        self.show_lines()
        self.preview_soon()
        if event.decided:
            self.action_pick("resume")

    def _moved(self) -> None:
        self.typed.typing = False
        self.unsay()

    def action_move(self, lines: int) -> None:
        """Choose another row."""
        self._moved()
        self.table.move(lines)

    def action_turn_page(self, pages: int) -> None:
        """Choose a row a page further."""
        self._moved()
        self.table.move(pages * self.table.page)

    def action_first(self) -> None:
        """Choose the first row."""
        self._moved()
        self.table.move(-len(self.catalogue.rows))

    def action_last(self) -> None:
        """Choose the last row."""
        self._moved()
        self.table.move_to_end()

    def action_scroll_pane(self, lines: int) -> None:
        """Move the preview."""
        self.query_one("#pane").scroll_relative(y=lines, animate=False)

    def action_widen(self) -> None:
        """Go to the next scope."""
        self.unsay()
        self.catalogue.widen()
        self.show_all(first=True)

    def action_all(self) -> None:
        """Show all, or no longer all."""
        self.unsay()
        self.catalogue.toggle_all()
        self.show_all(first=True)

    def action_sort(self) -> None:
        """Go to the next order."""
        self.unsay()
        self.catalogue.sort()
        self.show_all(first=True)

    def action_preview(self) -> None:
        """Show or hide the preview: beside the list, or on the whole screen."""
        self.unsay()
        if self.size.width >= WIDE:
            self._pane_wanted = not self._pane_wanted
            self.lay_out()
        elif (row := self.table.chosen) is not None:
            hit = self.catalogue.found.get(row.id)
            self.app.push_screen(PreviewDialog(facts(row, hit)), self._read)
            self.preview_soon()

    def _read(self, resume: bool | None) -> None:  # noqa: FBT001  Textual calls it so
        if resume:
            self.action_pick("resume")

    def action_keys(self) -> None:
        """Say which key does what."""
        self.unsay()
        self.app.push_screen(KeysDialog())

    def action_leave(self) -> None:
        """Choose nothing."""
        self.app.exit(None)

    def action_pick(self, how: str) -> None:
        """Choose the row, and be done."""
        row = self.table.chosen
        if row is None:
            return
        if row.unreadable:
            self.say(
                f"Nothing in {row.id} can be read ({row.summary.problem}). "
                f"For details: holdfast verify {row.id}"
            )
        else:
            self.app.exit(Picked(row.id, how))

    # Changes

    def action_rename(self) -> None:
        """Ask for a title."""
        self.unsay()
        if (row := self.table.chosen) is not None:
            now = one_line(row.summary.title or "")
            question = InputDialog("Title", now, "Enter rename   Esc back")
            self.app.push_screen(question, lambda title: self._rename(row, now, title))

    def _rename(self, row: PickerRow, now: str, title: str | None) -> None:
        if title is not None and title != now:
            self._change(lambda: rename(self.store, row, title))

    def action_tag(self) -> None:
        """Ask for tags."""
        self.unsay()
        if (row := self.table.chosen) is not None:
            tags = for_terminal(" ".join(row.summary.tags))
            question = InputDialog("Tags, separated by spaces", tags, "Enter tag   Esc back")
            self.app.push_screen(question, lambda words: self._tag(row, words))

    def _tag(self, row: PickerRow, words: str | None) -> None:
        if words is not None and tags_of(words) != row.summary.tags:
            self._change(lambda: tag(self.store, row, words))

    def action_delete(self) -> None:
        """Ask whether to delete."""
        self.unsay()
        if (row := self.table.chosen) is not None:
            what = f"Move {quoted_line(row.title, 60)} to the trash?"
            self.app.push_screen(
                Confirmation(what, "y delete   n keep"), lambda yes: self._delete(row, yes=yes)
            )

    def _delete(self, row: PickerRow, *, yes: bool | None) -> None:
        def done() -> None:
            self.deleted.append(row)
            self.catalogue.drop(row.id)

        if yes:
            self._change(lambda: delete(self.store, row), done)

    def action_restore(self) -> None:
        """Bring back what was deleted last."""
        if not self.deleted:
            self.say("No session was deleted here. To list the trash: holdfast restore")
            return
        row = self.deleted[-1]

        def done() -> None:
            self.deleted.remove(row)
            self.catalogue.put_back(row)
            self.show_all()
            self.table.choose(row.id)

        self._change(lambda: restore(self.store, row), done)

    def _change(self, do: Callable[[], str], done: Callable[[], object] = lambda: None) -> None:
        self.run_worker(self._changing(do, done), group="change")

    async def _changing(self, do: Callable[[], str], done: Callable[[], object]) -> None:
        try:
            said = await asyncio.to_thread(do)  # is waited for, also by who leaves meanwhile
        except HoldfastError as error:
            self.say(str(error))
            return
        done()
        self.show_all()
        self.say(said)
        self.action_load()


# What the keys change; all of it blocks


def rename(store: Store, row: PickerRow, title: str) -> str:
    """Set a session's title, or remove it if it is empty; return a sentence about it.

    Raises:
        HoldfastError: it was not changed.
    """
    title = " ".join(printable(title).split())
    rename_session(store, row.id, title, optional=True, timeout_seconds=_ANSWER_SECONDS)
    return f"Renamed to {quoted_line(title)}." if title else "The first prompt is the title again."


def tag(store: Store, row: PickerRow, words: str) -> str:
    """Give a session these tags and no others; return a sentence about it.

    Raises:
        HoldfastError: it was not changed.
    """
    tags = tags_of(words)
    tag_session(store, row.id, add=tags, replace=True, timeout_seconds=_ANSWER_SECONDS)
    named = " ".join(f"#{each}" for each in tags)
    return f"Tagged {quoted_line(named)}." if tags else "It has no tags now."


def tags_of(words: str) -> list[str]:
    """Return the tags in what was typed: words, each once, with or without a ``#``."""
    cleaned = (word.strip("#,") for word in words.replace(",", " ").split())
    return list(dict.fromkeys(word for word in cleaned if word))


def delete(store: Store, row: PickerRow) -> str:
    """Move a session to the trash; return a sentence about it.

    Raises:
        HoldfastError: it was not deleted.
    """
    delete_session(store, row.id)
    return f"{quoted_line(row.title, 40)} is in the trash; Ctrl+Z restores it."


def restore(store: Store, row: PickerRow) -> str:
    """Restore a session from the trash; return a sentence about it.

    Raises:
        HoldfastError: it was not restored.
    """
    store.restore(row.id)
    return f"{quoted_line(row.title, 40)} is restored."
