"""What a run came to: a row for each layer, a line for each mutant, and how to go on with it.

The nightly level takes hours, so each finished case is noted in a file. A run that is started again
on the same program goes on after them; on a changed program it begins anew, for what was true of
other code says nothing about this.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
from msgspec import Struct, field

from tests.crash.lab.tally import Failure, Tally

ROOT = Path(__file__).resolve().parents[3]
_NOTES = ROOT / ".crash"
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
    """One mutant: which layer caught it, by which case; no layer if it survived."""

    what: str
    layer: str | None = None
    case: str = ""
    how: str = ""
    cases: int = 0
    tried: list[str] = field(default_factory=list)


class Note(Struct):
    """A line of the file of finished cases."""

    letter: str
    case: str
    tally: Tally


class Results:
    """The rows and mutants of one run."""

    def __init__(self, level: str, seed: int, notes: Path | None) -> None:
        self.level = level
        self.seed = seed
        self.rows: dict[str, Row] = {}
        self.mutants: dict[str, Caught] = {}
        self._notes = notes

    @classmethod
    def begin(cls, level: str, seed: int, *, again: bool) -> Results:
        """Begin a run, or go on with one of the nightly level that was interrupted."""
        if level != "nightly":
            return cls(level, seed, None)
        _NOTES.mkdir(exist_ok=True)
        digest = _digest_of_program()
        earlier = sorted(_NOTES.glob(f"{digest}-*.jsonl"), key=lambda path: path.stat().st_mtime)
        if not earlier or again:
            return cls(level, seed, _NOTES / f"{digest}-{seed}.jsonl")
        notes = earlier[-1]
        results = cls(level, int(notes.stem.rpartition("-")[2]), notes)
        results._read(notes)
        return results

    def _read(self, notes: Path) -> None:
        for line in notes.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                note = msgspec.json.decode(line, type=Note)
                row = self.row(note.letter, "")
                row.done.add(note.case)
                row.tally.add(note.tally)

    def row(self, letter: str, title: str) -> Row:
        """Return a layer's row."""
        row = self.rows.setdefault(letter, Row(letter, title))
        row.title = title or row.title
        return row

    def add(self, row: Row, case: str, tally: Tally) -> None:
        """Take in what a case came to."""
        row.done.add(case)
        row.tally.add(tally)
        if self._notes is not None:
            with self._notes.open("ab") as notes:
                notes.write(msgspec.json.encode(Note(row.letter, case, tally)) + b"\n")

    @property
    def survivors(self) -> list[str]:
        """Mutants that no layer caught."""
        return [name for name, caught in self.mutants.items() if caught.layer is None]

    @property
    def not_run(self) -> list[str]:
        """What could not run on this machine: whole layers, and parts of some."""
        layers = [f"{row.letter}: {row.not_run}" for row in self.rows.values() if row.not_run]
        parts = [
            f"{row.letter}: {fact.removeprefix(NOT_RUN)}"
            for row in self.rows.values()
            for fact in row.tally.facts
            if fact.startswith(NOT_RUN)
        ]
        return [*layers, *parts]

    @property
    def failed(self) -> bool:
        """Whether any promise was broken or any mutant survived."""
        return bool(self.survivors) or any(row.tally.failed for row in self.rows.values())

    @property
    def failures(self) -> list[tuple[Row, Failure]]:
        """Every failure with its layer."""
        return [(row, failure) for row in self.rows.values() for failure in row.tally.failures]


def _digest_of_program() -> str:
    digest = hashlib.sha256()
    for folder in (ROOT / "src", ROOT / "tests" / "crash"):
        for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.c")]):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
