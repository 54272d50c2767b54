"""Signals that end a run, caught from its beginning to its very end.

Once there is a run they are remembered, not obeyed: it decides how it comes to its end. A signal
that was ignored when the program was started, such as under ``nohup``, stays ignored.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Use it in a ``with`` block of the main thread. ``first`` is the one that came first.

    ``told`` is called with the name of each, in between any two steps of the main thread: an event
    loop is to be reached by ``call_soon_threadsafe``.
    """

    def __init__(self) -> None:
        self.first: signal.Signals | None = None
        self.raises = True
        """Whether a signal ends the block at once: until there is a run that can be ended."""
        self.told: Callable[[str], object] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in ENDING:
            if signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._caught)
        return self

    def __exit__(self, *_: object) -> None:
        for number, action in self._before.items():
            # On its way out, a second one must not change what the exit code says.
            signal.signal(number, action if self.first is None else signal.SIG_IGN)

    def _caught(self, number: int, _: FrameType | None) -> None:
        caught = signal.Signals(number)
        self.first = self.first or caught
        if self.raises:
            self.raises = False  # whatever is cleaned up now is not to be interrupted again
            raise SystemExit(128 + caught)
        if self.told is not None:
            self.told(caught.name)
