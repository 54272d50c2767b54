"""Text in columns: as wide as a terminal shows it, and harmless there."""

from __future__ import annotations

import os
import re
import unicodedata

from holdfast.model.terminal import on_its_line

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_DEFAULT_SCREEN = (24, 80)
_WITHOUT_WIDTH = ("Mn", "Me", "Cf")  # marks upon another character, and joiners
_SIZES = ("B", "kB", "MB", "GB", "TB")


def screen() -> tuple[int, int]:
    """Return the terminal's height and width."""
    try:
        size = os.get_terminal_size()
    except (OSError, ValueError, AttributeError):  # there is none, or it is closed
        return _DEFAULT_SCREEN
    return size.lines or _DEFAULT_SCREEN[0], size.columns or _DEFAULT_SCREEN[1]


def printable(text: str) -> str:
    """Return text that stays on its line and cannot move the cursor or worse."""
    return on_its_line(text)


def width_of(text: str) -> int:
    """Return how many columns a text takes, colours left out."""
    if text.isascii():
        return len(text) if "\x1b" not in text else len(_COLOUR.sub("", text))
    return sum(_width(each) for each in _COLOUR.sub("", text))


def _width(character: str) -> int:
    if unicodedata.category(character) in _WITHOUT_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int) -> str:
    """Return the beginning of a text that fits; an ellipsis says that it is not all."""
    if width_of(text) <= width:
        return text
    taken = used = 0
    for character in text:
        used += _width(character)
        if used > width - 1:
            break
        taken += 1
    return f"{text[:taken]}…" if width > 0 else ""


def padded(text: str, width: int) -> str:
    """Return a text that takes exactly so many columns."""
    short = cut(text, width)
    return short + " " * (width - width_of(short))


def size(size_bytes: int) -> str:
    """Return a size as people say it."""
    amount = float(size_bytes)
    for unit in _SIZES:
        if amount < 1000 or unit == _SIZES[-1]:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError  # the last unit takes everything


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: ``1 session``, ``2 sessions``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
