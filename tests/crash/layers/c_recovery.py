"""Layer C: a crash during recovery, and once more during the recovery from that.

A start is what a fault has left of the scenario's home: killed at some call (``one 57 torn``), or a
state that a power cut may leave (``power one 13 of 40``). Every session in it is opened, written
and closed, and that meets a fault, too: ``one 57 torn / 370 before`` kills the opening at the call
that is 370 thousandths of the way through those that the fault can happen to. In the end everything
that was ever acknowledged must be there, as after any other crash.

Power cuts are of a recording that each run makes anew. When such a case fails, the recording is
kept, and the failure names it: ``kept .crash/recordings/… / 370 before``.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct

from tests.crash import mutants
from tests.crash.lab import ledger, native
from tests.crash.lab.layer import Layer
from tests.crash.lab.native import KILLS, LOST_SYNC, ONCE, STAYS, Operation
from tests.crash.lab.opening import OPENING, options_after
from tests.crash.lab.oracle import Oracle
from tests.crash.lab.stage import Stage
from tests.crash.lab.tally import Tally
from tests.crash.lab.trial import NO_FAULT, Fault, Trial, play_with
from tests.crash.layers.a_calls import recorded
from tests.crash.layers.b_power_model import SampledState, sampled_states, state_named

_FAULTS = (*ONCE, *STAYS, LOST_SYNC)
_SEPARATOR = " / "
_APPENDED = re.compile(r".*/sessions/[^./][^/]*/[^/]+/(journal|live)\.jsonl")
_TWICE = 0.2
"""How many of the cases have a second opening that meets a fault."""


class _Size(Struct, frozen=True):
    """How many starts of which kind, and how many openings of each."""

    kills: dict[str, int]  # by variant
    power_cuts: dict[str, int]
    openings: int


_SIZES = {
    "ci": _Size(
        kills={"one": 19, "moved": 6, "followed": 6, "acted": 2},
        power_cuts={"one": 12, "moved": 5, "followed": 4},
        openings=10,
    ),
    "nightly": _Size(
        kills={"one": 170, "eight": 50, "moved": 40, "followed": 30, "acted": 10},
        power_cuts={"one": 180, "moved": 40, "followed": 30},
        openings=93,
    ),
}
_KILLS_OF_A_MUTANT = 30
_OPENINGS_OF_A_MUTANT = 16


class Recovery(Layer):
    """The injector at the opening of what another fault has left."""

    letter: ClassVar[str] = "C"
    title: ClassVar[str] = "a crash during recovery"
    least: ClassVar[dict[str, int]] = {"ci": 500}
    workers: ClassVar[int] = 6  # the scenario sleeps at times
    longest_case_seconds: ClassVar[float] = 60.0

    def why_not(self) -> str | None:
        return native.why_not()

    def cases(self) -> Sequence[str]:
        rng = random.Random(f"layer C {self.plan.seed}")
        size = self._size()
        faults = ("before",) if self.plan.level == "mutant" else _FAULTS
        return [
            _SEPARATOR.join([start, *steps])
            for start in self._starts(rng, size)
            for steps in _openings(rng, size.openings, faults)
        ]

    def _size(self) -> _Size:
        if self.plan.level == "mutant":
            kills = {mutants.variant_of(self.plan.mutant): _KILLS_OF_A_MUTANT}
            return _Size(kills, {}, _OPENINGS_OF_A_MUTANT)
        return _SIZES[self.plan.level]

    def _starts(self, rng: random.Random, size: _Size) -> list[str]:
        starts = []
        for variant, number in size.kills.items():
            starts += _kills(rng, variant, recorded(self.plan, variant), number)
        for variant, number in size.power_cuts.items():
            starts += [f"power {variant} {n} of {number}" for n in range(number)]
        return starts

    def start(self) -> None:
        self._stage = Stage(self.plan, native.preloaded())
        self._folder = self.plan.memory / "layer C"
        self._clean: dict[str, list[Operation]] = {}
        self._states: dict[str, list[SampledState]] = {}

    def run(self, case: str) -> Tally:
        start, *steps = case.split(_SEPARATOR)
        self._folder.mkdir()
        try:
            tally = self._crash_again(start, steps)
        finally:
            shutil.rmtree(self._folder)
        if tally.failed and start.startswith("power"):
            tally.named(_SEPARATOR.join([f"kept {self._state(start).keep()}", *steps]))
        return tally

    def _crash_again(self, start: str, steps: list[str]) -> Tally:
        prepared = self._prepared(start)
        if prepared is None:
            return Tally(facts={"start not reached": 1})
        home, said = prepared
        operations = self._clean_opening(start, home, said)
        trials = []
        for times, step in enumerate(steps, 1):
            share, kind = step.split()
            number = _number_at(operations, int(share), kind)
            # Not by the start: a failing one gets another name, and must do the same again.
            fault = Fault.seeded(kind, number, self.plan, step)
            trials.append(self._opening(home, said, times, fault))
            said = said + trials[-1].said
        return self._judged(start, home, said, operations, trials)

    def _judged(
        self,
        start: str,
        home: Path,
        said: list[list[Any]],
        operations: list[Operation],
        trials: list[Trial],
    ) -> Tally:
        power_cut = start.startswith(("power", "kept"))
        faulty = not all(trial.fault.kills or trial.fault.kind == "short" for trial in trials)
        tally = Oracle(home, said, power_cut=power_cut, faulty=faulty).judge()
        for trial in trials:
            trial.judge_ending(tally)
        struck = sum(trial.log.struck is not None for trial in trials)
        tally.cases = int(struck > 0)
        if not struck:
            tally.count("not reached")
            return tally
        tally.count("after a power cut" if power_cut else "after a kill")
        if struck > 1:
            tally.count("crashed twice")
        if any("/damaged" in operation.path for operation in operations):
            tally.count("with a torn end to repair")
        if any(operation.path.endswith("/live.jsonl") for operation in operations):
            tally.count("with live text to keep")
        return tally

    def stop(self) -> None:
        self._stage.close()

    # Starts

    def _prepared(self, start: str) -> tuple[Path, list[list[Any]]] | None:
        """Make a start; return its home and what was said, ``None`` if the kill came too late."""
        if start.startswith(("power", "kept")):
            state = self._state(start)
            return state.write_to(self._folder / "after a power cut"), state.said
        variant, number, kind = start.split()
        home = self._folder / "a home"
        fault = Fault.seeded(kind, int(number), self.plan, start)
        trial = play_with(self._stage, self._folder, home, fault, options={"variant": variant})
        return None if trial.log.struck is None else (home, trial.said)

    def _state(self, start: str) -> SampledState:
        kind, _, name = start.partition(" ")
        if kind == "kept":
            return state_named(name)
        variant, number, _, many = name.split()
        if variant not in self._states:
            # Before anything was acknowledged there may be no session to be opened.
            sample = sampled_states(self.plan, 2 * int(many), variant=variant)
            self._states[variant] = [state for state in sample if _acknowledges(state.said)]
        states = self._states[variant]
        return states[int(number) % len(states)]

    # Openings

    def _opening(
        self,
        home: Path,
        said: list[list[Any]],
        times: int,
        fault: Fault,
        folder: Path | None = None,
    ) -> Trial:
        options = options_after(said, times)
        folder = folder or self._folder
        return play_with(self._stage, folder, home, fault, play=OPENING, options=options)

    def _clean_opening(self, start: str, home: Path, said: list[list[Any]]) -> list[Operation]:
        """Return the calls of an opening that nothing disturbs, tried on a copy."""
        if start not in self._clean:
            folder = self.plan.memory / "a copy"
            copy = folder / home.relative_to(self._folder)
            if home.exists():
                shutil.copytree(home, copy, symlinks=True)
            try:
                trial = self._opening(copy, said, 1, NO_FAULT, folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            self._clean[start] = trial.log.operations
        return self._clean[start]


def _acknowledges(said: list[list[Any]]) -> bool:
    return any(life.promised for life in ledger.read(said).values())


def _kills(rng: random.Random, variant: str, operations: list[Operation], number: int) -> list[str]:
    """Return starts: a third has a torn end, a third text that was being streamed, at least."""
    chosen: set[tuple[int, str]] = set()
    groups = (_torn_ends(operations), _while_streaming(operations), _anywhere(operations))
    for left, group in zip((3, 2, 1), groups, strict=True):
        calls = sorted(set(group) - chosen)
        chosen.update(rng.sample(calls, min(len(calls), (number - len(chosen)) // left)))
    return [f"{variant} {call} {kind}" for call, kind in sorted(chosen)]


def _torn_ends(operations: list[Operation]) -> Iterator[tuple[int, str]]:
    for operation in operations:
        if operation.may_meet("torn") and _APPENDED.fullmatch(operation.path):
            yield operation.number, "torn"


def _while_streaming(operations: list[Operation]) -> Iterator[tuple[int, str]]:
    """Yield kills between a write to a live file and its being emptied."""
    streaming: set[str] = set()
    for operation in operations:
        if streaming:
            yield operation.number, "before"
        if operation.path.endswith("/live.jsonl"):
            if operation.name == "write":
                streaming.add(operation.path)
            elif operation.name in ("ftruncate", "unlink"):
                streaming.discard(operation.path)


def _anywhere(operations: list[Operation]) -> Iterator[tuple[int, str]]:
    """Yield kills at any call that matters to a session, from when there is one to be opened."""
    made = next(operation.number for operation in operations if operation.name == "rename")
    for operation in operations:
        if operation.number > made and "index.db" not in operation.path:
            yield from ((operation.number, kind) for kind in KILLS if operation.may_meet(kind))


def _openings(rng: random.Random, number: int, faults: Sequence[str]) -> Iterator[list[str]]:
    """Yield the faults of so many cases: every kind in turn, places spread over the opening."""
    kinds = [faults[n % len(faults)] for n in range(number)]
    rng.shuffle(kinds)  # or each kind would always strike at the same place
    for n, kind in enumerate(kinds):
        share = (n * 1000 + rng.randrange(1000)) // number
        again = [f"{rng.randrange(1000)} {rng.choice(faults)}"] if rng.random() < _TWICE else []
        yield [f"{share} {kind}", *again]


def _number_at(operations: list[Operation], share: int, kind: str) -> int:
    """Return the number of the call that is so many thousandths of the way through."""
    possible = [operation.number for operation in operations if operation.may_meet(kind)]
    return possible[share * len(possible) // 1000] if possible else 1
