"""Hands cases to worker processes, one at a time, and collects what they came to.

A worker that dies or does not come back is an error of the case that it had, and is replaced.
Workers lead process groups of their own, so that whatever they started ends with them. An interrupt
waits while workers change hands, so that none is forgotten.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import msgspec

from tests.crash import mutants
from tests.crash.lab.layer import Layer, Plan
from tests.crash.lab.tally import Tally

_FORK = multiprocessing.get_context("fork")  # everything is imported already
_PR_SET_PDEATHSIG = 1
_NO_MORE = ""  # given instead of a case
_PATIENCE_SECONDS = 5.0  # for all workers together, to clean up


class Worker:
    """A process that tries cases."""

    def __init__(self, make: Callable[[Plan], Layer], plan: Plan, number: int) -> None:
        self._plan = msgspec.structs.replace(
            plan, scratch=plan.scratch / str(number), memory=plan.memory / str(number)
        )
        self.connection, theirs = _FORK.Pipe()
        self._process = _FORK.Process(target=_work, args=(make, self._plan, theirs))
        self._process.start()
        theirs.close()
        self.case = ""
        self.due = 0.0
        self.died = False

    def give(self, case: str, seconds: float) -> None:
        """Let it try a case."""
        self.case = case
        self.due = time.monotonic() + seconds
        self.connection.send(case)

    def take(self) -> Tally:
        """Return what came of the case."""
        try:
            tally: Tally = self.connection.recv()
        except (EOFError, OSError):
            self.died = True
            tally = Tally(cases=1)
            tally.err("the worker died")
        return tally

    def dismiss(self) -> None:
        """Tell it that there is nothing more to do."""
        with suppress(OSError):  # it may be dead
            self.connection.send(_NO_MORE)  # closing is not enough: later workers have a copy
        self.connection.close()

    def join(self, seconds: float) -> None:
        """Wait for it to clean up and end."""
        self._process.join(seconds)

    def kill(self) -> None:
        """End what is left of it and of everything that it started, and clean up after it."""
        assert self._process.pid is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()  # should it not lead its group yet
        self._process.join()
        for folder in (self._plan.scratch, self._plan.memory):
            shutil.rmtree(folder, ignore_errors=True)


def _end(workers: Iterable[Worker], patience: float) -> None:
    """End workers; together they may clean up for so many seconds."""
    workers = list(workers)
    for worker in workers:
        worker.dismiss()
    end = time.monotonic() + patience
    for worker in workers:
        worker.join(max(0.0, end - time.monotonic()))
    for worker in workers:
        worker.kill()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let SIGINT wait."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(make: Callable[[Plan], Layer], plan: Plan, connection: Connection) -> None:
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _die_with_parent()
    for folder in (plan.scratch, plan.memory):
        Path(folder).mkdir(parents=True, exist_ok=True)
    if plan.mutant is not None:
        mutants.apply(plan.mutant)
    layer = make(plan)
    layer.start()
    try:
        while (case := connection.recv()) != _NO_MORE:
            connection.send(_tried(layer, case))
    except (EOFError, BrokenPipeError):
        pass  # the parent is gone
    finally:
        layer.stop()


def _die_with_parent() -> None:
    """Have the kernel end this process, should the parent be killed."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:  # Linux
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _tried(layer: Layer, case: str) -> Tally:
    try:
        tally = layer.run(case)
    except Exception:  # noqa: BLE001  one case must not end the run
        tally = Tally(cases=1)
        tally.err(f"the laboratory itself failed: {traceback.format_exc()}")
    return tally.named(case)


def try_cases(
    make: Callable[[Plan], Layer], plan: Plan, cases: Iterable[str], workers: int, seconds: float
) -> Generator[tuple[str, Tally]]:
    """Yield each case with its tally, as they are done."""
    waiting = iter(cases)
    numbers = iter(range(10**9))
    busy: dict[Connection, Worker] = {}
    idle: list[Worker] = []
    try:
        for case in waiting:
            with _uninterrupted():
                worker = idle.pop() if idle else Worker(make, plan, next(numbers))
                busy[worker.connection] = worker
                worker.give(case, seconds)
            while len(busy) >= workers:
                yield from _finished(busy, idle)
        while busy:
            yield from _finished(busy, idle)
    finally:
        with _uninterrupted():
            _end([*busy.values(), *idle], _PATIENCE_SECONDS)


def _finished(busy: dict[Connection, Worker], idle: list[Worker]) -> list[tuple[str, Tally]]:
    """Wait for one worker or more; return what they came to."""
    first_due = min(worker.due for worker in busy.values())
    ready = wait(list(busy), max(0.0, first_due - time.monotonic()))
    with _uninterrupted():
        return _sorted_out(ready, busy, idle)


def _sorted_out(
    ready: list[Any], busy: dict[Connection, Worker], idle: list[Worker]
) -> list[tuple[str, Tally]]:
    results = []
    for worker in [worker for worker in busy.values() if worker.connection in ready]:
        tally = worker.take()
        results.append((worker.case, tally.named(worker.case)))
        del busy[worker.connection]
        if worker.died:
            _end([worker], _PATIENCE_SECONDS)
        else:
            idle.append(worker)
    for worker in [worker for worker in busy.values() if worker.due <= time.monotonic()]:
        del busy[worker.connection]
        _end([worker], 0.0)
        tally = Tally(cases=1)
        tally.err("it did not come to an end")
        results.append((worker.case, tally.named(worker.case)))
    return results
