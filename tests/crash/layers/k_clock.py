"""The clock jumps, by hours or years, forwards or backwards, in the middle of the scenario.

``one +10y fork``: the clock jumps just before the session is forked. ``eight -2h stream open``: it
jumps as a stream begins, and is set right again before the session is reopened. ``one -10y
killed``: the process is killed while it streams, and the clock jumps before the session is opened.

What is there is judged by the jumped clock, and the house is kept by it: listed, written to,
cleaned up. Then the clock is set right, and the house is kept once more.

Only what programs are told is jumped (``native/clock.c``; libfaketime would do, but for sleeping,
which it breaks after a jump). The kernel stamps files with the true time, so that their times are
in the program's past or future. Where a kernel's jumped clock would matter (the index compares
times of files), files are given such times by hand.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import msgspec

import holdfast
from tests.crash.lab import ledger, native
from tests.crash.lab.layer import Layer
from tests.crash.lab.oracle import Oracle
from tests.crash.lab.scenario import PIECES, Actor
from tests.crash.lab.stage import Play, Stage
from tests.crash.lab.tally import Tally
from tests.crash.lab.witness import Witness

JUMPS = {
    "+2h": 2 * 3600,
    "-2h": -2 * 3600,
    "+10y": 10 * 365 * 86400,
    "-10y": -10 * 365 * 86400,
}
_POINTS = {  # names of points: the first actor's so-manieth call of that kind
    "create": ("append", 1),
    "stream": ("stream", 1),
    "piece": ("piece", 2),  # it waits for its turn, which must not be for hours
    "mid-stream": ("piece", 3),
    "finish": ("finish", 1),
    "output": ("piece", 5),
    "wait": ("wait", 1),
    "checkpoint": ("checkpoint", 1),
    "blob": ("append", 4),
    "fork": ("fork", 1),
    "list": ("list", 1),
    "compact": ("compact", 1),
    "open": ("open", 1),
    "again": ("append", 9),
    "compress": ("compress", 1),
    "delete": ("delete", 1),
    "restore": ("restore", 1),
    "stage": ("stage", 1),
    "batch": ("batch", 1),
    "look": ("look", 2),
    "tear": ("tear", 1),
    "effect": ("effect", 1),
}
_POINTS_OF_ONE = tuple(_POINTS)[: tuple(_POINTS).index("again") + 1]
_STREAMING = ("one", "eight")
_POINTS_OF_OTHERS = (
    *(("moved", point) for point in ("compress", "delete", "restore", "stage", "batch")),
    *(("followed", point) for point in ("look", "tear")),
    ("acted", "effect"),
)
_POINTS_OF_EIGHT = ("mid-stream", "fork", "open")
_THERE_AND_BACK = (("stream", "open"), ("create", "finish"))
_KILLED = "killed"
_HERE = "tests.crash.layers.k_clock"
_SOON_SECONDS = 60.0
_AN_HOUR = timedelta(hours=1)


class ClockLayer(Layer):
    """Makes the clock jump."""

    letter = "K"
    title = "clock jumps"
    least: ClassVar[dict[str, int]] = {"ci": 80}
    workers = 4  # streams wait for the clock most of the time

    def why_not(self) -> str | None:
        """Say whether the clock can be built."""
        if sys.platform != "linux":
            return "the clock that jumps is made for Linux"
        return native.why_not()

    def cases(self) -> Sequence[str]:
        """Return every cell; there are no more of them at night."""
        return [
            *(f"one {jump} {point}" for point in _POINTS_OF_ONE for jump in JUMPS),
            *(f"eight {jump} {point}" for point in _POINTS_OF_EIGHT for jump in JUMPS),
            *(f"one {jump} {there} {back}" for there, back in _THERE_AND_BACK for jump in JUMPS),
            *(f"{variant} {jump} {_KILLED}" for variant in _STREAMING for jump in JUMPS),
            *(f"{variant} {jump} {at}" for variant, at in _POINTS_OF_OTHERS for jump in JUMPS),
        ]

    def start(self) -> None:
        """Start a stage whose clock is told by a file."""
        self._clock = self.plan.memory / "the clock"
        set_clock(self._clock, 0)
        library = native.library("clock")
        self._stage = Stage(
            self.plan, {"LD_PRELOAD": str(library), "HOLDFAST_CRASH_CLOCK": str(self._clock)}
        )

    def stop(self) -> None:
        """End the stage."""
        self._stage.close()

    def run(self, case: str) -> Tally:
        """Let the clock jump in one life."""
        variant, jump, *points = case.split()
        home = self.plan.memory / f"home of {case}"
        set_clock(self._clock, 0)
        try:
            tally = Tally(cases=1)
            play = self._played(home, variant, JUMPS[jump], points, tally)
            set_clock(self._clock, JUMPS[jump])
            tally.add(self._judged("judge", home, JUMPS[jump], play.said))
            tally.cases = 1
            for seconds_off in (JUMPS[jump], 0):
                set_clock(self._clock, seconds_off)
                tally.add(self._judged("keep_house", home, seconds_off))
        finally:
            shutil.rmtree(home, ignore_errors=True)
        return tally

    def _played(
        self, home: Path, variant: str, seconds: int, points: list[str], tally: Tally
    ) -> Play:
        clock = str(self._clock)
        if points == [_KILLED]:
            moves: list[list[Any]] = [["die", *_POINTS["mid-stream"]]]
            expected = -signal.SIGKILL
        else:
            offsets = [seconds, 0]
            moves = [
                ["jump", *_POINTS[point], clock, offset]
                for point, offset in zip(points, offsets, strict=False)
            ]
            expected = 0
        play = self._stage.play(
            home, options={"variant": variant}, prepare=[f"{_HERE}:arrange", moves]
        )
        if play.status != expected:
            tally.break_(f"the process ended with status {play.status}, not {expected}")
        tally.count("kills" if points == [_KILLED] else "jumps in mid-life", len(points))
        return play

    def _judged(
        self, what: str, home: Path, seconds_off: int, said: list[list[Any]] | None = None
    ) -> Tally:
        """Let somebody judge by the clock of the stage."""
        paper, verdict = self.plan.memory / "paper", self.plan.memory / "verdict"
        paper.write_bytes(msgspec.json.encode({"seconds_off": seconds_off, "said": said}))
        verdict.unlink(missing_ok=True)
        play = self._stage.play(
            home,
            play=f"{_HERE}:{what}",
            options={"paper": str(paper), "verdict": str(verdict)},
        )
        if play.status != 0:
            return _failed(f"{what} ended with status {play.status}: {play.said}")
        return msgspec.json.decode(verdict.read_bytes(), type=Tally)


def _failed(what: str) -> Tally:
    tally = Tally()
    tally.break_(what)
    return tally


def set_clock(file: Path, seconds_off: int) -> None:
    """Set the clock of all processes that look at that file."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.pwrite(descriptor, seconds_off.to_bytes(8, sys.byteorder, signed=True), 0)
    finally:
        os.close(descriptor)


