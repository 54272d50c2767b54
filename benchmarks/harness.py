"""Rounds, ratios, scratch folders and progress: what every benchmark is made of.

A benchmark is a generator of results, so that what was measured before an interruption is kept.
A measure is a function that does one round of work and returns one figure (a rate or a time).
"""

from __future__ import annotations

import gc
import shutil
import sys
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

_BAR_WIDTH = 24
_LINE_EVERY_SECONDS = 10.0
_DONE_NAME = "complete"


@dataclass(frozen=True)
class Goal:
    """The limit that a figure is held against."""

    limit: float
    at_most: bool
    unit: str = "ratio"

    def met_by(self, figure: float) -> bool:
        """Tell whether the figure is on the right side of the limit."""
        return figure <= self.limit if self.at_most else figure >= self.limit

    def __str__(self) -> str:
        sign = "≤" if self.at_most else "≥"
        return f"{sign} {show(self.limit, self.unit)}"


def at_least(limit: float) -> Goal:
    """Return the goal of a ratio that should be high."""
    return Goal(limit, at_most=False)


def at_most(limit: float, unit: str = "ratio") -> Goal:
    """Return the goal of a ratio, or of a figure with a unit, that should be low."""
    return Goal(limit, at_most=True, unit=unit)


@dataclass(frozen=True)
class Result:
    """One line of the report.

    ``ratio`` is what the goal judges; where it is ``None`` the goal judges ``ours`` itself, and
    where there is no goal the line only informs.
    """

    name: str
    ours: float
    unit: str
    floor: float | None = None
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    goal: Goal | None = None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; ``None`` without one."""
        if self.goal is None:
            return None
        return self.goal.met_by(self.ours if self.ratio is None else self.ratio)


class Samples:
    """The figures of interleaved measures, round by round."""

    def __init__(self, figures: dict[str, list[float]]) -> None:
        self._figures = figures

    def median(self, name: str) -> float:
        """Return the median figure of one measure."""
        return median(self._figures[name])

    def ratios(self, ours: str, floor: str) -> list[float]:
        """Return the ratio of each round, sorted: neighbours in time meet the same noise."""
        pairs = zip(self._figures[ours], self._figures[floor], strict=True)
        return sorted(one / other for one, other in pairs)

    def result(
        self,
        name: str,
        unit: str,
        goal: Goal | None,
        *,
        ours: str = "ours",
        floor: str = "floor",
        inverse: bool = False,
    ) -> Result:
        """Make a line of the report; ``inverse`` turns times into a ratio of speeds."""
        ratios = self.ratios(floor, ours) if inverse else self.ratios(ours, floor)
        quarter = len(ratios) // 4
        return Result(
            name=name,
            ours=self.median(ours),
            unit=unit,
            floor=self.median(floor),
            ratio=median(ratios),
            spread=(ratios[quarter], ratios[-1 - quarter]),
            goal=goal,
        )


class Progress:
    """Shows what is going on, on standard error: a bar on a terminal, else a line now and then."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._label = ""
        self._shown_at = 0.0

    def step(self, label: str, done: int, total: int) -> None:
        """Tell that ``done`` of ``total`` steps are done."""
        now = time.monotonic()
        if self._terminal:
            if done == total or label != self._label or now - self._shown_at > 0.1:
                filled = _BAR_WIDTH * done // max(total, 1)
                bar = "█" * filled + "·" * (_BAR_WIDTH - filled)
                print(f"\r\033[K{bar} {label}", end="", file=sys.stderr, flush=True)
                self._shown_at = now
        elif label != self._label or now - self._shown_at > _LINE_EVERY_SECONDS:
            print(f"{label} ({done} of {total})", file=sys.stderr, flush=True)
            self._shown_at = now
        self._label = label

    def clear(self) -> None:
        """Remove the bar."""
        if self._terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class Bench:
    """What a benchmark works with: a scratch folder, how much to do, where to report to."""

    def __init__(self, root: Path, progress: Progress, *, quick: bool) -> None:
        self.root = root
        self.progress = progress
        self.quick = quick

    def amount(self, full: int, quick: int) -> int:
        """Return one of two amounts."""
        return quick if self.quick else full

    def fresh(self, name: str) -> Path:
        """Return an empty folder."""
        folder = self.root / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def kept(self, name: str, build: Callable[[Path], None]) -> Path:
        """Return a folder that ``build`` filled, now or in an earlier run with ``--keep``."""
        folder = self.root / name
        complete = folder / _DONE_NAME
        if not complete.exists():
            build(self.fresh(name))
            complete.touch()
        return folder

    def steps(self, label: str, count: int) -> Iterator[int]:
        """Count up to ``count``, showing progress."""
        for number in range(count):
            self.progress.step(label, number, count)
            yield number
        self.progress.step(label, count, count)

    def interleave(
        self, label: str, rounds: int, measures: Mapping[str, Callable[[], float]]
    ) -> Samples:
        """Let measures take turns, in changing order, after one round that does not count."""
        figures: dict[str, list[float]] = {name: [] for name in measures}
        turns = list(measures.items())
        for number in self.steps(label, rounds + 1):
            for name, measure in turns:
                gc.collect()  # what one leaves behind is not charged to the next
                figure = measure()
                if number:
                    figures[name].append(figure)
            turns.reverse()
        return Samples(figures)


def show(value: float, unit: str) -> str:
    """Return a figure as people read it."""
    if unit == "ratio":
        return f"{value:.2f} ×"
    if unit == "seconds":
        return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.2f} ms"
    if unit == "a second":
        return f"{value:,.0f}/s"
    if unit == "MB":
        return f"{value:.1f} MB"
    return f"{value:,.1f} {unit}".replace(".0 ", " ")
