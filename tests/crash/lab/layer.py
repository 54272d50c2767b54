"""What a layer of the laboratory is: a list of cases, and a way to try one of them.

Cases are short strings that say all there is to say (``one 17 torn``), so that any of them can be
tried again by its name. Which cases there are depends on the plan alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from tests.crash.lab.tally import Tally

LEVELS = ("ci", "nightly", "mutant")


class Plan(Struct, frozen=True):
    """How a run goes.

    ``level`` is ``ci``, ``nightly``, or ``mutant`` (few cases, the telling ones first). ``scratch``
    is a folder on a real disk for this worker alone; ``memory`` one in memory, for work where
    nothing depends on the disk. ``mutant`` names the defect that the program under test has; it is
    already applied in the worker, and has to be handed on to processes that the layer starts.
    """

    level: str
    seed: int
    scratch: Path
    memory: Path
    mutant: str | None = None


class Layer:
    """Base of all layers. One object lives in each worker process; ``cases`` is asked outside."""

    letter: ClassVar[str]
    title: ClassVar[str]
    workers: ClassVar[int] = 2
    longest_case_seconds: ClassVar[float] = 120.0
    least: ClassVar[dict[str, int]] = {}
    """How many cases a complete run of a level has at least; fewer, and something is amiss."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def why_not(self) -> str | None:
        """Say why this layer cannot run on this machine; ``None`` if it can."""
        return None

    def cases(self) -> Sequence[str]:
        """Return all cases of the plan, in an order that depends on the plan alone."""
        raise NotImplementedError

    def start(self) -> None:
        """Prepare this worker."""

    def run(self, case: str) -> Tally:
        """Try one case."""
        raise NotImplementedError

    def stop(self) -> None:
        """Clean up after this worker."""
