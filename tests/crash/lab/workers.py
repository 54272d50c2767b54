"""Hands cases to worker processes, one at a time, and collects what they came to.

A worker that dies or does not come back is a failure of the case that it had, and is replaced.
Workers lead process groups of their own, so that whatever they started ends with them.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path

import msgspec

from tests.crash import mutants
from tests.crash.lab.layer import Layer, Plan
from tests.crash.lab.tally import Tally

_FORK = multiprocessing.get_context("fork")  # everything is imported already
_PR_SET_PDEATHSIG = 1
_NO_MORE = ""  # given instead of a case


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

    def give(self, case: str, seconds: float) -> None:
        """Let it try a case."""
        self.case = case
        self.due = time.monotonic() + seconds
        self.connection.send(case)

    def take(self) -> Tally:
        """Return what came of the case."""
        try:
            tally: Tally = self.connection.recv()
        except EOFError:
            tally = Tally(cases=1)
            tally.break_("the worker died")
        return tally

    def end(self, patience: float = 10.0) -> None:
        """End it, and everything that it started; it may clean up for so many seconds."""
        with suppress(OSError):  # it may be dead
            self.connection.send(_NO_MORE)  # closing is not enough: later workers have a copy
        self.connection.close()
        self._process.join(patience)
        assert self._process.pid is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.join()
        for folder in (self._plan.scratch, self._plan.memory):
            shutil.rmtree(folder, ignore_errors=True)


def _work(make: Callable[[Plan], Layer], plan: Plan, connection: Connection) -> None:
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
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
        tally.break_(f"the laboratory itself failed: {traceback.format_exc()}")
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
            worker = idle.pop() if idle else Worker(make, plan, next(numbers))
            worker.give(case, seconds)
            busy[worker.connection] = worker
            while len(busy) >= workers:
                yield from _finished(busy, idle)
        while busy:
            yield from _finished(busy, idle)
    finally:
        for worker in [*busy.values(), *idle]:
            worker.end()


def _finished(busy: dict[Connection, Worker], idle: list[Worker]) -> list[tuple[str, Tally]]:
    """Wait for one worker or more; return what they came to."""
    first_due = min(worker.due for worker in busy.values())
    ready = wait(list(busy), max(0.0, first_due - time.monotonic()))
    results = []
    for worker in [worker for worker in busy.values() if worker.connection in ready]:
        tally = worker.take()
        results.append((worker.case, tally.named(worker.case)))
        del busy[worker.connection]
        if tally.failures and tally.failures[-1].what == "the worker died":
            worker.end()
        else:
            idle.append(worker)
    for worker in [worker for worker in busy.values() if worker.due <= time.monotonic()]:
        del busy[worker.connection]
        worker.end(patience=0.0)
        tally = Tally(cases=1)
        tally.break_("it did not come to an end")
        results.append((worker.case, tally.named(worker.case)))
    return results
