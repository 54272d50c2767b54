"""Layer A: every call that writes, killed, torn, cut short or refused.

A clean run is recorded first. Then the scenario is played again for every call of that run and
every fault that can happen to it. A case is the variant of the scenario, the number of the call,
and the fault: ``one 17 torn``. The variants that do what the main scenario does not meet one fault
at each call, in turn, where there is little time.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import ClassVar

from tests.crash import mutants
from tests.crash.lab import native
from tests.crash.lab.layer import Layer, Plan
from tests.crash.lab.native import LOST_SYNC, ONCE, ONE_FILE, STAYS, Operation
from tests.crash.lab.oracle import Oracle
from tests.crash.lab.scenario import VARIANTS
from tests.crash.lab.stage import Stage
from tests.crash.lab.tally import Tally
from tests.crash.lab.trial import NO_FAULT, Fault, play_with

_FAULTS = {
    "ci": (*ONCE, *STAYS, LOST_SYNC, "eio-file"),
    "nightly": (*ONCE, *STAYS, LOST_SYNC, *ONE_FILE),
}
_VARIANTS = {
    "ci": ("one", "moved", "followed", "acted"),
    "nightly": ("one", "eight", "moved", "followed", "acted"),
}
_WHOLE = {"ci": ("one",), "nightly": tuple(VARIANTS)}
_ENDLESS = {"acted": ("enospc-stays", "enospc-file")}  # a turn waits until there is room
_SLACK = 4
"""Calls beyond the recorded ones that are tried, too: how live text is gathered varies."""


class Calls(Layer):
    """The injector at every call of the scenario."""

    letter: ClassVar[str] = "A"
    title: ClassVar[str] = "every write-side call: killed, torn, short, refused"
    least: ClassVar[dict[str, int]] = {"ci": 1_000}
    workers: ClassVar[int] = 6  # the scenario sleeps at times
    longest_case_seconds: ClassVar[float] = 60.0

    def why_not(self) -> str | None:
        return native.why_not()

    def cases(self) -> Sequence[str]:
        level = self.plan.level
        if level == "mutant":
            variant = mutants.variant_of(self.plan.mutant)
            return list(_telling_cases(recorded(self.plan, variant), variant))
        found = []
        for variant in _VARIANTS[level]:
            faults = [each for each in _FAULTS[level] if each not in _ENDLESS.get(variant, ())]
            pairs = list(_pairs(recorded(self.plan, variant), faults))
            pairs = pairs if variant in _WHOLE[level] else list(_in_turn(pairs))
            found += [f"{variant} {number} {fault}" for number, fault in pairs]
        return found

    def start(self) -> None:
        self._stage = Stage(self.plan, native.preloaded())
        self._folder = self.plan.memory / "layer A"
        self._folder.mkdir()

    def run(self, case: str) -> Tally:
        variant, number, kind = case.split()
        fault = Fault.seeded(kind, int(number), self.plan, case)
        home = self._folder / "a home"
        try:
            trial = play_with(self._stage, self._folder, home, fault, options={"variant": variant})
            # A short write is no excuse for losing text that others could see.
            faulty = not fault.kills and kind != "short"
            tally = Oracle(home, trial.said, faulty=faulty).judge()
            trial.judge_ending(tally)
            if trial.log.struck is None:
                tally.cases = 0
                tally.count("not reached")
            return tally
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def stop(self) -> None:
        self._stage.close()


def _pairs(operations: list[Operation], faults: Sequence[str]) -> Iterator[tuple[int, str]]:
    last_on = {operation.path: operation.number for operation in operations}
    for operation in operations:
        # A file that fails for good is another case than a call that does only if it is used again.
        used_again = operation.number < last_on[operation.path]
        for fault in faults:
            if operation.may_meet(fault) and (used_again or fault not in ONE_FILE):
                yield operation.number, fault
    for more in range(1, _SLACK + 1):
        for fault in ("before", "after", "eio"):  # which can happen to anything
            yield len(operations) + more, fault


def _in_turn(pairs: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield one fault of each call: all kinds have their turn."""
    for number, group in groupby(pairs, key=lambda pair: pair[0]):
        faults = [fault for _, fault in group]
        yield number, faults[number % len(faults)]


def _telling_cases(operations: list[Operation], variant: str) -> Iterator[str]:
    """Yield cases that show most defects: faults that are easily taken for success come first."""
    for fault in (LOST_SYNC, "short"):
        for operation in operations:
            if operation.may_meet(fault) and "index.db" not in operation.path:
                yield f"{variant} {operation.number} {fault}"
    for operation in reversed(operations):
        if operation.may_meet("torn"):
            yield f"{variant} {operation.number} torn"
    for fault in ("before", "eio-stays"):
        for operation in operations[::5]:
            yield f"{variant} {operation.number} {fault}"


@cache
def recorded(plan: Plan, variant: str) -> list[Operation]:
    """Return the calls of a clean run."""
    folder = plan.memory / "recording"
    folder.mkdir()
    try:
        with Stage(plan, native.preloaded()) as stage:
            options = {"variant": variant}
            trial = play_with(stage, folder, folder / "a home", NO_FAULT, options=options)
        assert trial.status == 0, "a run without a fault does not come to its end"
        return trial.log.operations
    finally:
        shutil.rmtree(folder)
        Path(f"{folder}.log").unlink(missing_ok=True)
