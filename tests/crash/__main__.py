"""The crash laboratory: ``python -m tests.crash [--level ci|nightly] [--layer B …] [--seed N]``.

Tries every layer's cases, then lets the layers catch the deliberate mutants, and writes the report.
An interrupted run of the nightly level goes on where it stopped when it is started again.

Exit status: 0 all promises held and all mutants were caught, 1 not, 130 interrupted. What cannot
run on a machine is listed; with HOLDFAST_NOTHING_SKIPPED=1 in the environment that is a failure.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness import Progress
from tests.crash import mutants
from tests.crash.lab import report
from tests.crash.lab.layer import Plan
from tests.crash.lab.results import Caught, Results, Row
from tests.crash.lab.workers import try_cases
from tests.crash.layers import LAYERS

_IN_MEMORY = Path("/dev/shm")
_NOTHING_SKIPPED = "HOLDFAST_NOTHING_SKIPPED"


def main() -> int:
    """Run what was asked for."""
    options = _options()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**8)
    results = Results.begin(options.level, seed, again=options.again)
    print(f"seed {results.seed}", flush=True)
    scratch = Path(tempfile.mkdtemp(prefix="holdfast-crash-", dir=options.scratch))
    memory = Path(tempfile.mkdtemp(prefix="holdfast-crash-", dir=_memory(scratch)))
    plan = Plan(options.level, results.seed, scratch, memory, options.mutant)
    laboratory = Laboratory(plan, results, Progress())
    try:
        if options.case:
            return laboratory.replay(options.layer[0], options.case)
        letters = list(LAYERS) if options.layer is None else options.layer
        laboratory.run_layers(letters, options.minutes)
        if options.mutant is None and (options.layer is None or options.hunt is not None):
            laboratory.hunt_mutants(options.hunt)
    except KeyboardInterrupt:
        laboratory.progress.clear()
        print("interrupted: what was tried so far is kept", file=sys.stderr)
        return 130
    finally:
        laboratory.progress.clear()
        for folder in (scratch, memory):
            shutil.rmtree(folder, ignore_errors=True)
    found = report.finding(results, scratch.parent)
    if options.layer is None and options.mutant is None:
        report.write(found)
    print(report.table(found))
    for line in report.failures(results):
        print(line)
    if results.not_run and os.environ.get(_NOTHING_SKIPPED):
        print(f"{_NOTHING_SKIPPED} is set, and this did not run: {'; '.join(results.not_run)}")
        return 1
    return int(results.failed)


class Laboratory:
    """Runs layers and mutants, and keeps what they came to."""

    def __init__(self, plan: Plan, results: Results, progress: Progress) -> None:
        self.plan = plan
        self.results = results
        self.progress = progress

    def run_layers(self, letters: list[str], minutes: float | None) -> None:
        """Run layers one after the other; with a limit each gets its share of the time left."""
        end = None if minutes is None else time.monotonic() + 60 * minutes
        for number, letter in enumerate(letters):
            share = None
            if end is not None:
                share = (end - time.monotonic()) / (len(letters) - number)
            self._run_layer(letter, share)

    def _run_layer(self, letter: str, seconds: float | None) -> None:
        kind = LAYERS[letter]
        layer = kind(self.plan)
        row = self.results.row(letter, kind.title)
        row.not_run = layer.why_not()
        if row.not_run is not None:
            return
        cases = list(layer.cases())
        row.planned = len(cases)
        left = [case for case in cases if case not in row.done]
        stop_at = None if seconds is None else time.monotonic() + seconds
        began = time.monotonic()
        label = f"{letter} {kind.title}"
        self.progress.step(label, len(row.done), len(cases))
        outcomes = try_cases(kind, self.plan, left, kind.workers, kind.longest_case_seconds)
        for case, tally in outcomes:
            self.results.add(row, case, tally)
            self.progress.step(label, len(row.done), len(cases))
            if stop_at is not None and time.monotonic() > stop_at:
                outcomes.close()
                break
        row.seconds += time.monotonic() - began

    def hunt_mutants(self, only: list[str] | None) -> None:
        """Let the layers catch each mutant."""
        names = [name for name in mutants.names() if not only or name in only]
        for number, name in enumerate(names):
            self.progress.step(f"mutant {name}", number, len(names))
            self.results.mutants[name] = self._hunt(name)
        self.progress.step("mutants", len(names), len(names))

    def _hunt(self, name: str) -> Caught:
        module = mutants.load(name)
        caught = Caught(what=(module.__doc__ or "").strip().splitlines()[0])
        plan = Plan("mutant", self.plan.seed, self.plan.scratch, self.plan.memory, name)
        for letter in module.CAUGHT_BY:
            kind = LAYERS[letter]
            layer = kind(plan)
            if layer.why_not() is not None:
                continue
            caught.tried.append(letter)
            outcomes = try_cases(kind, plan, layer.cases(), kind.workers, kind.longest_case_seconds)
            for case, tally in outcomes:
                caught.cases += tally.cases
                if tally.failed:
                    caught.layer, caught.case = letter, case
                    caught.how = tally.failures[0].what.splitlines()[-1][:200]
                    outcomes.close()
                    return caught
        return caught

    def replay(self, letter: str, case: str) -> int:
        """Try one case again, in view."""
        kind = LAYERS[letter]
        row: Row = self.results.row(letter, kind.title)
        for _, tally in try_cases(kind, self.plan, [case], 1, kind.longest_case_seconds):
            print(tally)
            row.tally.add(tally)
        return int(row.tally.failed)


def _memory(scratch: Path) -> Path:
    return _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else scratch


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--level", choices=("ci", "nightly"), default="ci")
    parser.add_argument(
        "--layer", nargs="*", choices=sorted(LAYERS), help="only these; writes no report"
    )
    parser.add_argument("--seed", type=int, help="the same cases as in the run that printed it")
    parser.add_argument("--case", help="try this one case of the layer again")
    parser.add_argument("--mutant", choices=mutants.names(), help="give the program this defect")
    parser.add_argument("--hunt", nargs="*", metavar="MUTANT", help="hunt only these mutants")
    parser.add_argument("--minutes", type=float, help="stop when they are over; say how far it got")
    parser.add_argument("--again", action="store_true", help="do not go on with an earlier run")
    parser.add_argument("--scratch", type=Path, help="a folder on the disk to be tried")
    options = parser.parse_args()
    if options.case and len(options.layer or []) != 1:
        parser.error("--case needs the one --layer that it is a case of")
    return options


if __name__ == "__main__":
    sys.exit(main())
