"""What a narrower terminal makes of lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest
from prompt_toolkit.application.current import set_app
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import DummyInput
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.output import DummyOutput

from holdfast.tui.chat.inline_app import InlineApplication, rows_gained, wraps_again


def test_lines_gain_a_row_for_each_width_they_exceed():
    assert rows_gained([0, 1, 60], 60) == 0
    assert rows_gained([61, 120, 121], 60) == 1 + 1 + 2


@pytest.mark.parametrize(
    ("environment", "wraps"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm-256color", "XTERM_VERSION": "XTerm(379)"}, False),
        ({"TERM": "tmux-256color", "XTERM_VERSION": "XTerm(379)", "TMUX": "/tmp/t"}, True),
        ({"TERM": "screen", "STY": "1.tty"}, False),
        ({"TERM": "linux"}, False),
    ],
)
def test_some_terminals_cut_their_lines(environment, wraps):
    assert wraps_again(environment) is wraps


class _Terminal(DummyOutput):
    """A terminal whose width changes; records how far the cursor was moved up."""

    def __init__(self) -> None:
        self.columns = 100
        self.climbed: list[int] = []

    def get_size(self) -> Size:
        return Size(rows=24, columns=self.columns)

    def cursor_up(self, amount: int) -> None:
        self.climbed.append(amount)


class _Prompt(InlineApplication):
    """A prompt below one status line of 90 columns."""

    def __init__(self, terminal: _Terminal, while_drawing: Callable[[], None]) -> None:
        def status() -> str:
            while_drawing()
            return "s" * 90

        bottom = [
            Window(FormattedTextControl(status), height=1, dont_extend_height=True),
            Window(FormattedTextControl("> ", focusable=True), height=1),
        ]
        super().__init__(layout=Layout(HSplit(bottom)), output=terminal, input=DummyInput())
        self.layout.focus(bottom[1])

    def draw(self) -> None:
        with set_app(self):
            self.renderer.render(self, self.layout)
            self.after_render.fire()

    def gained(self) -> list[int]:
        """Return the rows climbed when the change of width is heard of."""
        terminal = cast("_Terminal", self.output)
        terminal.climbed.clear()
        with set_app(self):
            self.before_render.fire()
        return terminal.climbed


def test_a_line_drawn_before_the_terminal_became_narrower_was_wrapped():
    terminal = _Terminal()
    prompt = _Prompt(terminal, lambda: None)
    prompt.draw()
    terminal.columns = 60
    assert prompt.gained() == [1]


def test_a_line_drawn_after_the_terminal_became_narrower_was_cut():
    terminal = _Terminal()
    prompt = _Prompt(terminal, lambda: setattr(terminal, "columns", 60))
    prompt.draw()
    assert prompt.gained() == []
