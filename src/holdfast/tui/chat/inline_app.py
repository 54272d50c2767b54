"""A terminal whose width changes: what was drawn at its bottom is found again, and drawn anew.

Terminals wrap the lines they show when they become narrower. The bottom is drawn with moves of the
cursor that count rows, so it has to know how many its lines take now; else some stay behind.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.layout.screen import Screen


class InlineApplication(Application[Any]):
    """An application below text that is the terminal's own."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._wraps = wraps_again(os.environ)
        # tmux wraps a line at the widest it ever was, also behind what was erased since.
        self._remembers = bool(os.environ.get("TMUX"))
        self._widths: list[int] = []
        self._columns = 1
        self.before_render += lambda _: self._climb()  # it may be drawn before the signal is heard
        self.after_render += lambda _: self._measure()

    def show_above(self, text: str) -> None:
        """Write text for good, above what is drawn."""
        with set_app(self):
            if self.is_running:
                self._climb()
                self.renderer.erase()
                self._widths = []
            self.output.write_raw(text.replace("\n", "\r\n"))
            self.output.flush()
            if self.is_running:
                self.renderer.reset()
                self.render_counter += 1  # else what was moving before would be drawn once more
                self.renderer.render(self, self.layout)
                self._measure()

    def _on_resize(self) -> None:
        self._climb()
        super()._on_resize()

    def _climb(self) -> None:
        """Move the cursor up by the rows that the lines above it have gained."""
        screen = self.renderer.last_rendered_screen
        if screen is None:
            self._widths = []  # it was erased
        elif self._wraps:
            cursor = screen.get_cursor_position(self.layout.current_window)
            columns = self.output.get_size().columns
            column = min(cursor.x, self._columns - 1)
            gained = rows_gained(self._widths[: cursor.y], columns) + column // columns
            if gained:
                self.output.cursor_up(gained)
                self._widths = []  # all of it is drawn anew

    def _measure(self) -> None:
        """Note how wide the lines are that the terminal shows now.

        If it became narrower while they were made, it has cut the new lines instead of wrapping
        them (they are drawn with wrapping off), and it has wrapped those that stood there before.
        """
        if (screen := self.renderer.last_rendered_screen) is None:
            return
        self._columns = self.output.get_size().columns
        drawn = [_width(screen, row) for row in range(screen.height)]
        now = [min(width, self._columns) for width in drawn]
        before = self._widths if self._remembers or now != drawn else []
        self._widths = [max(pair) for pair in zip_longest(now, before, fillvalue=0)]


def rows_gained(widths: list[int], columns: int) -> int:
    """Return how many rows more lines of these widths take, wrapped at ``columns``."""
    return sum((width - 1) // columns for width in widths if width)


def _width(screen: Screen, row: int) -> int:
    cells = screen.data_buffer[row].items()
    return max((column + cell.width for column, cell in cells if cell.char != " "), default=0)


def wraps_again(environment: Mapping[str, str]) -> bool:
    """Tell whether the terminal wraps what it shows anew; xterm, screen and the console cut it."""
    if environment.get("TMUX"):
        return True
    cutting = environment.get("XTERM_VERSION") or environment.get("STY")
    return not cutting and environment.get("TERM") != "linux"
