"""Colours, where somebody sees them and wants them.

``NO_COLOR`` switches them off and ``CLICOLOR_FORCE`` on, the first before the second; else they are
for terminals alone.
"""

from __future__ import annotations

import os
import sys

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
    """Gives text colours, or leaves it alone. What is given must be harmless already."""

    def __init__(self, *, on: bool | None = None) -> None:
        self.on = wanted() if on is None else on

    def __call__(self, text: str, *names: str) -> str:
        """Return the text in a colour, bold or dim."""
        if not self.on or not text or not names:
            return text
        codes = ";".join(str(_CODES[name]) for name in names)
        return f"\x1b[{codes}m{text}\x1b[0m"


def wanted() -> bool:
    """Tell whether standard output gets colours."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return on_a_terminal() and os.environ.get("TERM") != "dumb"


def on_a_terminal() -> bool:
    """Tell whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()
