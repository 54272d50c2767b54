"""The keys of the chat; everything else is the editor's own (Emacs keys, history, search)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit.application import get_app
from prompt_toolkit.filters import (
    Condition,
    FilterOrBool,
    completion_is_selected,
    is_searching,
)
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from holdfast.tui.chat.choices import ChoicePrompt
from holdfast.tui.chat.exit import ask_to_leave
from holdfast.tui.chat.rewind_command import begin_rewind

if TYPE_CHECKING:
    from holdfast.tui.chat.chat import Chat

_FOLLOWS_SECONDS = 0.35  # between two letters of a word there is less

HELP = (
    ("Enter", "send; Alt+Enter or Ctrl+J starts a new line"),
    ("Ctrl+C", "cancel the turn; twice: cancel and exit"),
    ("Ctrl+D", "exit; you can let a turn continue"),
    ("Ctrl+Z", "suspend the chat; the turn continues"),
    ("Ctrl+O", "unfold the last shortened text: a thought, a tool's output"),
    ("Ctrl+G", "write the prompt in your editor ($VISUAL, $EDITOR)"),
    ("↑ ↓ Ctrl+R", "earlier prompts; on an empty line, edit a queued prompt"),
    ("Esc Esc", "undo prompts; Esc closes a question that can be closed"),
    ("@ and Tab", "complete a file name; / and Tab: a command"),
)


def bindings(chat: Chat) -> KeyBindings:
    """Return the keys of a chat."""
    keys = KeyBindings()
    pressed = _Pressed(chat)
    typing = Condition(lambda: get_app().layout.has_focus(chat.prompt.buffer))
    empty = typing & Condition(lambda: not chat.prompt.buffer.text)
    asked = empty & Condition(lambda: chat.choices.current is not None)
    here = Condition(lambda: not chat.prompt.away)
    leavable = empty & Condition(lambda: chat.choices.can_go_back)
    editing = typing & Condition(lambda: chat.outbox.editing is not None)
    table: list[tuple[tuple[str, ...], FilterOrBool, Callable[[str], None]]] = [
        (("enter",), typing & ~completion_is_selected, pressed.enter),
        (("enter",), typing & completion_is_selected, pressed.take_completion),
        (("escape", "enter"), typing, pressed.new_line),
        (("c-j",), typing, pressed.new_line),
        (("c-c",), ~is_searching, pressed.interrupt),
        (("<sigint>",), here, pressed.interrupt),
        (("c-d",), empty, pressed.leave),
        (("c-z",), True, pressed.suspend),
        (("c-o",), True, pressed.unfold),
        (("c-g",), typing, pressed.edit),
        (("c-x", "c-e"), typing, pressed.edit),
        (("up",), empty, pressed.up),
        (("escape",), editing, pressed.stop_editing),
        (("escape",), leavable & ~editing, pressed.go_back),
        (("escape", "escape"), typing & ~editing & ~leavable, pressed.rewind),
        ((Keys.Any,), asked, pressed.choose),
        # No mouse was asked for; colours that are pasted look like one that speaks badly.
        ((Keys.Vt100MouseEvent,), True, pressed.nothing),
    ]
    for names, when, do in table:
        keys.add(*names, filter=when)(_bound(do))
    return keys


def _bound(do: Callable[[str], None]) -> Callable[[KeyPressEvent], None]:
    return lambda event: do(event.data)


class _Pressed:
    """What each key does; given what was typed."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._letter = _Letter(chat)

    def enter(self, _: str) -> None:
        buffer = self._chat.prompt.buffer
        if self._letter.entered():
            return
        if not buffer.text:
            self._chat.decide("\r")
        elif buffer.document.text_before_cursor.endswith("\\"):  # as in a shell
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            self._chat.accept()

    def take_completion(self, _: str) -> None:
        buffer = self._chat.prompt.buffer
        buffer.complete_state = None
        if buffer.text.startswith("/"):  # a command is whole with its name
            self._chat.accept()

    def nothing(self, _: str) -> None:
        pass

    def new_line(self, _: str) -> None:
        self._chat.prompt.buffer.newline(copy_margin=False)

    def choose(self, typed: str) -> None:
        self._chat.prompt.buffer.insert_text(typed)
        if self._chat.choices.offers(typed):
            self._letter.typed(typed)

    def interrupt(self, _: str) -> None:
        self._chat.interrupt()

    def leave(self, _: str) -> None:
        ask_to_leave(self._chat)

    def suspend(self, _: str) -> None:
        self._chat.prompt.suspend()

    def unfold(self, _: str) -> None:
        self._chat.unfold()

    def edit(self, _: str) -> None:
        self._chat.prompt.edit(self._chat.target.launch.workspace)

    def up(self, _: str) -> None:
        if not self._chat.outbox.edit():
            self._chat.prompt.buffer.auto_up()

    def stop_editing(self, _: str) -> None:
        self._chat.outbox.stop_editing()

    def go_back(self, _: str) -> None:
        self._chat.choices.go_back()

    def rewind(self, _: str) -> None:
        self._chat.soon(begin_rewind(self._chat))


class _Letter:
    """A key of a choice that was pressed: it decides if no other key follows, or Enter does.

    Until then it is the first letter of what may become a sentence, and stands where one is typed.
    """

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._key = ""
        self._choice: ChoicePrompt | None = None
        self._followed = 0
        self._timer: asyncio.TimerHandle | None = None

    def typed(self, key: str) -> None:
        """Wait whether anything follows a key that is in the input now."""
        self._forget()
        self._key, self._choice, self._followed = key, self._chat.choices.current, 0
        get_app().key_processor.before_key_press += self._next_key
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_FOLLOWS_SECONDS, self._decide)

    def entered(self) -> bool:
        """Decide at once if Enter, which was just pressed, came right behind the key."""
        return self._followed == 1 and self._decide()

    def _next_key(self, _: object) -> None:
        self._followed += 1
        if self._timer is not None:
            self._timer.cancel()
        if self._followed > 1:
            self._forget()

    def _decide(self) -> bool:
        key, choice = self._key, self._choice
        self._forget()
        buffer = self._chat.prompt.buffer
        if choice is None or self._chat.choices.current is not choice or buffer.text != key:
            return False
        decided = self._chat.decide(key)
        if decided:
            buffer.text = ""
        return decided

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            get_app().key_processor.before_key_press -= self._next_key
        self._key, self._choice, self._followed, self._timer = "", None, 0, None
