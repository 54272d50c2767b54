"""Real power cuts: a file system is shut down in the middle of the scenario, its log unflushed.

``ext4 one 3``: the scenario plays on a file system of its own, on a loop device. At a random time
the kernel is told to stop writing to the device at once and for good; what was not yet there never
gets there. The process lives on for a moment on the dead file system and is then killed, the file
system is mounted again, and judged. The next case plays on the same file system, so that it writes
over the leavings of earlier ones.
"""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import struct
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct

from tests.crash.lab import ledger, mounts
from tests.crash.lab.layer import Layer
from tests.crash.lab.oracle import Oracle
from tests.crash.lab.scenario import VARIANTS
from tests.crash.lab.stage import Play, Stage, length_seconds
from tests.crash.lab.tally import Tally
from tests.crash.lab.witness import Witness

_KINDS = ("ext4", "xfs")
_IMAGE_BYTES = {"ext4": 128 << 20, "xfs": 300 << 20}
_CUTS = {"ci": 50, "nightly": 1000, "mutant": 4}  # of each kind
_MOVES = ("compress", "delete", "restore", "stage", "receive", "batch")
_LONGEST_AFTERLIFE_SECONDS = 0.02
_SHUT_DOWN = 0x8004587D  # the same number for ext4 and xfs
_WITHOUT_FLUSHING_THE_LOG = struct.pack("I", 2)
_STAMP = "tests.crash.layers.e_power_cut:stamp_calls"


class Cut(Struct):
    """When the device stopped taking anything, by the clock that all processes share."""

    begun: float = 0.0
    done: float = 0.0


