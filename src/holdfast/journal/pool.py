"""Threads shared by all sessions of a process for work that no caller does itself.

That is: writing submitted entries, writing and syncing streamed text, retrying after a full disk.
Each session has one ``BackgroundTask``. It is called when it was woken or when the time it asked
for has come, by one thread at a time. Threads start when there is work, up to a limit, and end
after a second without any: a thousand idle sessions have no thread. A forked child starts with an
empty pool.

All locks are the interpreter's own and are held by ``with`` alone, and every step may be missing or
done twice: an interrupt (Ctrl+C) in ``wake`` delays a task until the next one is woken, no more.
The mutex is reentrant because a signal handler may submit, too.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LARGEST_POOL = 16
_LINGER_SECONDS = 1.0


class BackgroundTask:
    """Work of one session that threads of the pool do.

    Contract of ``work``: does what is due and returns the seconds until it wants to be called
    again, ``None`` if there is nothing to do until ``wake`` is called. It raises nothing.
    """

    def __init__(self, work: Callable[[], float | None], pool: CommitPool | None = None) -> None:
        self.work = work
        self._pool = pool or POOL
        self.awake = False
        """Whether ``work`` will be called soon."""
        self.stopped = False
        self.runner: int | None = None
        """The thread that is calling ``work``."""
        self.due: float | None = None
        """When ``work`` is to be called without being woken."""
        self.gates: list[threading.Lock] = []
        """Released when ``work`` returns, for threads that wait in ``stop``."""

    def wake(self) -> None:
        """Have ``work`` called soon.

        Raises:
            RuntimeError: the pool has no thread, and none can be started.
        """
        if not self.awake:  # unlocked on purpose: the common case of a burst
            self._pool.put(self)

    def stop(self) -> None:
        """Have ``work`` called no more; return when it is not running."""
        gate = _closed_gate()
        with self._pool.mutex:
            self.stopped = self.awake = True
            if self.runner is None or self.runner == threading.get_ident():
                return
            self.gates.append(gate)
        gate.acquire()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Let the pool have one more thread while ``work`` calls code that may wait for others."""
        pool = self._pool
        with pool.mutex:
            pool.lent += 1
            pool.call_thread()
        try:
            yield
        finally:
            with pool.mutex:
                pool.lent = max(0, pool.lent - 1)  # it is 0 in a child that was forked meanwhile


