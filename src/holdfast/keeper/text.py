"""Text for people: its width on a terminal, cut to a width, and counted nouns."""

from __future__ import annotations

import re
import unicodedata

from holdfast.model.sanitize import one_line

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_WITHOUT_WIDTH = ("Mn", "Me", "Cf")  # combining characters and joiners


def printable(text: str) -> str:
    """Return text on one line, without characters that control the terminal."""
    return one_line(text)


def width_of(text: str) -> int:
    """Return how many columns a text takes; colour codes take none."""
    if text.isascii():
        return len(text) if "\x1b" not in text else len(_COLOUR.sub("", text))
    return sum(_width(each) for each in _COLOUR.sub("", text))


def _width(character: str) -> int:
    if unicodedata.category(character) in _WITHOUT_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int) -> str:
    """Return a text, cut to a width; an ellipsis marks that it was cut."""
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
    """Return a text, cut or padded to exactly this many columns."""
    short = cut(text, width)
    return short + " " * (width - width_of(short))


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: ``1 session``, ``2 sessions``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
