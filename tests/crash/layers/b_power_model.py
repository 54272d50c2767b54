"""Layer B: every legal state of the disk after a power cut, by a strict model.

A run of the scenario is recorded once (``lab/recorder.py``). From the recording the states that a
power cut may leave are worked out (``lab/posix.py``), written into a folder in memory one after the
other, and judged by what had been promised at the last moment at which each was possible.

A case is a slice of the states of one recording: ``one 0 3/84``. Each run records anew, and two
recordings are never quite the same; therefore, when a state fails, its recording is kept under
``.crash/recordings/`` and the failure names it together with that one state, in words that
``posix.Epoch.chosen`` understands: ``.crash/recordings/5f0c….log 274 written none 32+ 171+``. That
is a case as well, and shows what was there and what was not.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import traceback
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar
from zlib import crc32

from msgspec import Struct

from tests.crash import mutants
from tests.crash.lab import native, recorder
from tests.crash.lab.layer import Layer, Plan
from tests.crash.lab.ledger import Fork, Life
from tests.crash.lab.oracle import Oracle
from tests.crash.lab.posix import Epoch, Found, Op, State, epochs, look_at
from tests.crash.lab.results import ROOT
from tests.crash.lab.tally import Failure, Tally
from tests.disk import FakeQuickFiles

_KEPT = ROOT / ".crash" / "recordings"
_NOTE_BYTES = 96
_WRITTEN_EVERY = 8


class Size(Struct, frozen=True):
    """How much is tried of a variant: recordings, states of each, states in a case."""

    recordings: int
    states: int
    in_case: int


# Rather too many states than too few: some turn out to hold nothing that was not judged before.
_SIZES = {
    "ci": {
        "one": Size(1, 16_000, 250),
        "eight": Size(1, 700, 25),
        "moved": Size(1, 4_000, 100),
        "followed": Size(1, 2_500, 100),
        "acted": Size(1, 1_000, 100),
        "wrapped": Size(1, 250, 50),
    },
    "nightly": {
        "one": Size(9, 100_000, 500),
        "eight": Size(4, 30_000, 250),
        "moved": Size(4, 30_000, 250),
        "followed": Size(4, 20_000, 250),
        "acted": Size(2, 10_000, 250),
        "wrapped": Size(1, 1_000, 50),
    },
}
_OF_A_MUTANT = Size(1, 1_200, 60)


def _is_cache(name: str) -> bool:
    return name.startswith("index.db")


class Recording:
    """A recorded run, and the states that it may have left."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.ops = recorder.read(log)
        self.judged: set[tuple[object, ...]] = set()
        self._said = list(recorder.promises(self.ops))
        self._said_at = [op.number for op in self.ops if op.kind == "said"]

    @cached_property
    def epochs(self) -> dict[int, Epoch]:
        return {epoch.number: epoch for epoch in epochs(self.ops)}

    def look_at(self, number: int, seed: object) -> list[Found]:
        """Return so many states; the cache of the index is in a part of them."""
        return look_at(self.ops, number, seed, _is_cache)

    def said_before(self, number: int) -> list[list[Any]]:
        """Return what had been said when the log had so many lines."""
        return self._said[: bisect_left(self._said_at, number)]

    def write(self, state: State, folder: Path, large: Path | None = None) -> Path:
        """Write a state into a new folder; return the home in it, which may not be there."""
        folder.mkdir(parents=True)
        there = state.write_to(folder, large)
        for path in there.values():
            if path.endswith("/lock"):
                self._renumber(path, there)
        return folder / recorder.HOME

    def _renumber(self, lock: str, there: dict[int, str]) -> None:
        """Let a lock name the inode that its journal has here, as it named the recorded one."""
        with open(lock, "r+b") as file:
            try:
                note = json.loads(file.read(_NOTE_BYTES))
                whole = note["sum"] == _sum_of(note["inode"], note["size"])
            except (ValueError, TypeError, KeyError):
                return  # torn
            paths = [there[file] for file in self._files.get(note["inode"], ()) if file in there]
            if whole and paths:
                inode, size = os.stat(paths[0]).st_ino, note["size"]
                text = f'{{"inode":{inode},"size":{size},"sum":"{_sum_of(inode, size)}"}}'
                file.seek(0)
                file.write(text.encode().ljust(_NOTE_BYTES - 1) + b"\n")

    @cached_property
    def _files(self) -> dict[int, list[int]]:
        """Files by the inode that they had; one may have been that of several."""
        found: dict[int, list[int]] = {}
        for op in self.ops:
            if op.kind == "create":
                found.setdefault(op.inode, []).append(op.file)
        return found

    def keep(self) -> Path:
        """Keep the recording beyond this run; return where, from the project's folder."""
        digest = hashlib.sha256(self.log.read_bytes()).hexdigest()[:16]
        kept = _KEPT / f"{digest}.log"
        if not kept.exists():
            _KEPT.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.log, kept)
        return kept.relative_to(ROOT)