class CommitPool:
    """A few threads that call the tasks of all sessions."""

    def __init__(self, largest: int = LARGEST_POOL) -> None:
        self._largest = largest
        self.reset()

    def reset(self) -> None:
        """Start empty: also in a forked child, where the threads are gone and hold locks."""
        self.mutex = threading.RLock()
        self.threads: set[threading.Thread] = set()
        self.lent = 0
        """Threads that run other people's code: they do not count towards the limit."""
        self._ready: deque[BackgroundTask] = deque()
        self._timed: list[tuple[float, int, BackgroundTask]] = []  # a heap, by time
        self._number = count()
        self._idle: list[threading.Lock] = []  # the gates of threads that wait
        self._called: set[threading.Lock] = set()  # of those that were woken and did not come yet
        self._timekeeper: threading.Lock | None = None  # of the one that waits for a timed task

    def put(self, task: BackgroundTask) -> None:
        """Queue a task, and call a thread for it."""
        with self.mutex:
            if task.stopped:
                return
            if task.runner is None:
                self._ready.append(task)
                self.call_thread()
            task.awake = True  # last: an interrupt before it only has the task called twice

    def call_thread(self) -> None:
        """Wake or start a thread if there is something to do. The caller holds the mutex."""
        if self._called or not (self._ready or self._unattended()):
            return
        if self._idle:
            gate = self._idle[-1]
            if gate is self._timekeeper and len(self._idle) > 1:
                gate = self._idle[-2]
            self._wake(gate)
        elif len(self.threads) < self._largest + self.lent:
            self._start()

    def _unattended(self) -> bool:
        """Tell whether there are timed tasks and no thread waits for them."""
        return self._timekeeper is None and self._next_due() is not None

    def _next_due(self) -> float | None:
        """Return when the next timed task is due."""
        timed = self._timed
        while timed and (timed[0][2].due != timed[0][0] or timed[0][2].stopped):
            heappop(timed)  # it was called earlier, or is stopped
        return timed[0][0] if timed else None

    def _wake(self, gate: threading.Lock) -> None:
        self._called.add(gate)
        self._idle.remove(gate)
        gate.release()

    def _start(self) -> None:
        gate = _closed_gate()
        thread = threading.Thread(target=self._run, args=[gate], name="holdfast", daemon=True)
        self.threads.add(thread)
        self._called.add(gate)
        try:
            thread.start()
        except BaseException as error:  # too many threads now, no memory, or an interrupt
            self.threads.discard(thread)  # if it runs after all, it adds itself
            self._called.discard(gate)
            if not self.threads or not isinstance(error, (RuntimeError, MemoryError)):
                raise

    # What the threads do

    def _run(self, gate: threading.Lock) -> None:
        thread = threading.current_thread()
        try:
            with self.mutex:
                self.threads.add(thread)
            while (task := self._next(gate)) is not None:
                self._call(task)
        finally:  # also if a task has raised after all: the next one starts another thread
            with self.mutex:
                self.threads.discard(thread)
                self.call_thread()

    def _next(self, gate: threading.Lock) -> BackgroundTask | None:
        """Return the next task to call, ``None`` if this thread has been idle for long enough."""
        lingered = False
        while True:
            with self.mutex:
                self._come(gate)
                task = self._pick()
                if task is not None:
                    self.call_thread()  # for the others, and to keep time
                    return task
                due = self._next_due() if self._timekeeper is None else None
                if due is None and lingered:
                    return None
                if due is not None:
                    self._timekeeper = gate
                self._idle.append(gate)
            seconds = _LINGER_SECONDS if due is None else max(0.0, due - time.monotonic())
            lingered = not gate.acquire(timeout=seconds) and due is None

    def _come(self, gate: threading.Lock) -> None:
        """Take note that a thread waits no more."""
        self._called.discard(gate)
        if gate in self._idle:  # it was not woken: its time is over
            self._idle.remove(gate)
        if self._timekeeper is gate:
            self._timekeeper = None

    def _pick(self) -> BackgroundTask | None:
        """Take the next task that can be called now."""
        now = time.monotonic()
        while (due := self._next_due()) is not None and due <= now:
            self._ready.append(heappop(self._timed)[2])
        while self._ready:
            task = self._ready.popleft()
            if not task.stopped and task.runner is None:
                task.runner = threading.get_ident()
                task.due, task.awake = None, False  # before it looks: later wakes call it again
                return task
        return None

    def _call(self, task: BackgroundTask) -> None:
        delay = None
        try:
            delay = task.work()
        finally:
            with self.mutex:
                task.runner = None
                for gate in task.gates:
                    gate.release()
                task.gates.clear()
                if not task.stopped:
                    self._put_back(task, delay)

    def _put_back(self, task: BackgroundTask, delay: float | None) -> None:
        """Queue a task again if it was woken meanwhile or has asked for it."""
        if task.awake:
            self._ready.append(task)
        elif delay is not None:
            task.due = time.monotonic() + delay
            heappush(self._timed, (task.due, next(self._number), task))
            gate = self._timekeeper
            if gate is not None and gate in self._idle and self._timed[0][2] is task:
                self._wake(gate)  # it waits for a later one


def _closed_gate() -> threading.Lock:
    gate = threading.Lock()
    gate.acquire()
    return gate


POOL = CommitPool()
"""The pool of this process."""

os.register_at_fork(after_in_child=POOL.reset)
