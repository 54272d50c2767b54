"""The screen of a picker: which key does what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import Input

from holdfast.errors import HoldfastError
from holdfast.runtime.tools.terminal import for_terminal, on_one_line
from holdfast.tui.picker_actions import delete, rename, restore, tag, tags_of
from holdfast.tui.picker_dialogs import Confirmation, Keys, Question, Reading
from holdfast.tui.picker_face import WIDE
from holdfast.tui.picker_informed import InformedScreen
from holdfast.tui.picker_list import SessionList
from holdfast.tui.picker_model import Picked, Row, one_line
from holdfast.tui.picker_preview import facts

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
            self.app.push_screen(Reading(facts(row, hit)), self._read)
            self.preview_soon()

    def _read(self, resume: bool | None) -> None:  # noqa: FBT001  Textual calls it so
        if resume:
            self.action_pick("resume")

    def action_keys(self) -> None:
        """Say which key does what."""
        self.unsay()
        self.app.push_screen(Keys())

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
                f"Nothing of {row.id} can be read ({row.summary.problem}); "
                f"holdfast verify {row.id} says more."
            )
        else:
            self.app.exit(Picked(row.id, how))

    # Changes

    def action_rename(self) -> None:
        """Ask for a title."""
        self.unsay()
        if (row := self.table.chosen) is not None:
            now = one_line(row.summary.title or "")
            question = Question("Title", now, "Enter rename   Esc back")
            self.app.push_screen(question, lambda title: self._rename(row, now, title))

    def _rename(self, row: Row, now: str, title: str | None) -> None:
        if title is not None and title != now:
            self._change(lambda: rename(self.store, row, title))

    def action_tag(self) -> None:
        """Ask for tags."""
        self.unsay()
        if (row := self.table.chosen) is not None:
            tags = for_terminal(" ".join(row.summary.tags))
            question = Question("Tags, with spaces between", tags, "Enter tag   Esc back")
            self.app.push_screen(question, lambda words: self._tag(row, words))

    def _tag(self, row: Row, words: str | None) -> None:
        if words is not None and tags_of(words) != row.summary.tags:
            self._change(lambda: tag(self.store, row, words))

    def action_delete(self) -> None:
        """Ask whether to delete."""
        self.unsay()
        if (row := self.table.chosen) is not None:
            what = f"Delete {on_one_line(row.title, 60)}? It goes to the trash."
            self.app.push_screen(
                Confirmation(what, "y delete   n keep"), lambda yes: self._delete(row, yes=yes)
            )

    def _delete(self, row: Row, *, yes: bool | None) -> None:
        def done() -> None:
            self.deleted.append(row)
            self.catalogue.drop(row.id)

        if yes:
            self._change(lambda: delete(self.store, row), done)

    def action_restore(self) -> None:
        """Bring back what was deleted last."""
        if not self.deleted:
            self.say("Nothing was deleted here.")
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
