"""Whether there is a terminal, whether it can show a screen, and whether text gets colours.

Imports nothing that draws, so that commands which only print lines can use it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import IO

_LINES_ONLY = ("dumb", "unknown", "")


def is_terminal(stream: IO[str] | None) -> bool:
    """Return whether a stream is a terminal; false if it is closed or missing."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def can_move_cursor(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the terminal can do more than print lines, according to ``TERM``."""
    return environment.get("TERM", "dumb") not in _LINES_ONLY


def has_screen() -> bool:
    """Return whether input and output are a terminal that can do more than print lines."""
    return is_terminal(sys.stdin) and is_terminal(sys.stdout) and can_move_cursor()


def wants_colour(environment: Mapping[str, str] = os.environ, *, on_terminal: bool) -> bool:
    """Return whether text gets colours: ``NO_COLOR`` turns them off, ``CLICOLOR_FORCE`` on.

    ``NO_COLOR`` takes precedence. Without both, only terminals get colours.
    """
    if environment.get("NO_COLOR"):
        return False
    if environment.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return on_terminal and environment.get("TERM") != "dumb"
