"""Faults that the system really makes, met by the store as any program meets them.

Disks that are full, that fail to sync, that turn read-only; files that may not be changed; no
descriptors, no memory. Nothing is simulated: small disks are mounted, limits are set, blocks are
taken away from under a file. ``full appends ext4 3`` is the fourth round of one such fault; rounds
differ in sizes and times.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from msgspec import Struct, field

from tests.crash.lab import mounts
from tests.crash.lab.faults import player, scarce
from tests.crash.lab.grounds import Ground, prepared
from tests.crash.lab.layer import Layer, Plan
from tests.crash.lab.oracle import Oracle
from tests.crash.lab.scenario import VARIANTS
from tests.crash.lab.stage import SCENARIO, Play, Stage
from tests.crash.lab.tally import Tally

_ROUNDS = {"ci": 1, "nightly": 50, "mutant": 1}
_PERFORM = "tests.crash.lab.faults.player:perform"
_SCARCE = "tests.crash.lab.faults.scarce"
_KILLED = -9
_ROOM_BYTES = 300_000  # less than the scenario takes, even without a reserve
_LARGEST_FILE_BYTES = 400_000
_MOST_DESCRIPTORS = 6
_LONGEST_LIFE_SECONDS = {"one": 0.08, "eight": 0.3}
_ROOM_AFTER_SECONDS = (0.2, 0.9)  # not before it was missed
_CONTROL_GROUPS = {
    # what is limited: the files to write, old and new, and what to write there
    "memory": (("memory.limit_in_bytes", "memory.max"), 16 << 20),
    "pids": (("pids.max",), 1),
}


class Fault(Struct, frozen=True):
    """One kind of case: what is played, on which ground, and how that process must end.

    ``play`` names a play of ``lab.faults``, or after a colon alone a limit that the scenario is
    played under. ``group`` is what a control group limits that the process may join. ``faulty`` is
    for the oracle: streamed text may be missing.
    """

    ground: str
    play: str
    options: dict[str, str] = field(default_factory=dict)
    status: int = 0
    faulty: bool = True
    group: str | None = None


def _full(ground: str) -> dict[str, Fault]:
    plays = (
        "appends", "killed", "closed", "created", "checkpointed", "blob", "compacted", "forked",
        "streamed", "repaired", "recovered",
    )  # fmt: skip
    status = {"killed": _KILLED}
    return {
        f"full {name} {ground}": Fault(ground, f"full:{name}", status=status.get(name, 0))
        for name in plays
    }


FAULTS = {
    "sync continues": Fault("brittle", "sync:continues"),
    "sync waits below": Fault("brittle", "sync:waits", {"full": "below"}),
    "sync waits disk": Fault("brittle", "sync:waits", {"full": "disk"}),
    "sync blob": Fault("brittle", "sync:blob"),
    "sync compacted": Fault("brittle", "sync:compacted"),
    "sync streamed": Fault("brittle", "sync:streamed", status=_KILLED, faulty=False),
    "sync followed": Fault("brittle", "sync:followed"),
    "sync dead": Fault("ext4", "sync:dead"),
    "sync dead reopened": Fault("ext4", "sync:dead_reopened"),
    **_full("ext4"),
    **_full("tmpfs"),
    "limit appends": Fault("folder", "full:appends", {"fullness": "limit"}),
    "limit killed": Fault("folder", "full:killed", {"fullness": "limit"}, _KILLED),
    "limit closed": Fault("folder", "full:closed", {"fullness": "limit"}),
    "limit created": Fault("folder", "full:created", {"fullness": "limit"}),
    "read-only before": Fault("ext4", "locked:mounted_read_only"),
    "read-only middle": Fault("ext4", "locked:turned_read_only"),
    "immutable before": Fault("ext4", "locked:immutable", {"when": "before"}),
    "immutable middle": Fault("ext4", "locked:immutable", {"when": "middle"}),
    "append-only": Fault("ext4", "locked:append_only"),
    "descriptors open": Fault("folder", "scarce:descriptors_at_open"),
    **{
        f"descriptors {call}": Fault("folder", "scarce:descriptors", {"call": call})
        for call in scarce.CALLS
    },
    "memory": Fault("folder", "scarce:memory"),
    "threads": Fault("folder", "scarce:threads", group="pids"),
    "out of memory one": Fault("folder", ":memory", {"variant": "one"}, _KILLED, group="memory"),
    "out of memory eight": Fault(
        "folder", ":memory", {"variant": "eight"}, _KILLED, group="memory"
    ),
    "scenario full ext4": Fault("ext4", ":room", {"variant": "one"}),
    "scenario full tmpfs": Fault("tmpfs", ":room", {"variant": "one"}),
    "scenario full eight": Fault("ext4", ":room", {"variant": "eight"}),
    "scenario full moved": Fault("ext4", ":room", {"variant": "moved"}),
    "scenario full followed": Fault("tmpfs", ":room", {"variant": "followed"}),
    "scenario descriptors moved": Fault("folder", ":descriptors", {"variant": "moved"}),
    "scenario limit": Fault("folder", ":size", {"variant": "one"}),
    "scenario descriptors": Fault("folder", ":descriptors", {"variant": "one"}),
}


_TELLING = [
    "sync continues",
    "sync waits disk",
    "full killed ext4",
    "full appends ext4",
    "limit appends",
    "sync streamed",
    "sync compacted",
    "sync blob",
]


class Faults(Layer):
    letter = "F"
    title = "real faults of the system"
    least: ClassVar[dict[str, int]] = {"ci": 60}
    workers = 4  # they wait most of the time
    longest_case_seconds = 90.0

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._stage: Stage | None = None

    def why_not(self) -> str | None:
        return None if sys.platform == "linux" else "these faults are made by Linux"

    def cases(self) -> Sequence[str]:
        names = list(FAULTS)
        if self.plan.level == "mutant":
            names = _TELLING
        return [f"{name} {number}" for number in range(_ROUNDS[self.plan.level]) for name in names]

    def start(self) -> None:
        if mounts.why_not("tmpfs") is None:
            mounts.separate()
        self._stage = Stage(self.plan)

    def stop(self) -> None:
        if self._stage is not None:
            self._stage.close()

    def run(self, case: str) -> Tally:
        name = case.rpartition(" ")[0]
        fault = FAULTS[name]
        why_not = _why_not(fault)
        if why_not is not None:
            tally = Tally()
            tally.count(f"not run: {name}: {why_not}")
            return tally
        # Where only the process is short of something, nothing depends on the disk.
        in_memory = fault.play.startswith("scarce:")
        base = (self.plan.memory if in_memory else self.plan.scratch) / "a fault"
        try:
            with prepared(fault.ground, base) as ground, _control_group(fault.group) as group:
                return _judged(self._played(case, fault, ground, group), fault, ground)
        finally:
            shutil.rmtree(base, ignore_errors=True)

    def _played(self, case: str, fault: Fault, ground: Ground, group: Path | None) -> Play:
        assert self._stage is not None
        seed = f"{self.plan.seed} {case}"
        if fault.play.startswith(":"):
            return self._scenario(fault, ground, group, random.Random(seed))
        options = {"what": fault.play, "ground": msgspec.to_builtins(ground), "seed": seed}
        if group is not None:
            options["group"] = str(group)
        return self._stage.play(ground.home, play=_PERFORM, options={**options, **fault.options})

    def _scenario(
        self, fault: Fault, ground: Ground, group: Path | None, chance: random.Random
    ) -> Play:
        """Play the scenario under a limit that strikes at a place left to chance."""
        assert self._stage is not None
        play, variant = SCENARIO, fault.options["variant"]
        if fault.play == ":size":
            prepare = ["limit_file_size", chance.randrange(_LARGEST_FILE_BYTES)]
        elif fault.play == ":descriptors":
            prepare = ["limit_descriptors", chance.randrange(_MOST_DESCRIPTORS)]
        elif fault.play == ":room":
            ground.fill(but_for=chance.randrange(_ROOM_BYTES * VARIANTS[variant]))
            seconds = chance.uniform(*_ROOM_AFTER_SECONDS)
            prepare = ["make_room", ground.kind, ground.base, seconds]
        else:
            play = f"{_SCARCE}:life_and_death"
            seconds = chance.uniform(0.0, _LONGEST_LIFE_SECONDS[variant])
            prepare = ["use_up_memory", str(group), seconds]
        prepare[0] = f"{_SCARCE}:{prepare[0]}"
        return self._stage.play(ground.home, play=play, options=fault.options, prepare=prepare)


def _judged(play: Play, fault: Fault, ground: Ground) -> Tally:
    told = Tally()
    if play.status != fault.status:
        told.break_(f"the process ended with status {play.status}, not {fault.status}")
    ground.mend()
    ground.free()
    ground.remount()
    said = player.heard(play.said, told)
    tally = Oracle(ground.home, said, faulty=fault.faulty).judge()
    tally.add(told)
    if fault.play.startswith(":"):
        _count_strikes(said, fault, tally)
    return tally


def _count_strikes(said: list[list[Any]], fault: Fault, tally: Tally) -> None:
    """Count whether the scenario met its limit at all."""
    if any(words[0] == "refused" for words in said):
        tally.count(f"scenarios that were refused something for want of {fault.play[1:]}")
    if fault.status == _KILLED:
        whole = sum(words[0] == "done" for words in said)
        tally.count(
            "killed after the scenario" if whole else "killed in the middle of the scenario"
        )


# What the machine has


@cache
def _why_not_ground(kind: str) -> str | None:
    if kind == "folder":
        return None
    if kind == "tmpfs":
        return mounts.why_not("tmpfs")
    return mounts.why_not("tmpfs", "ext4")


def _why_not(fault: Fault) -> str | None:
    """Say why a fault cannot be had here."""
    if fault.group is not None and _controller(fault.group) is None:
        return f"there is no control group here that limits {fault.group}"
    return _why_not_ground(fault.ground)


@cache
def _controller(what: str) -> Path | None:
    """Return the folder below which this process may make control groups that limit something."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, place = line.split(":", 2)
        if what in controllers.split(","):
            root = Path("/sys/fs/cgroup") / controllers
        elif controllers == "":
            root = Path("/sys/fs/cgroup")
        else:
            continue
        for folder in (root / place.lstrip("/"), root):
            if _can_limit(folder, what):
                return folder
    return None


def _can_limit(folder: Path, what: str) -> bool:
    group = folder / f"holdfast-try-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        return False
    try:
        return any((group / name).exists() for name in _CONTROL_GROUPS[what][0])
    finally:
        group.rmdir()


@contextmanager
def _control_group(what: str | None) -> Iterator[Path | None]:
    """Make a control group whose processes may have only so much."""
    if what is None:
        yield None
        return
    folder = _controller(what)
    assert folder is not None
    group = folder / f"holdfast-{os.getpid()}"
    group.mkdir()
    try:
        names, limit = _CONTROL_GROUPS[what]
        for name in names:
            if (group / name).exists():
                (group / name).write_text(str(limit))
        yield group
    finally:
        group.rmdir()
