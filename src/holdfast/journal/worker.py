"""A thread that does what nobody waits for: entries submitted, streamed text, retries.

It starts when there is something to do, sleeps until the next thing is due, and ends after a
second of idleness, so that a program with a thousand quiet sessions has no thread for them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LINGER_SECONDS = 1.0


class BackgroundWorker:
    """Calls ``work`` in a thread of its own.

    Contract of ``work``: does what is due, returns the seconds until it wants to be called again,
    ``None`` if there is nothing to do until ``wake`` is called. It raises nothing.
    """

    def __init__(self, work: Callable[[], float | None]) -> None:
        self._work = work
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self.awake = False
        """Whether ``work`` will be called soon."""
        self._stopped = False

    def wake(self) -> None:
        """Have ``work`` called soon.

        Raises:
            RuntimeError: no thread can be had for it.
        """
        if self.awake:  # unlocked on purpose: the common case of a burst
            return
        with self._condition:
            self.awake = True
            if self._stopped:
                return
            if self._thread is None:
                self._start()
            else:
                self._condition.notify()

    def _start(self) -> None:
        try:
            thread = threading.Thread(target=self._run, name="holdfast", daemon=True)
            thread.start()
        except BaseException:  # too many threads now, or no memory; the next wake tries again
            self.awake = False
            raise
        self._thread = thread

    def stop(self) -> None:
        """End the thread and wait for it."""
        with self._condition:
            self._stopped = True
            self._condition.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except BaseException:  # work has raised after all: the next wake starts another thread
            with self._condition:
                self._thread, self.awake = None, False
            raise

    def _turn(self) -> bool:
        """Work once and wait; tell whether there may be more to do."""
        self.awake = False  # before work looks: what comes after must wake it again
        delay = self._work()
        with self._condition:
            if not self.awake and not self._stopped:
                self._condition.wait(_LINGER_SECONDS if delay is None else delay)
            if self._stopped or (delay is None and not self.awake):
                self._thread = None  # from here on the next thread's wakes are none of ours
                return False
            return True
