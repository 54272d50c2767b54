"""Layer J: inputs and histories that nobody thought of.

``fuzz journal 0 17s`` lets atheris work on one target for so long, ``fuzz journal 0 5000x`` for so
many executions; ``input journal FILE`` tries one input again. ``machine 3 30`` runs 30 histories of
30 steps against the model. Inputs that fail are kept in ``.crash``.
"""

from __future__ import annotations

import importlib.util
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import ClassVar

from tests.crash.lab import corpus, machine
from tests.crash.lab.layer import Layer, Plan
from tests.crash.lab.results import ROOT
from tests.crash.lab.tally import Failure, Tally

TARGETS = ("journal", "lines", "live", "decoding", "names", "reading")
_CI_SECONDS = 17
_CI_TARGETS = ("journal", "live", "lines", "names", "decoding", "reading", "journal")
_NIGHTLY = {  # cases and executions of each: 10.8 million together
    "journal": (40, 5_000),
    "live": (40, 5_000),
    "lines": (50, 20_000),
    "names": (50, 20_000),
    "decoding": (80, 100_000),
    "reading": (20, 20_000),
}
_MACHINES = {"ci": (10, 30), "nightly": (1000, 30), "mutant": (4, 10)}
_LONGEST_INPUT_BYTES = 16 * 1024
_LONGEST_EXECUTION_SECONDS = 20
_KEPT = ROOT / ".crash"
_EXECUTED = re.compile(r"^stat::number_of_executed_units:\s*(\d+)", re.MULTILINE)
_COVERED = re.compile(r"DONE\s+cov: (\d+)")
_ARTIFACT = re.compile(r"Test unit written to (.+)$", re.MULTILINE)


class Fuzzed(Layer):
    """Arbitrary bytes, arbitrary names, arbitrary histories."""

    letter = "J"
    title = "fuzzing and a model"
    least: ClassVar[dict[str, int]] = {"ci": 100_000}
    longest_case_seconds = 900.0

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._corpus: Path | None = None

    def why_not(self) -> str | None:
        if importlib.util.find_spec("atheris") is None:
            return "atheris is not installed: make setup installs it where there is a build of it"
        return None

    def cases(self) -> list[str]:
        level = self.plan.level
        count, examples = _MACHINES[level]
        machines = [f"machine {number} {examples}" for number in range(count)]
        if level == "ci":
            fuzz = [f"fuzz {name} {n} {_CI_SECONDS}s" for n, name in enumerate(_CI_TARGETS)]
        elif level == "nightly":
            fuzz = [
                f"fuzz {name} {number} {runs}x"
                for name, (times, runs) in _NIGHTLY.items()
                for number in range(times)
            ]
        else:
            fuzz = [f"fuzz {name} 0 3s" for name in TARGETS]
        return [*fuzz, *machines]

    def run(self, case: str) -> Tally:
        kind, *words = case.split(maxsplit=2 if case.startswith("input ") else -1)
        if kind == "machine":
            return self._machine(int(words[0]), int(words[1]))
        if kind == "input":
            return self._fuzz(words[0], [words[1]])
        name, number, limit = words
        amount, unit = int(limit[:-1]), limit[-1]
        return self._fuzz(
            name,
            [
                f"-max_total_time={amount}" if unit == "s" else f"-runs={amount}",
                f"-seed={random.Random(f'{self.plan.seed} {number}').randrange(1, 2**31)}",
                f"-max_len={_LONGEST_INPUT_BYTES}",
                f"-dict={self._inputs() / 'dictionary'}",
                str(self._inputs() / name),
            ],
        )

    def _inputs(self) -> Path:
        """Return the folder of inputs; what one case finds, the next ones begin with."""
        if self._corpus is None:
            folder = Path(tempfile.mkdtemp(dir=self.plan.memory))
            corpus.write(folder)
            self._corpus = folder
        return self._corpus

    def _fuzz(self, name: str, options: list[str]) -> Tally:
        folder = Path(tempfile.mkdtemp(dir=self.plan.memory))
        _KEPT.mkdir(exist_ok=True)
        common = [
            "-print_final_stats=1",
            f"-timeout={_LONGEST_EXECUTION_SECONDS}",
            "-rss_limit_mb=2048",
            f"-artifact_prefix={_KEPT.relative_to(ROOT)}/fuzz-{name}-",
        ]
        try:
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "tests.crash.lab.fuzz"),
                    *(name, str(folder), self.plan.mutant or "", *common, *options),
                ],
                cwd=ROOT,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return _read(name, done)

    def _machine(self, number: int, examples: int) -> Tally:
        tally = Tally()
        try:
            taken = machine.run(self.plan.memory, self.plan.seed * 1000 + number, examples)
        except Exception as error:  # noqa: BLE001  whatever a history came to, it is told
            notes = "\n".join(getattr(error, "__notes__", []))
            tally.break_(f"{traceback.format_exc(limit=-3)}\n{notes}"[-4000:])
            taken = machine.StoreMachine.taken
        tally.cases += examples
        for name, times in taken.items():
            tally.count(f"step: {name}", times)
        return tally


def _read(name: str, done: subprocess.CompletedProcess[str]) -> Tally:
    """Take from what libFuzzer printed what was tried, and what failed."""
    tally = Tally()
    output = done.stdout + done.stderr
    executed = _EXECUTED.search(output)
    if executed is not None:
        tally.cases = int(executed[1])
        tally.count(f"executions: {name}", tally.cases)
    covered = _COVERED.search(output)
    if covered is not None:
        tally.count(f"runs of the fuzzer: {name}")
    if done.returncode == 0 and (executed is not None or "Executed" in output):
        return tally
    kept = _ARTIFACT.search(output)
    tally.broken += 1
    tally.failures.append(
        Failure(
            f"input {name} {kept[1]}" if kept else "",
            f"the fuzzer ended with {done.returncode}:\n{_telling(output)}",
        )
    )
    return tally


def _telling(output: str) -> str:
    """Return the part of the output that says what was raised."""
    output = output.replace(f"{ROOT}/", "")  # what is kept must not name one machine's folders
    place = output.find("=== Uncaught Python exception")
    end = output.find("\nINFO:", place)
    return output[place:end][-2500:] if place >= 0 else output[-2500:]
