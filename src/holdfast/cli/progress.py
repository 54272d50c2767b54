"""How far something is that takes long: a bar on a terminal, on standard error; else nothing."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

_WIDTH = 30
_EVERY_SECONDS = 0.1


class Bar:
    """A bar, to be called with what is done and what there is in all. Used in a ``with`` block."""

    def __init__(self, label: str, *, quiet: bool = False) -> None:
        self._label = label
        self._stream = sys.stderr
        self._on = not quiet and self._stream is not None and self._stream.isatty()
        self._shown_at = 0.0
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        """Show how far it is, a few times a second at most."""
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
        """Remove it from the screen."""
        self.clear()

    def clear(self) -> None:
        """Make room for a line of something else."""
        if self._on and self._shown:
            self._write("\r\x1b[K")
            self._shown = False
