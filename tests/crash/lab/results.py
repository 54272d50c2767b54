"""What a run came to: a row for each layer, a line for each mutant, and how to go on with it.

The nightly level takes hours, so each finished case is noted in a file. A run that is started again
on the same program goes on after them; on a changed program it begins anew, for what was true of
other code says nothing about this.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct, field

from tests.crash.lab.tally import Failure, Tally

ROOT = Path(__file__).resolve().parents[3]
_NOTES = ROOT / ".crash"
_USED = (
    "tests/disk.py",
    "tests/store/random_sessions.py",
    "tests/cli/program.py",
    "tests/cli/vendor.py",
    "tests/runtime/request_validators.py",
    "tests/runtime/providers/wire.py",
    "requirements/dev.txt",
)
NOT_RUN = "not run: "
"""How a fact begins that says what part of a layer could not run."""


class Row(Struct):
    """One layer: what was tried, and what it came to."""

    letter: str
    title: str
    planned: int = 0
    done: set[str] = field(default_factory=set)
    tally: Tally = field(default_factory=Tally)
    seconds: float = 0.0
    not_run: str | None = None


class Caught(Struct):
    """One mutant: which layer caught it, by which case; no layer if it survived.

    ``errors`` counts cases that came to no verdict, ``trouble`` says what the first of them was. If
    no layer that should catch it could run, ``tried`` is empty: it was not hunted.
    """

    what: str
    layer: str | None = None
    case: str = ""
    how: str = ""
    cases: int = 0
    tried: list[str] = field(default_factory=list)
    errors: int = 0
    trouble: str = ""

    @property
    def survived(self) -> bool:
        """Whether it was hunted and not caught."""
        return self.layer is None and bool(self.tried)


class Note(Struct):
    """A line of the file of finished cases."""

    letter: str
    case: str
    tally: Tally
    seconds: float


class Results:
    """The rows and mutants of one run.

    ``digest`` is that of the program, ``mutant`` the defect that it was given, ``least`` says how
    many cases each layer must have.
    """

    def __init__(self, level: str, seed: int, notes: Path | None, digest: str = "") -> None:
        self.level = level
        self.seed = seed
        self.digest = digest
        self.mutant: str | None = None
        self.least: Mapping[str, int] = {}
        self.rows: dict[str, Row] = {}
        self.mutants: dict[str, Caught] = {}
        self._notes = notes

    @classmethod
    def begin(cls, level: str, seed: int, *, again: bool, keep: bool = True) -> Results:
        """Begin a run, or go on with one of the nightly level that was interrupted.

        ``again`` begins a new one nevertheless; without ``keep`` it has nothing to do with notes.
        """
        digest = _digest_of_program()
        if level != "nightly" or not keep:
            return cls(level, seed, None, digest)
        _NOTES.mkdir(exist_ok=True)
        earlier = sorted(_NOTES.glob(f"{digest}-*.jsonl"), key=lambda path: path.stat().st_mtime)
        if not earlier or again:
            return cls(level, seed, _NOTES / f"{digest}-{time.time_ns()}-{seed}.jsonl", digest)
        notes = earlier[-1]
        results = cls(level, int(notes.stem.rpartition("-")[2]), notes, digest)
        results._read(notes)
        return results

    def _read(self, notes: Path) -> None:
        whole = notes.read_bytes()
        whole = whole[: whole.rfind(b"\n") + 1]
        with notes.open("r+b") as file:
            file.truncate(len(whole))  # what follows must not join a torn line
        for line in whole.splitlines():
            note = msgspec.json.decode(line, type=Note)
            self._take_in(self.row(note.letter, ""), note)

    def row(self, letter: str, title: str) -> Row:
        """Return a layer's row."""
        row = self.rows.setdefault(letter, Row(letter, title))
        row.title = title or row.title
        return row

    def add(self, row: Row, case: str, tally: Tally, seconds: float = 0.0) -> None:
        """Take in what a case came to, and how much longer the layer took for it."""
        note = Note(row.letter, case, tally, seconds)
        self._take_in(row, note)
        if self._notes is not None:
            with self._notes.open("ab") as notes:
                notes.write(msgspec.json.encode(note) + b"\n")

    @staticmethod
    def _take_in(row: Row, note: Note) -> None:
        row.done.add(note.case)
        row.tally.add(note.tally)
        row.seconds += note.seconds

    @property
    def kept(self) -> bool:
        """Whether another run can go on with this one."""
        return self._notes is not None

    @property
    def survivors(self) -> list[str]:
        """Mutants that were hunted and that no layer caught."""
        return [name for name, caught in self.mutants.items() if caught.survived]

    @property
    def too_few(self) -> list[str]:
        """A sentence for each layer that had fewer cases than it must have."""
        sentences = []
        for row in self.rows.values():
            least = self.least.get(row.letter, 0)
            excused = sum(n for fact, n in row.tally.facts.items() if fact.startswith(NOT_RUN))
            if row.not_run is None and row.tally.cases + excused < least:
                sentences.append(
                    f"{row.letter} tried {row.tally.cases:,} cases, fewer than {least:,}"
                )
        return sentences

    @property
    def not_run(self) -> list[str]:
        """What could not run on this machine: whole layers, parts of some, hunts of mutants."""
        layers = [f"{row.letter}: {row.not_run}" for row in self.rows.values() if row.not_run]
        parts = [
            f"{row.letter}: {fact.removeprefix(NOT_RUN)}"
            for row in self.rows.values()
            for fact in row.tally.facts
            if fact.startswith(NOT_RUN)
        ]
        hunts = [
            f"mutant {name}: no layer that should catch it could run"
            for name, caught in self.mutants.items()
            if not caught.tried
        ]
        return [*layers, *parts, *hunts]

    @property
    def failed(self) -> bool:
        """Whether any promise was broken, any mutant survived, or too little was tried."""
        failed = any(row.tally.failed for row in self.rows.values())
        return failed or bool(self.survivors or self.too_few)

    @property
    def failures(self) -> list[tuple[Row, Failure]]:
        """Every failure with its layer."""
        return [(row, failure) for row in self.rows.values() for failure in row.tally.failures]


def _digest_of_program() -> str:
    digest = hashlib.sha256(sys.version.encode())
    paths = [ROOT / name for name in _USED]
    for folder in (ROOT / "src", ROOT / "tests" / "crash"):
        paths += sorted([*folder.rglob("*.py"), *folder.rglob("*.c")])
    for path in paths:
        digest.update(f"{path.relative_to(ROOT)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
