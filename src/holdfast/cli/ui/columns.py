"""The size of the terminal, and sizes in bytes as text."""

from __future__ import annotations

import os

_DEFAULT_SCREEN = (24, 80)
_SIZES = ("B", "kB", "MB", "GB", "TB")


def screen() -> tuple[int, int]:
    """Return the terminal's height and width."""
    try:
        size = os.get_terminal_size()
    except (OSError, ValueError, AttributeError):  # there is none, or it is closed
        return _DEFAULT_SCREEN
    return size.lines or _DEFAULT_SCREEN[0], size.columns or _DEFAULT_SCREEN[1]


def size(size_bytes: int) -> str:
    """Return a size with a unit: ``1.5 MB``."""
    amount = float(size_bytes)
    for unit in _SIZES:
        if amount < 1000 or unit == _SIZES[-1]:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError  # the last unit takes everything
