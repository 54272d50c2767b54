"""Opening a session of a gigabyte: time and memory must not depend on its history.

Small and large journal are made alike: the same distance from the last mark to the end, and each
round starts from the same bytes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import holdfast
from benchmarks.conversation import MARK_EVERY_BYTES, MESSAGE_BYTES, lengthen, messages
from benchmarks.harness import Bench, Result, at_most

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MEGABYTE = 1_000_000
_MEMORY_MB = 60
_CHILD = Path(__file__).with_name("resume_child.py")
_AFTER_MARK = MARK_EVERY_BYTES // MESSAGE_BYTES // 2  # on average half an interval is read
_KEPT_MESSAGES = 20


def resume(bench: Bench) -> Iterator[Result]:
    """Resume behind a checkpoint near the end; open a session that never had one."""
    large = bench.amount(1000, 100)
    name = "1 GB" if large == 1000 else f"{large} MB"
    for job, what in (("resume", "with a checkpoint"), ("open", "without one")):
        small_home = _home(bench, job, 1)
        large_home = _home(bench, job, large)
        peaks: list[int] = []
        samples = bench.interleave(
            f"{job} {name}",
            bench.amount(25, 9),
            {"floor": _measure(small_home, job, []), "ours": _measure(large_home, job, peaks)},
        )
        yield samples.result(f"{job} {name} {what}, against 1 MB", "seconds", at_most(2.0))
        yield Result(
            name=f"  peak memory, {job}",
            ours=max(peaks) / _MEGABYTE,
            unit="MB",
            goal=at_most(_MEMORY_MB, "MB"),
        )


def _home(bench: Bench, job: str, megabytes: int) -> Path:
    label = f"building a session of {megabytes} MB"

    def build(folder: Path) -> None:
        store = holdfast.open_store(folder)
        with store.create() as session:
            session.append(messages()[:2])
        lengthen(
            store,
            session.id,
            megabytes * _MEGABYTE,
            _AFTER_MARK,
            lambda done, total: bench.progress.step(label, done, total),
        )
        if job == "resume":
            with store.open(session.id) as session:
                last = session.append(messages()[:_KEPT_MESSAGES])
                summary = [holdfast.user("so far: " + "x" * MESSAGE_BYTES)]
                # The body itself: session.checkpoint() would first read the branch it covers.
                session.append(
                    holdfast.Checkpoint(summary=summary, keep_from=last.seq - _KEPT_MESSAGES + 1)
                )
                session.append(messages()[:_KEPT_MESSAGES])

    return bench.kept(f"{job}-{megabytes}", build)


def _measure(home: Path, job: str, peaks: list[int]) -> Callable[[], float]:
    journal = next(home.glob("sessions/*/*/journal.jsonl"))
    noted = home / "size"
    if not noted.exists():
        noted.write_text(str(journal.stat().st_size), encoding="ascii")
    size = int(noted.read_text(encoding="ascii"))

    def measure() -> float:
        os.truncate(journal, size)
        answer = subprocess.run(
            [sys.executable, str(_CHILD), str(home), journal.parent.name, job],
            capture_output=True,
            text=True,
            check=True,
        )
        seconds, peak = answer.stdout.split()
        peaks.append(int(peak))
        return float(seconds)

    return measure