# In the player


def arrange(moves: list[list[Any]]) -> None:
    """Have things happen just before calls of the scenario's first actor."""
    call_now = Actor.call
    seen: dict[str, int] = {}

    def call(self: Actor, op: str, do: Any, **facts: Any) -> Any:
        if self.name == "a":
            seen[op] = seen.get(op, 0) + 1
            for what, wanted, number, *more in moves:
                if (op, seen[op]) == (wanted, number):
                    if what == "die":
                        os.kill(os.getpid(), signal.SIGKILL)
                    _jump(Path(more[0]), more[1])
        return call_now(self, op, do, **facts)

    Actor.call = call  # type: ignore[method-assign]  # only in this process


def _jump(file: Path, seconds_off: int) -> None:
    """Let the clock jump, and make sure that it did."""
    steady = time.monotonic()
    set_clock(file, seconds_off)
    _check_clock(seconds_off)
    assert time.monotonic() - steady < _SOON_SECONDS


def _check_clock(seconds_off: int) -> None:
    true = _true_time()
    assert abs(time.time() - true - seconds_off) < _SOON_SECONDS, (time.time(), true)


def _true_time() -> float:
    """Return the kernel's own time, by making it stamp something."""
    descriptor = os.memfd_create("clock")
    try:
        os.write(descriptor, b".")
        return os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)


# Judges, by the stage's clock


