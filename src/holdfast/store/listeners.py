"""Who is told of durable entries, and what they have not been told yet.

Each listener hears every entry once, in order, after it is durable; one thread at a time tells,
outside all locks, so that a listener may append. What one raises is logged: the entry stays. When
there is something to tell, and that it is durable, is up to the recorder.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import RLock

    from holdfast.model.entry import Entry

_LOG = logging.getLogger("holdfast")


class _Turn:
    """What the thread that tells has in its hands.

    It is referred to weakly: if an interrupt takes the thread away at any point, the turn goes with
    it, and the next thread tells.
    """


class Listeners:
    """The listeners of one session. Entries are added to ``untold`` under the mutex."""

    def __init__(self, mutex: RLock) -> None:
        self.mutex = mutex
        self.callbacks: list[Callable[[Entry], None]] = []
        self.untold: deque[Entry] = deque()
        self._telling: Callable[[], _Turn | None] = _nobody

    def add(self, callback: Callable[[Entry], None]) -> Callable[[], None]:
        """Call ``callback`` for every entry from now on; return a function that ends it."""
        with self.mutex:
            self.callbacks.append(callback)

        def stop() -> None:
            with self.mutex, suppress(ValueError):
                self.callbacks.remove(callback)

        return stop

    def tell(self) -> None:
        """Tell all that is untold, unless another thread is at it and will. Not under the mutex."""
        turn = _Turn()
        while True:
            with self.mutex:
                if self._telling() is not None or not self.untold:
                    return
                self._telling = ref(turn)
                entry = self.untold.popleft()
                callbacks = list(self.callbacks)
            try:
                for callback in callbacks:
                    try:
                        callback(entry)
                    except Exception:  # noqa: BLE001  other people's code; the entry is durable
                        _LOG.exception("A listener failed on entry %d", entry.seq)
            finally:
                self._telling = _nobody


def _nobody() -> None:
    """Stand for the turn of no thread."""
