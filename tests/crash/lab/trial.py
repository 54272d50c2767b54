"""One play with one fault: what layers that use the injector have in common."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from msgspec import Struct

from tests.crash.lab import ledger, native
from tests.crash.lab.layer import Plan
from tests.crash.lab.stage import SCENARIO, Stage
from tests.crash.lab.tally import Tally

_KILLED = -9


class Fault(Struct, frozen=True):
    """What goes wrong, at which call below the folder; ``part`` of a cut write gets through."""

    kind: str
    number: int
    part: int = 500

    @classmethod
    def seeded(cls, kind: str, number: int, plan: Plan, case: str) -> Fault:
        """Return the fault of a case; the seed decides where a write is cut."""
        part = random.Random(f"{plan.seed} {case} {kind} {number}").randrange(1000)
        return cls(kind, number, part)

    @property
    def kills(self) -> bool:
        """Whether the process does not outlive it."""
        return self.kind in native.KILLS


NO_FAULT = Fault("none", 0)


class Trial(Struct, frozen=True):
    """What came of a play with a fault."""

    fault: Fault
    said: list[list[Any]]
    status: int
    log: native.Log

    def judge_ending(self, tally: Tally) -> None:
        """Hold a process that outlived its fault to having come to its end, and count both."""
        struck = self.log.struck
        if struck is not None:
            tally.count(self.fault.kind)
            tally.count(f"at {struck.name}")
        if struck is not None and self.fault.kills:
            if self.status != _KILLED:
                tally.err(f"killed, it ended as {self.status}")
            return
        # What fell has said so, and is the oracle's business.
        lives = ledger.read(self.said).values()
        if not any(life.fell for life in lives) and (
            self.status != 0 or not all(life.done for life in lives)
        ):
            tally.break_(f"the process did not come to its end: status {self.status}")


def play_with(
    stage: Stage,
    folder: Path,
    home: Path,
    fault: Fault,
    *,
    play: str = SCENARIO,
    options: dict[str, Any] | None = None,
) -> Trial:
    """Let a child play in ``home`` and meet a fault at a call below ``folder``."""
    log = folder.with_name(f"{folder.name}.log")
    log.unlink(missing_ok=True)
    arming = native.arming(folder, log, fault.kind, fault.number, fault.part)
    played = stage.play(home, play=play, options=options, prepare=arming)
    return Trial(fault, played.said, played.status, native.read_log(log))