def judge(home: Path, witness: Witness, paper: str, verdict: str) -> None:
    """Hold the home against what was said."""
    del witness
    given = msgspec.json.decode(Path(paper).read_bytes())
    _check_clock(given["seconds_off"])
    tally = Oracle(home, given["said"]).judge()
    _judge_numbers(home, tally)
    _judge_writing(given["said"], tally)
    Path(verdict).write_bytes(msgspec.json.encode(tally))


def _judge_writing(said: list[list[Any]], tally: Tally) -> None:
    """Check that streamed text got into the live file while the scenario waited for it."""
    for life in ledger.read(said).values():
        for label, pieces in life.streams.items():
            if label in life.written:
                tally.count("streams written in time")
            elif pieces == PIECES:
                tally.break_(f"the text of {label} was not written for seconds")


def _judge_numbers(home: Path, tally: Tally) -> None:
    for path in sorted(home.glob("sessions/*/*/journal*.jsonl")):
        lines = path.read_bytes().split(b"\n")
        numbers = [msgspec.json.decode(line)["seq"] for line in lines if line]
        if any(later <= earlier for earlier, later in pairwise(numbers)):
            tally.break_(f"numbers do not increase: {numbers}")


def keep_house(home: Path, witness: Witness, paper: str, verdict: str) -> None:
    """List, write to and clean up all sessions but forks, which are left to grow old."""
    del witness
    seconds_off = msgspec.json.decode(Path(paper).read_bytes())["seconds_off"]
    _check_clock(seconds_off)
    tally = Tally()
    store = holdfast.open_store(home)
    there = {path.name for path in home.glob("sessions/[0-9]*/*")}
    listed = {summary.id: summary for summary in store.list()}
    if listed.keys() != there:
        tally.lose(f"{there} are there, {set(listed)} are listed")
    old = {path.name for path in home.glob("sessions/[0-9]*/*") if _is_fork(path)}
    written = there - old
    tally.count("sessions written to by a wrong clock", len(written) if seconds_off else 0)
    for number, session_id in enumerate(sorted(written)):
        # With times of now, of yesterday and of tomorrow; the kernel's own will do for the others.
        ages: tuple[int | None, ...] = (0, 86400, -86400) if number == 0 else (None,)
        for age_seconds in ages:
            _judge_refreshing(store, session_id, age_seconds, tally)
    recent = {summary.id for summary in store.list(since=datetime.now(UTC) - _AN_HOUR)}
    if not written <= recent:
        tally.break_(f"just written and not listed as such: {written - recent}")
    _judge_cleanup(store, written, old, tally)
    Path(verdict).write_bytes(msgspec.json.encode(tally))


def _is_fork(folder: Path) -> bool:
    header, _, _ = (folder / "journal.jsonl").read_bytes().partition(b"\n")
    return "forked_from" in msgspec.json.decode(header)


def _judge_refreshing(
    store: holdfast.Store, session_id: str, age_seconds: int | None, tally: Tally
) -> None:
    """Append, and see it listed, whatever times the journal has then."""
    with store.open(session_id) as session:
        session.append(holdfast.user("written by the jumped clock"))
        count = session.state.messages
    if age_seconds is not None:
        changed = time.time() - age_seconds
        os.utime(session.path / "journal.jsonl", (changed, changed))
    found = next((each for each in store.list() if each.id == session_id), None)
    if found is None:
        tally.lose(f"{session_id} is not listed")
    elif found.messages != count or found.state != "clean":
        tally.break_(f"{session_id} has {count} messages and is listed as {found}")
    tally.count("rows refreshed")


def _judge_cleanup(store: holdfast.Store, written: set[str], old: set[str], tally: Tally) -> None:
    """Clean up what is older than an hour: never what was just written, nothing for good."""
    before = {name: store.open(name, mode="read").messages for name in old}
    moved = store.cleanup(_AN_HOUR)
    left = {summary.id for summary in store.list()}
    if not written <= left:
        tally.lose(f"cleaned up although just written: {written - left}")
    if moved != len(old - left):
        tally.break_(f"cleanup says {moved}, gone are {old - left}")
    for session_id in sorted(old - left):
        tally.count("sessions that had grown old")
        store.restore(session_id)
    for session_id, messages in before.items():
        if store.open(session_id, mode="read").messages != messages:
            tally.lose(f"{session_id} is not what it was before the cleanup")
