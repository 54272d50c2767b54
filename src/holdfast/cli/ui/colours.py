"""Colours for standard output; ``tui.tty`` decides whether there are any."""

from __future__ import annotations

import sys

from holdfast.tui.tty import is_terminal, wants_colour

_CODES = {
    "bold": 1,
    "dim": 2,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "magenta": 35,
    "cyan": 36,
}


class Colours:
    """Adds colours to text, or leaves it as it is. The text must have no control characters."""

    def __init__(self, *, on: bool | None = None) -> None:
        self.on = wants_colour(on_terminal=on_a_terminal()) if on is None else on

    def __call__(self, text: str, *names: str) -> str:
        """Return the text in a colour, bold or dim."""
        if not self.on or not text or not names:
            return text
        codes = ";".join(str(_CODES[name]) for name in names)
        return f"\x1b[{codes}m{text}\x1b[0m"


def on_a_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return is_terminal(sys.stdout)
