"""A progress bar on standard error; nothing if that is not a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from holdfast.tui.tty import is_terminal

_WIDTH = 30
_EVERY_SECONDS = 0.1


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
        filled = int(_WIDTH * part)
        bar = "█" * filled + "·" * (_WIDTH - filled)
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