class Disk:
    """A file system in an image, mounted."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.path = folder / f"the {kind} disk"
        self._image = mounts.make_image(folder / f"{kind}.image", _IMAGE_BYTES[kind], kind)
        self._mount()

    def _mount(self) -> None:
        mounts.mount(self.kind, self.path, "loop", source=self._image)

    def cut_power(self, cut: Cut, afterlife_seconds: float) -> None:
        """Let nothing more reach the device; whoever is writing goes on for a while."""
        root = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            cut.begun = time.monotonic()
            fcntl.ioctl(root, _SHUT_DOWN, _WITHOUT_FLUSHING_THE_LOG)
            cut.done = time.monotonic()
        finally:
            os.close(root)
        time.sleep(afterlife_seconds)

    def restart(self) -> None:
        """Forget all that was in memory only, and mount what the device has."""
        mounts.unmount(self.path)
        self._mount()

    def close(self) -> None:
        """Unmount."""
        mounts.unmount(self.path)


class PowerCutLayer(Layer):
    """Cuts the power of real file systems."""

    letter = "E"
    title = "real power cuts of ext4 and xfs"
    least: ClassVar[dict[str, int]] = {"ci": 90}
    workers = 4  # they wait for mounts half of the time

    def why_not(self) -> str | None:
        """Say whether both file systems can be mounted here."""
        return mounts.why_not(*_KINDS)

    def cases(self) -> Sequence[str]:
        """Return the same number of cuts for each kind of file system and variant."""
        variants = list(VARIANTS)
        return [
            f"{kind} {variants[number % len(variants)]} {number}"
            for number in range(_CUTS[self.plan.level])
            for kind in _KINDS
        ]

    def start(self) -> None:
        """Prepare to mount; what is mounted goes away with this process, however it ends."""
        mounts.separate()
        self._stage = Stage(self.plan)
        self._disks: dict[str, Disk] = {}
        self._lengths: dict[str, float] = {}

    def stop(self) -> None:
        """Unmount all."""
        self._stage.close()
        for disk in self._disks.values():
            disk.close()

    def run(self, case: str) -> Tally:
        """Cut the power once."""
        kind, variant, number = case.split()
        rng = random.Random(f"{self.plan.seed} {case}")
        try:
            return self._cut_power(self._disk(kind), variant, number, rng)
        except BaseException:
            self._disks.pop(kind, None)  # in whatever state it is
            raise

    def _cut_power(self, disk: Disk, variant: str, number: str, rng: random.Random) -> Tally:
        fraction = rng.random()
        if self.plan.level == "mutant":
            fraction = 0.5 + fraction / 2  # later, there is more to lose
        cut = Cut()
        home = disk.path / f"home of {number}"
        play = self._stage.play(
            home,
            options={"variant": variant},
            prepare=[_STAMP],
            kill_after=fraction * self._length(disk, variant),
            strike=lambda: disk.cut_power(cut, rng.random() * _LONGEST_AFTERLIFE_SECONDS),
        )
        disk.restart()
        tally = Oracle(home, said_in_time(play.said, cut), power_cut=True).judge()
        judge_afterlife(play, cut, tally)
        shutil.rmtree(home, ignore_errors=True)  # it may not be there at all
        return tally

    def _disk(self, kind: str) -> Disk:
        if kind not in self._disks:
            folder = Path(tempfile.mkdtemp(prefix=f"{kind} ", dir=self.plan.memory))
            self._disks[kind] = Disk(kind, folder)
        return self._disks[kind]

    def _length(self, disk: Disk, variant: str) -> float:
        name = f"{disk.kind} {variant}"
        if name not in self._lengths:
            self._lengths[name] = length_seconds(self._stage, disk.path / "to its end", variant)
        return self._lengths[name]


def stamp_calls() -> None:
    """In the player: have every announcement of a call, and every promise, carry the time."""
    say = Witness.say

    def say_when(self: Witness, *words: object) -> None:
        if words[0] in ("intends", "promised") and isinstance(words[-1], dict):
            words = (*words[:-1], {**words[-1], "at": time.monotonic()})
        say(self, *words)

    Witness.say = say_when  # type: ignore[method-assign]  # only in this process


def said_in_time(said: list[list[Any]], cut: Cut) -> list[list[Any]]:
    """Return what was said, without promises that were made when the cut had begun.

    For a sync that is under way in that moment the kernel may report success although the device
    takes nothing any more (ext4 does not tell of a failure to note that blocks were written). With
    a real cut nobody would have lived to hear it. The entry may be there or not.
    """
    in_time: list[list[Any]] = []
    forks: set[str | None] = set()  # promised too late, with all that was appended to them
    forgotten: set[tuple[str, int | None]] = set()
    for words in said:
        kind, actor, number = words[0], words[1], words[2] if len(words) > 2 else None
        if kind == "promised" and words[-1]["at"] >= cut.begun:
            forks.add(words[-1].get("session"))
        elif kind == "intends" and words[3] == "fork-append" and words[4]["session"] in forks:
            forgotten.add((actor, number))
        elif kind not in ("promised", "refused") or (actor, number) not in forgotten:
            in_time.append(words)
    return in_time


def judge_afterlife(play: Play, cut: Cut, tally: Tally) -> None:
    """Check that nothing was promised of calls that began when the device was dead."""
    lives = list(ledger.read(play.said).values())
    if play.status not in (0, -signal.SIGKILL):
        tally.break_(f"the process ended by itself, with status {play.status}")
    unharmed = all(life.done for life in lives) and not any(
        call.outcome == "refused" for life in lives for call in life.calls.values()
    )
    tally.count("came to its end before the cut" if unharmed else "cuts in mid-life")
    late_promises = [at for at in _times_of_promises(play.said) if at >= cut.begun]
    tally.count("promises that arrived after the cut", len(late_promises))
    for life in lives:
        late = [call for call in life.calls.values() if call.facts["at"] > cut.done]
        tally.count("calls on the dead file system", len(late))
        early = [call for call in life.calls.values() if call.facts["at"] <= cut.done]
        known = {label for call in early for label in _labels(call)}
        for call in late:
            # What was appended before may be given the same id again, or be waited for.
            again = bool(_labels(call)) and _labels(call) <= known
            if _is_durable_promise(call) and not again:
                tally.break_(f"{call.op} began after the cut and was acknowledged: {call}")


def _times_of_promises(said: list[list[Any]]) -> list[float]:
    return [words[-1]["at"] for words in said if words[0] == "promised"]


def _is_durable_promise(call: ledger.Call) -> bool:
    """Tell whether a call came back with an entry's number, a new session, or one that moved."""
    if call.outcome != "promised" or call.op in ("open", "read"):
        return False
    return call.op in _MOVES or "seq" in call.result or "session" in call.result


def _labels(call: ledger.Call) -> set[str]:
    """Return the labels of entries that a call is about."""
    if call.op == "wait":
        return {call.facts["label"]}
    return set(call.facts["labels"]) if call.op in ("append", "submit") else set()
