"""The crash laboratory: ``python -m tests.crash [--level ci|nightly] [--layer B …] [--seed N]``.

Tries every layer's cases, then lets the layers catch the deliberate mutants, and writes the report.
An interrupted run of the nightly level goes on where it stopped when it is started again.

Exit status: 0 all promises held and all mutants were caught, 1 not, 130 interrupted. An error of
the laboratory itself fails a run, too, but catches no mutant. What cannot run on a machine is
listed; with HOLDFAST_NOTHING_SKIPPED=1 in the environment that is a failure.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType

from benchmarks.harness import Progress
from tests.crash import mutants
from tests.crash.lab import report
from tests.crash.lab.layer import Plan
from tests.crash.lab.results import Caught, Results
from tests.crash.lab.tally import Tally, total
from tests.crash.lab.workers import try_cases
from tests.crash.layers import LAYERS

_IN_MEMORY = Path("/dev/shm")
_NOTHING_SKIPPED = "HOLDFAST_NOTHING_SKIPPED"
_ERRORS_ARE_ENOUGH = 5  # of a layer that hunts a mutant; each may have taken minutes


def main() -> int:
    """Run what was asked for."""
    options = _options()
    before = signal.signal(signal.SIGINT, _interrupt)
    try:
        return _run(options)
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Stop, once: a second Ctrl+C must not disturb the cleaning up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _run(options: argparse.Namespace) -> int:
    results = _begin(options)
    print(f"seed {results.seed}", flush=True)
    progress = Progress()
    interrupted = False
    with _folder(options.scratch) as scratch, _folder(_memory()) as memory:
        place = scratch.parent
        plan = Plan(options.level, results.seed, scratch, memory, options.mutant)
        laboratory = Laboratory(plan, results, progress)
        try:
            if options.case:
                return laboratory.replay(options.layer[0], options.case)
            letters = list(LAYERS) if options.layer is None else options.layer
            laboratory.run_layers(letters, options.minutes)
            if options.mutant is None and (options.layer is None or options.hunt is not None):
                laboratory.hunt_mutants(options.hunt)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            progress.clear()
    if not interrupted and _is_complete(options):
        results.least = {
            letter: kind.least.get(options.level, 0) for letter, kind in LAYERS.items()
        }
    found = report.finding(results, place)
    if not interrupted and _is_reported(options):
        report.write(found)
    print(report.table(found))
    for line in report.failures(results):
        print(line)
    if interrupted:
        kept = ": what was tried so far is kept" if results.kept else ""
        print(f"interrupted{kept}", file=sys.stderr)
        return 130
    if results.not_run and os.environ.get(_NOTHING_SKIPPED):
        print(f"{_NOTHING_SKIPPED} is set, and this did not run: {'; '.join(results.not_run)}")
        return 1
    return int(results.failed)


def _begin(options: argparse.Namespace) -> Results:
    """Begin a run, or go on with one; a look at something in particular leaves no notes."""
    chosen = options.seed is not None
    seed = options.seed if chosen else random.SystemRandom().randrange(10**8)
    looks = bool(options.case or options.mutant or (chosen and options.layer is not None))
    results = Results.begin(options.level, seed, again=options.again or chosen, keep=not looks)
    results.mutant = options.mutant
    return results


def _is_complete(options: argparse.Namespace) -> bool:
    """Whether every layer is to try all of its cases."""
    return options.layer is None and options.mutant is None and options.minutes is None


def _is_reported(options: argparse.Namespace) -> bool:
    """Whether the run says enough for the report: every layer and every mutant."""
    everything = options.layer is None and options.mutant is None and options.hunt is None
    return everything and (options.minutes is None or options.level == "nightly")


@contextmanager
def _folder(parent: Path | None) -> Iterator[Path]:
    # Not a TemporaryDirectory, which would also be removed by a forked child that ends properly.
    path = Path(tempfile.mkdtemp(prefix="holdfast-crash-", dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


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
        label = f"{letter} {kind.title}"
        self.progress.step(label, len(row.done), len(cases))
        outcomes = try_cases(kind, self.plan, left, kind.workers, kind.longest_case_seconds)
        since = time.monotonic()
        with closing(outcomes):
            for case, tally in outcomes:
                now = time.monotonic()
                self.results.add(row, case, tally, now - since)
                since = now
                self.progress.step(label, len(row.done), len(cases))
                if stop_at is not None and now > stop_at:
                    break

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
            with closing(outcomes):
                errors = 0
                for case, tally in outcomes:
                    caught.cases += tally.cases
                    caught.errors += tally.errors
                    errors += tally.errors
                    if tally.blames_program:
                        caught.layer, caught.case = letter, case
                        caught.how = _last_line(tally, error=False)
                        return caught
                    caught.trouble = caught.trouble or _last_line(tally, error=True)
                    if errors >= _ERRORS_ARE_ENOUGH:
                        break
        return caught

    def replay(self, letter: str, case: str) -> int:
        """Try one case again, in view."""
        kind = LAYERS[letter]
        why_not = kind(self.plan).why_not()
        if why_not is not None:
            print(f"{letter} cannot run here: {why_not}")
            return 1
        with closing(try_cases(kind, self.plan, [case], 1, kind.longest_case_seconds)) as outcomes:
            tally = total(tally for _, tally in outcomes)
        for line in report.replayed(letter, case, tally):
            print(line)
        return int(tally.failed or not tally.cases)


def _last_line(tally: Tally, *, error: bool) -> str:
    """Return the gist of the first failure of a kind."""
    whats = (failure.what for failure in tally.failures if failure.error == error)
    return next((what.splitlines()[-1][:200] for what in whats if what), "")


def _memory() -> Path | None:
    return _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None


def _options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--level", choices=("ci", "nightly"), default="ci")
    parser.add_argument(
        "--layer", nargs="*", choices=sorted(LAYERS), help="only these; writes no report"
    )
    parser.add_argument("--seed", type=int, help="the same cases as in the run that printed it")
    parser.add_argument("--case", help="try this one case of the layer again")
    parser.add_argument("--mutant", choices=mutants.names(), help="give the program this defect")
    parser.add_argument(
        "--hunt",
        nargs="*",
        choices=mutants.names(),
        metavar="MUTANT",
        help="hunt only these mutants; writes no report",
    )
    parser.add_argument("--minutes", type=float, help="stop when they are over; say how far it got")
    parser.add_argument("--again", action="store_true", help="do not go on with an earlier run")
    parser.add_argument("--scratch", type=Path, help="a folder on the disk to be tried")
    options = parser.parse_args(arguments)
    if options.case and len(options.layer or []) != 1:
        parser.error("--case needs the one --layer that it is a case of")
    return options


if __name__ == "__main__":
    sys.exit(main())
