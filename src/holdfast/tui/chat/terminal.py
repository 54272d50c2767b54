"""The terminal that is written to: its size, its colours, and that it may be gone at any moment."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

from prompt_toolkit.data_structures import Size
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

_USUAL = Size(rows=24, columns=80)


class Terminal(Vt100_Output):
    """Standard output as a terminal that is never asked anything.

    One that has gone takes no more: ``lost`` is called, once, and whatever is written is forgotten.
    """

    def __init__(self, lost: Callable[[], None]) -> None:
        depth = ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None
        term = os.environ.get("TERM")
        super().__init__(sys.stdout, _size, term=term, default_color_depth=depth, enable_cpr=False)
        self._lost: Callable[[], None] | None = lost

    def flush(self) -> None:
        """Write what is waiting."""
        if self._lost is None:
            self._buffer = []
            return
        try:
            super().flush()
        except OSError:
            lost, self._lost = self._lost, None
            with suppress(OSError, ValueError):
                sys.stdout.close()  # or the interpreter would try once more at exit
            sys.stdout = None
            lost()


def _size() -> Size:
    try:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):  # it has gone
        return _USUAL
    return Size(rows=rows or _USUAL.rows, columns=columns or _USUAL.columns)
