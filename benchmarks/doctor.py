"""Everything in a home looked at, against a bare loop over the same lines; and its memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import holdfast
from benchmarks.conversation import submit_many
from benchmarks.harness import Bench, Result, at_least, at_most

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MANY, _SMALL_MESSAGES = 500, 100
_LARGE_MESSAGES = 40_000
_CHILD = """
import sys, holdfast
from benchmarks.resume_child import peak_bytes
assert list(holdfast.open_store(sys.argv[1]).checkup()) == []
print(peak_bytes())
"""


def doctor(bench: Bench) -> Iterator[Result]:
    """Look at many small sessions, at a large one, and at how much memory that takes."""
    small = _built(bench, "small", bench.amount(_MANY, 100), _SMALL_MESSAGES)
    yield _rate(bench, small, "small")
    large = _built(bench, "large", 1, bench.amount(_LARGE_MESSAGES, 10_000))
    yield _rate(bench, large, "large")
    yield Result("doctor, most memory", _peak(large) / 1e6, "MB", goal=at_most(150, "MB"))


def _built(bench: Bench, name: str, sessions: int, count: int) -> Path:
    home = bench.fresh(f"doctor-{name}") / "home"
    for _ in bench.steps(f"building {sessions} {name} sessions", sessions):
        with holdfast.open_store(home).create() as session:
            submit_many(session, count)
    return home


def _rate(bench: Bench, home: Path, name: str) -> Result:
    store = holdfast.open_store(home)
    journals = sorted(home.glob("sessions/*/*/journal.jsonl"))

    def bare() -> float:
        began = time.perf_counter()
        for journal in journals:
            with journal.open("rb") as file:
                for line in file:
                    json.loads(line)
        return time.perf_counter() - began

    def ours() -> float:
        began = time.perf_counter()
        checkup = store.checkup()
        assert list(checkup) == []
        taken = time.perf_counter() - began
        assert checkup.sessions == len(journals)
        return taken

    samples = bench.interleave(
        f"doctor, {name} sessions", bench.amount(15, 5), {"floor": bare, "ours": ours}
    )
    return samples.result(f"doctor, {name} sessions", "seconds", at_least(1.0), inverse=True)


def _peak(home: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(home)], capture_output=True, text=True, check=True
    )
    return float(done.stdout)