def _sum_of(inode: int, size: int) -> str:
    return f"{crc32(f'{inode}:{size}'.encode()):08x}"


def _record(plan: Plan, variant: str, number: int) -> Recording:
    """Return a recording of this run, which workers share; made by the first who needs it."""
    folder = plan.scratch.parent / "recordings"
    folder.mkdir(exist_ok=True)
    log = folder / f"{variant}-{number}-{plan.mutant or 'sound'}.log"
    with (folder / f"{log.name}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not log.exists():
            unfinished = log.with_suffix(".unfinished")
            recorder.record(plan, variant, unfinished)
            unfinished.rename(log)
    return Recording(log)


class PowerModel(Layer):
    """Judges states of recordings."""

    letter = "B"
    title = "every legal disk state after a power cut (model)"
    least: ClassVar[dict[str, int]] = {"ci": 20_000}
    longest_case_seconds = 600.0

    def why_not(self) -> str | None:
        return native.why_not()

    def cases(self) -> Sequence[str]:
        found = []
        for variant, size in self._sizes().items():
            slices = -(-size.states // size.in_case)
            found += [
                f"{variant} {number} {part}/{slices}"
                for number in range(size.recordings)
                for part in range(1, slices + 1)
            ]
        return found

    def _sizes(self) -> dict[str, Size]:
        if self.plan.level == "mutant":
            return {mutants.variant_of(self.plan.mutant): _OF_A_MUTANT}
        return _SIZES[self.plan.level]

    def start(self) -> None:
        self._large = self.plan.memory / "large files"
        self._large.mkdir()
        self._current = "", 0
        self._recording: Recording | None = None
        self._states: list[Found] = []

    def run(self, case: str) -> Tally:
        first, *words = case.split(" ")
        if "/" in first:
            return self._run_again(Recording(ROOT / first), words)
        number, part = int(words[0]), int(words[1].partition("/")[0])
        recording, size = self._load(first, number), self._sizes()[first]
        tally = Tally()
        start = (part - 1) * size.in_case
        for index, found in enumerate(self._states[start : start + size.in_case], start):
            writes = index % _WRITTEN_EVERY == 0
            tally.add(self._judge(recording, found, writes=writes))
        return tally

    def _load(self, variant: str, number: int) -> Recording:
        if self._recording is None or self._current != (variant, number):
            size = self._sizes()[variant]
            self._recording = _record(self.plan, variant, number)
            self._current = variant, number
            seed = f"{self.plan.seed} {variant} {number}"
            self._states = self._recording.look_at(size.states, seed)
        return self._recording

    def _judge(self, recording: Recording, found: Found, *, writes: bool) -> Tally:
        state = found.state()
        folder = self.plan.memory / "a state"
        home = recording.write(state, folder, self._large)
        said = recording.said_before(found.epoch.number)
        oracle = RememberingOracle(
            home, said, state, recording.judged, writes=writes, lists=found.whole
        )
        try:
            tally = oracle.judge()
        except Exception as error:  # noqa: BLE001  the state that does this has to be named
            tally = oracle.tally
            tally.break_(f"{traceback.format_exc()}{type(error).__name__}: {error}")
        finally:
            shutil.rmtree(folder)
        if tally.cases:
            tally.count(found.kind)
        if tally.failed:
            name = f"{recording.keep()} {_name(found, writes=writes)}"
            tally.failures = [Failure(name, failure.what) for failure in tally.failures]
        return tally

    def _run_again(self, recording: Recording, words: list[str]) -> Tally:
        epoch = recording.epochs[int(words[0])]
        told = " ".join(word for word in words[1:] if word not in ("listed", "written"))
        found = Found(epoch, told, "again", "listed" in words)
        tally = self._judge(recording, found, writes="written" in words)
        if tally.failures:
            first, *others = tally.failures
            explained = "\n".join([*_explained(recording.ops, found), first.what])
            tally.failures = [Failure(first.case, explained), *others]
        return tally


def _name(found: Found, *, writes: bool) -> str:
    words = [str(found.epoch.number)]
    words += ["listed"] * found.whole + ["written"] * writes
    return " ".join([*words, found.told])


def _explained(ops: list[Op], found: Found) -> Iterator[str]:
    """Yield what a state is made of, for people."""
    epoch = found.epoch
    names = _last_names(ops)
    if epoch.last:
        yield "the power failed at the end:"
    else:
        yield f"the power failed before the sync of {names[ops[epoch.number].file]} returned:"
    choice = epoch.chosen(found.told)
    for number, op in epoch.pending.items():
        how = choice.get(number, "not there")
        what = f"{op.kind} {op.name or names[op.file]} {op.second_name}".rstrip()
        where = f" at {op.offset}, {len(op.data)} bytes" if op.kind == "write" else ""
        due = " (being synced)" if number in epoch.target and not epoch.last else ""
        yield f"  {number} {what}{where}: {'there' if how == '+' else how}{due}"


def _last_names(ops: list[Op]) -> dict[int, str]:
    """Return the name of each file and folder: the last that it was given."""
    there: dict[tuple[int, str], int] = {}
    names = {1: "the root"}
    for op in ops:
        if op.kind in ("create", "make_folder", "link", "rename"):
            place = op.places[-1]
            there[place] = op.file or there[op.folder, op.name]
            names[there[place]] = place[1]
    return names


class RememberingOracle(Oracle):
    """Does not open a session that was found in just this state, with these promises, before.

    What becomes of a session depends on its own folder alone. A state that has nothing new in it
    is not counted as a case.
    """

    def __init__(
        self,
        home: Path,
        said: list[list[Any]],
        state: State,
        judged: set[tuple[object, ...]],
        *,
        writes: bool,
        lists: bool,
    ) -> None:
        super().__init__(
            home, said, power_cut=True, writes=writes, lists=lists, files=FakeQuickFiles()
        )
        self._state = state
        self._judged = judged
        self._looked = lists
        self._actors: dict[str, str] = {}  # by session
        self._words = dict.fromkeys(self._lives, 0)
        for _, actor, *words in said:
            self._words[actor] += 1
            facts = words[-1] if words else None
            if isinstance(facts, dict):
                named = [facts["session"]] if "session" in facts else facts.get("sessions", ())
                self._actors |= dict.fromkeys(named, actor)

    def judge(self) -> Tally:
        tally = super().judge()
        if not self._looked:
            tally.cases = tally.acknowledged = 0
            tally.count("states with nothing new in them, not counted")
        return tally

    def _judge_session(self, life: Life, session_id: str) -> None:
        if self._is_new(session_id):
            super()._judge_session(life, session_id)

    def _judge_fork(self, session_id: str, fork: Fork) -> None:
        if self._is_new(session_id, certain=fork.certain):
            super()._judge_fork(session_id, fork)

    def _is_new(self, session_id: str, *, certain: bool = True) -> bool:
        content = self._state.key(within=session_id)  # wherever the store puts it
        key = session_id, self._words[self._actors[session_id]], content, certain, self._writes
        new = key not in self._judged
        self._judged.add(key)
        self._looked = self._looked or new
        self.tally.count("sessions judged", int(new))
        return new


class SampledState:
    """A state that a power cut may leave, and what had been said by then."""

    def __init__(self, recording: Recording, found: Found) -> None:
        self._recording = recording
        self._found = found
        self.kind = found.kind

    @property
    def said(self) -> list[list[Any]]:
        """All that the witness had heard."""
        return self._recording.said_before(self._found.epoch.number)

    def write_to(self, folder: Path) -> Path:
        """Write the state into a folder that is not there yet; return the home in it.

        The home may itself be missing: its name can be lost, too.
        """
        return self._recording.write(self._found.state(), folder)

    def keep(self) -> str:
        """Keep the recording under ``.crash``; return a name that ``state_named`` understands.

        It is a case of layer B as well.
        """
        return f"{self._recording.keep()} {_name(self._found, writes=True)}"


def sampled_states(plan: Plan, number: int, *, variant: str = "one") -> Iterator[SampledState]:
    """Yield ``number`` states of one recorded run, the telling ones of all moments first.

    For layers that go on from such states. The recording is shared by all workers of a run (it is
    next to their ``plan.scratch``) and made by the first who needs it; which states are taken
    depends on it and on ``plan.seed``, so workers agree on the number of each. Judge each with
    ``Oracle(home, state.said, power_cut=True)``. Call it in a worker.
    """
    recording = _record(plan, variant, 0)
    for found in recording.look_at(number, plan.seed):
        yield SampledState(recording, found)


def state_named(name: str) -> SampledState:
    """Return the state that ``SampledState.keep`` named."""
    path, number, *words = name.split(" ")
    recording = Recording(ROOT / path)
    told = " ".join(word for word in words if word not in ("listed", "written"))
    epoch = recording.epochs[int(number)]
    return SampledState(recording, Found(epoch, told, "again", "listed" in words))
