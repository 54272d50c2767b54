"""The bottom of the terminal: what still moves, the queue, a choice, the input, the status line.

Everything above belongs to the terminal's own scrollback; ``show`` puts text there for good. The
terminal is never asked where its cursor is: over a slow line every answer would be waited for.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, ThreadedCompleter
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History, ThreadedHistory
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import (
    AnyContainer,
    BufferControl,
    CompletionsMenu,
    ConditionalContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from holdfast.runtime.config.secret_variables import secrets_in
from holdfast.store.programs import path_outside
from holdfast.tui.chat.inline_app import InlineApplication

_MOST_INPUT_ROWS = 10
_MOST_MOVING_ROWS = 12
_REDRAW_SECONDS = 0.06
_TICK_SECONDS = 0.2
_USUAL_SIZE = Size(rows=24, columns=80)

_STYLE = Style.from_dict(
    {
        "dim": "fg:ansibrightblack",
        "saved": "fg:ansigreen",
        "warning": "bold fg:ansired",
        "choice": "fg:ansiyellow",
        "moving": "",
        "queue": "fg:ansibrightblack italic",
        "prompt": "bold",
        "completion-menu": "noinherit",
        "completion-menu.completion": "fg:default bg:default",
        "completion-menu.completion.current": "reverse",
        "completion-menu.meta.completion": "fg:ansibrightblack bg:default",
        "completion-menu.meta.completion.current": "reverse",
        "scrollbar.background": "",
        "scrollbar.button": "",
    }
)


class Shown(Protocol):
    """What the bottom shows; asked for at each redraw."""

    def moving(self, rows: int) -> str:
        """Return the end of what is unfinished."""

    def queue_lines(self) -> list[str]:
        """Return the prompts that wait."""

    def choice_lines(self) -> list[str]:
        """Return the choice that is to be made."""

    def status_parts(self, columns: int, tick: int) -> list[tuple[str, str]]:
        """Return the status line."""

    def busy(self) -> bool:
        """Tell whether anything runs."""


class Prompt:
    """The bottom of a terminal, with an input that is never waited for.

    ``bindings`` are the chat's own keys; they come before the editor's.
    """

    def __init__(
        self, shown: Shown, bindings: KeyBindings, completer: Completer, history: History
    ) -> None:
        self._shown = shown
        self._tick = 0
        self._pending: list[str] = []
        self._scheduled = False
        self.away = False  # in the user's editor
        self.label = "> "
        self.buffer = Buffer(
            completer=ThreadedCompleter(completer),
            complete_while_typing=True,
            history=ThreadedHistory(history),
            multiline=True,
            tempfile_suffix=".md",
        )
        self._app = InlineApplication(
            layout=self._layout(),
            key_bindings=bindings,
            style=_STYLE,
            output=Terminal(self._lost),
            input=create_input(always_prefer_tty=False),
            full_screen=False,
            erase_when_done=True,
            include_default_pygments_style=False,  # rich colours code; parsing it takes a while
            mouse_support=False,
            min_redraw_interval=_REDRAW_SECONDS,
            max_render_postpone_time=_REDRAW_SECONDS,
        )
        # A lone Esc is told from the beginning of a sequence by the time that follows.
        self._app.ttimeoutlen = 0.1
        self._app.timeoutlen = 0.5

    # The screen

    def _layout(self) -> Layout:
        search = SearchToolbar()
        moving = _Lines(self._moving)
        queue = _Lines(lambda: _tuples("class:queue", self._shown.queue_lines()))
        choice = _Lines(lambda: _tuples("class:choice", self._shown.choice_lines()))
        control = BufferControl(
            self.buffer,
            search_buffer_control=search.control,
            input_processors=[BeforeInput(lambda: self.label, style="class:prompt")],
            preview_search=True,
        )
        field = Window(
            control,
            height=Dimension(min=1, max=_MOST_INPUT_ROWS),
            wrap_lines=True,
            dont_extend_height=True,
        )
        status = Window(
            FormattedTextControl(self._status), height=1, wrap_lines=False, always_hide_cursor=True
        )
        rows: list[AnyContainer] = [
            moving.window,
            Window(height=1),
            queue.window,
            choice.window,
            field,
            search,
        ]
        return Layout(HSplit([*rows, CompletionsMenu(max_height=8), status]), focused_element=field)

    def _moving(self) -> StyleAndTextTuples:
        rows = max(min(_MOST_MOVING_ROWS, self.rows - _MOST_INPUT_ROWS), 1)
        text = self._shown.moving(rows)
        return [("class:moving", text)] if text else []

    def _status(self) -> StyleAndTextTuples:
        return [
            (f"class:{style}", text)
            for style, text in self._shown.status_parts(self.columns, self._tick)
        ]

    @property
    def columns(self) -> int:
        """The width of the terminal."""
        return max(self._app.output.get_size().columns, 20)

    @property
    def rows(self) -> int:
        """The height of the terminal."""
        return max(self._app.output.get_size().rows, 4)

    def show(self, text: str) -> None:
        """Put text above the bottom, for good; soon, together with what else comes at once."""
        self._pending.append(text)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._put)

    def _put(self) -> None:
        self._scheduled = False
        if self.away:
            return  # it is shown when the screen is ours again
        text, self._pending = "".join(self._pending), []
        if text:
            self._app.show_above(text)

    def changed(self) -> None:
        """Have what moves drawn again, soon."""
        self._app.invalidate()

    def attract(self, sequence: str) -> None:
        """Send a sequence of our own: a bell, a notice, a text for the clipboard."""
        self._app.output.write_raw(sequence)
        self._app.output.flush()

    # Life

    async def run(self, ready: Callable[[], None]) -> Any:
        """Show it until ``leave``; return what that was given. ``ready`` is called once painted."""
        self._put()  # before the bottom is drawn: else that would be erased and drawn again
        ticking = asyncio.ensure_future(self._ticking())
        try:
            return await self._app.run_async(pre_run=lambda: _once_painted(self._app, ready))
        finally:
            ticking.cancel()
            self._back()

    def leave(self, result: Any) -> None:
        """End ``run``."""
        if self._app.is_running and not self._app.is_done:
            self._app.exit(result=result)

    def _lost(self) -> None:
        """Notice that the terminal has gone."""
        if self._app.is_running and not self._app.is_done:
            self._app.exit(exception=EOFError())

    def suspend(self) -> None:
        """Stop this process as a shell's Ctrl+Z does; what runs elsewhere goes on."""
        self._app.suspend_to_background()

    def edit(self, workspace: str) -> None:
        """Open the input in the user's editor; what is to be shown meanwhile waits.

        The editor is found outside the workspace, and gets no keys.
        """
        if not self.away:
            self.away = True
            secrets = secrets_in(os.environ)
            changed = {"PATH": os.environ.get("PATH", ""), **secrets}
            os.environ["PATH"] = path_outside([workspace])
            for name in secrets:
                del os.environ[name]
            self.buffer.open_in_editor().add_done_callback(lambda _: self._edited(changed))

    def _edited(self, environment: dict[str, str]) -> None:
        os.environ.update(environment)
        self._back()

    def _back(self) -> None:
        self.away = False
        self._put()

    async def _ticking(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            if self._shown.busy():
                self._tick += 1
                self.changed()


class _Lines:
    """A window that is as high as its text, and not there without one."""

    def __init__(self, text: Callable[[], StyleAndTextTuples]) -> None:
        control = FormattedTextControl(text, focusable=False, show_cursor=False)
        self.window = ConditionalContainer(
            Window(control, wrap_lines=True, dont_extend_height=True, always_hide_cursor=True),
            Condition(lambda: bool(text())),
        )


def _tuples(style: str, lines: list[str]) -> StyleAndTextTuples:
    return [(style, "\n".join(lines))] if lines else []


def _once_painted(app: Application[Any], ready: Callable[[], None]) -> None:
    def painted(_: Application[Any]) -> None:
        app.after_render -= painted
        ready()

    app.after_render += painted


class Terminal(Vt100_Output):
    """Standard output as a terminal that is never asked anything.

    One that has gone takes no more: ``lost`` is called, once, and whatever is written is forgotten.
    """

    def __init__(self, lost: Callable[[], None]) -> None:
        depth = ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None
        term = os.environ.get("TERM")
        super().__init__(sys.stdout, _size, term=term, default_color_depth=depth, enable_cpr=False)
        self._lost: Callable[[], None] | None = lost

    def flush(self) -> None:
        """Write what is waiting."""
        if self._lost is None:
            self._buffer = []
            return
        try:
            super().flush()
        except OSError:
            lost, self._lost = self._lost, None
            with suppress(OSError, ValueError):
                sys.stdout.close()  # or the interpreter would try once more at exit
            sys.stdout = None
            lost()


def _size() -> Size:
    try:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):  # it has gone
        return _USUAL_SIZE
    return Size(rows=rows or _USUAL_SIZE.rows, columns=columns or _USUAL_SIZE.columns)
