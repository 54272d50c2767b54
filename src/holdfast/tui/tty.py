"""Plain output on a terminal: whether there is one, its size, colours, the pager, a progress bar.

Imports nothing that draws a screen, so that commands which only print lines can use it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from types import TracebackType
from typing import IO, Self

import click

from holdfast.keeper.text import width_of
from holdfast.runtime.config.secret_variables import secrets_in
from holdfast.store.programs import current_folder, path_outside

_LINES_ONLY = ("dumb", "unknown", "")
_DEFAULT_SCREEN = (24, 80)
_ROOM_ROWS = 2  # for the prompt that comes after
_LESS = "-RX"  # colours, and what was read stays on the screen
_BAR_WIDTH = 30
_EVERY_SECONDS = 0.1
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


def is_terminal(stream: IO[str] | None) -> bool:
    """Return whether a stream is a terminal; false if it is closed or missing."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def on_a_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return is_terminal(sys.stdout)


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


def screen() -> tuple[int, int]:
    """Return the terminal's height and width."""
    try:
        size = os.get_terminal_size()
    except (OSError, ValueError, AttributeError):  # there is none, or it is closed
        return _DEFAULT_SCREEN
    return size.lines or _DEFAULT_SCREEN[0], size.columns or _DEFAULT_SCREEN[1]


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


def page(lines: Iterable[str], colours: Colours) -> None:
    """Print lines, through the pager if they are more than the terminal shows."""
    coming = iter(lines)
    if not on_a_terminal():
        for line in coming:
            click.echo(line, color=colours.on)
        return
    height, width = screen()
    waiting: list[str] = []
    rows = 0
    for line in coming:
        waiting.append(line)
        rows += sum(1 + width_of(each) // width for each in line.split("\n"))
        if rows > height - _ROOM_ROWS:
            os.environ.setdefault("LESS", _LESS)
            _prepare_environment()
            click.echo_via_pager(_ended(chain(waiting, coming)), color=colours.on)
            return
    for line in waiting:
        click.echo(line, color=colours.on)


def _prepare_environment() -> None:
    """Let the pager be found outside the current folder, and have no keys in its environment."""
    os.environ["PATH"] = path_outside(current_folder())
    for name in secrets_in(os.environ):
        del os.environ[name]


def _ended(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"{line}\n"


class Bar:
    """A progress bar: use it in a ``with`` block, and call it with the numbers done and total."""

    def __init__(self, label: str, *, quiet: bool = False) -> None:
        self._label = label
        self._stream = sys.stderr
        self._on = not quiet and is_terminal(self._stream)
        self._shown_at = 0.0
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        """Show the progress, at most a few times per second."""
        now = time.monotonic()
        if not self._on or now - self._shown_at < _EVERY_SECONDS:
            return
        self._shown_at, self._shown = now, True
        part = min(done / total, 1.0) if total > 0 else 1.0
        filled = int(_BAR_WIDTH * part)
        bar = "█" * filled + "·" * (_BAR_WIDTH - filled)
        self._write(f"\r\x1b[K{bar} {100 * part:3.0f} % {self._label}")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # the terminal is gone; the work is not
            self._on = False

    def __enter__(self) -> Self:
        """Return the bar."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Remove the bar from the screen."""
        self.clear()

    def clear(self) -> None:
        """Remove the bar, so that another line can be printed."""
        if self._on and self._shown:
            self._write("\r\x1b[K")
            self._shown = False
