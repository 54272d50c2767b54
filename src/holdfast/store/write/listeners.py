"""Who is told of durable entries, and what they have not been told yet.

Each listener hears every entry once, in order, after it is durable; one thread at a time tells,
outside all locks, so that a listener may append. What one raises is logged: the entry stays. When
there is something to tell, and that it is durable, is up to the recorder. Whoever closes the
session waits for a thread that is telling: what a listener appends then is still accepted.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.model.entry import Entry

_LOG = logging.getLogger("holdfast")
_LOOK_AGAIN_SECONDS = 0.002


class _Turn:
    """What the thread that tells has in its hands.

    It is referred to weakly: if an interrupt takes the thread away at any point, the turn goes with
    it, and the next thread tells.
    """

    def __init__(self) -> None:
        self.thread = threading.get_ident()


class Listeners:
    """The listeners of one session. Entries are added to ``untold`` under the mutex."""

    def __init__(self, mutex: threading.RLock) -> None:
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
        while self._tell_next(ref(turn)):
            pass

    def _tell_next(self, turn: ref[_Turn]) -> bool:
        """Tell one entry; return whether there was one, and nobody else was telling."""
        is_ours = False
        try:
            with self.mutex:
                if self._telling() is not None or not self.untold:
                    return False
                self._telling = turn
                is_ours = True
                entry = self.untold.popleft()
                callbacks = list(self.callbacks)
            for callback in callbacks:
                try:
                    callback(entry)
                except Exception:  # noqa: BLE001  other people's code; the entry is durable
                    _LOG.exception("A listener failed on entry %d", entry.seq)
            return True
        finally:
            if is_ours:  # at once: a traceback may keep the turn for long
                self._telling = _nobody

    def wait_for_others(self) -> None:
        """Return when no other thread is telling. Not under the mutex.

        It looks again and again: a turn that goes with an interrupt wakes nobody.
        """
        while self._told_by() not in (None, threading.get_ident()):
            time.sleep(_LOOK_AGAIN_SECONDS)

    def is_done(self) -> bool:
        """Whether nobody has to be waited for. Under the mutex.

        A listener that asks waits for nobody: what is left is told when it returns.
        """
        teller = self._told_by()
        return not self.untold if teller is None else teller == threading.get_ident()

    def _told_by(self) -> int | None:
        """Return the thread that is telling; its turn is not held on to."""
        turn = self._telling()
        return None if turn is None else turn.thread


def _nobody() -> None:
    """Stand for the turn of no thread."""
