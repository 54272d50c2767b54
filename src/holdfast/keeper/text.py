"""Values as text for people: counts, sizes, ages and local times, and text cut to a width."""

from __future__ import annotations

import re
import unicodedata
from contextlib import suppress
from datetime import UTC, datetime

from holdfast.model.sanitize import one_line

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_SIZES = ("B", "kB", "MB", "GB", "TB")
_AGES = ((86_400 * 365, "y"), (86_400 * 7, "w"), (86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))
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


def size(size_bytes: int) -> str:
    """Return a size with a unit: ``1.5 MB``."""
    amount = float(size_bytes)
    for unit in _SIZES:
        if amount < 1000 or unit == _SIZES[-1]:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError  # the last unit takes everything


def age(at: str | None) -> str:
    """Return how long ago a recorded time was: ``3m``, ``5h``, ``2w``; ``?`` if it is no time."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(at or "")).total_seconds()
    except (ValueError, TypeError):
        return "?"
    return next((f"{int(seconds // size)}{unit}" for size, unit in _AGES if seconds >= size), "now")


def local_time(at: str, *, seconds: bool = True) -> str:
    """Return a recorded time in this machine's time zone."""
    with suppress(ValueError, OverflowError, OSError):
        there = datetime.fromisoformat(at).astimezone()
        return f"{there:%Y-%m-%d %H:%M:%S}" if seconds else f"{there:%Y-%m-%d %H:%M}"
    return printable(at) or "?"
