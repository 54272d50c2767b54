"""The report of a run: a table for the terminal, a page for the documentation, and a picture.

The results of a level are in ``docs/durability/<level>.json``; the page is made of what is there,
so that a quick run does not wipe out what a long one has shown. Nothing in it is typed by hand.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from benchmarks.report import machine_facts
from tests.crash.lab.picture import matrix
from tests.crash.lab.results import ROOT, Caught, Results
from tests.crash.lab.tally import Tally

_DOCS = ROOT / "docs"
_DATA = _DOCS / "durability"
_PAGE = _DOCS / "durability-report.md"
_PICTURE = _DOCS / "images" / "durability.svg"
_LEVELS = {"nightly": "The large run", "ci": "The run of every change"}


class Line(Struct):
    """One layer of a finished run."""

    letter: str
    title: str
    tally: Tally
    planned: int
    done: int
    seconds: float
    not_run: str | None


class Finding(Struct):
    """All that is kept of a finished run."""

    level: str
    seed: int
    machine: dict[str, Any]
    layers: list[Line]
    mutants: dict[str, Caught]
    digest: str = ""


def finding(results: Results, place: Path) -> Finding:
    """Return what is kept of a run that was made in ``place``."""
    lines = [
        Line(row.letter, row.title, row.tally, row.planned, len(row.done), row.seconds, row.not_run)
        for row in sorted(results.rows.values(), key=lambda row: row.letter)
    ]
    machine = machine_facts(place, quick=False)
    del machine["quick"]
    return Finding(results.level, results.seed, machine, lines, results.mutants, results.digest)


def write(found: Finding) -> None:
    """Keep a run, and make page and picture anew."""
    _DATA.mkdir(exist_ok=True)
    data = msgspec.json.format(msgspec.json.encode(found), indent=1)
    (_DATA / f"{found.level}.json").write_bytes(data + b"\n")
    kept = [
        msgspec.json.decode((_DATA / f"{level}.json").read_bytes(), type=Finding)
        for level in _LEVELS
        if (_DATA / f"{level}.json").exists()
    ]
    _PAGE.write_text(page(kept, found.digest), encoding="utf-8")
    _PICTURE.write_text(
        matrix(max(kept, key=lambda each: sum(line.tally.cases for line in each.layers))),
        encoding="utf-8",
    )


def page(findings: list[Finding], digest: str) -> str:
    """Return the page about one run or more, for the program that has this digest."""
    parts = [
        "# Durability report",
        (
            "Written by `make crash`; how it is done is in "
            "[durability.md](durability.md#evidence). *Lost* counts acknowledged entries that were "
            "missing or altered after a fault, *twice* entries that were there more than once, "
            "*refused* sessions that did not open, *other* every other rule that was broken, "
            "*errors* cases that the laboratory itself did not bring to a verdict."
        ),
        "![Layers and mutants](images/durability.svg)",
        *(_section(found, earlier=found.digest != digest) for found in findings),
    ]
    return "\n\n".join(parts) + "\n"


def _section(found: Finding, *, earlier: bool) -> str:
    machine = ", ".join(
        f"{name.replace('_', ' ')} {value}" for name, value in found.machine.items()
    )
    command = "make crash" if found.level == "ci" else f"make crash LEVEL={found.level}"
    version = " of an earlier version of the program" if earlier else ""
    hunted = [caught for caught in found.mutants.values() if caught.tried]
    not_hunted = len(found.mutants) - len(hunted)
    return "\n\n".join(
        [
            f"## {_LEVELS[found.level]}",
            f"`{command}`{version}, seed {found.seed}; {machine}.",
            _markdown(_HEADINGS, [_cells(line) for line in found.layers]),
            "\n".join(f"- **{letter}** {what}" for letter, what in _remarks(found.layers)),
            (
                f"### Mutants: {sum(caught.layer is not None for caught in hunted)} of "
                f"{len(found.mutants)} caught" + (f", {not_hunted} not hunted" * bool(not_hunted))
            ),
            _markdown(
                ("mutant", "defect", "caught by", "tried", "by what"),
                [_mutant_cells(name, caught) for name, caught in found.mutants.items()],
            ),
        ]
    )


_HEADINGS = (
    "layer",
    "what",
    "cases",
    "acknowledged",
    "lost",
    "twice",
    "refused",
    "other",
    "errors",
    "seconds",
)


def _cells(line: Line) -> list[str]:
    if line.not_run is not None:
        return [line.letter, line.title, "not run", *["–"] * (len(_HEADINGS) - 3)]
    tally = line.tally
    counts = (
        tally.acknowledged,
        tally.lost,
        tally.duplicates,
        tally.refused,
        tally.broken,
        tally.errors,
        round(line.seconds),
    )
    cases = f"{tally.cases:,}"
    if line.done < line.planned:
        cases += f" ({100 * line.done // line.planned} % of the plan)"
    return [line.letter, line.title, cases, *(f"{count:,}" for count in counts)]


def _remarks(lines: list[Line]) -> Iterator[tuple[str, str]]:
    """Say what is not in the table: what did not run, how far it got, what was exercised."""
    for line in lines:
        if line.not_run is not None:
            yield line.letter, f"was not run: {line.not_run}"
        elif line.done < line.planned:
            yield (
                line.letter,
                f"got through {line.done:,} of its {line.planned:,} planned cases.",
            )
        if line.tally.facts:
            yield line.letter, f"{_facts(line.tally)}."


def _facts(tally: Tally) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in tally.facts.items())


def _mutant_cells(name: str, caught: Caught) -> list[str]:
    how = (caught.how if caught.layer else _trouble(caught)).replace("|", "\\|").replace("`", "'")
    return [
        name.replace("_", " "),
        caught.what,
        caught.layer or ("**nobody**" if caught.survived else "not hunted"),
        f"{caught.cases:,}",
        f"`{caught.case}`: {how}" if caught.layer else how,
    ]


def _trouble(caught: Caught) -> str:
    return f"{caught.errors:,} without a verdict: {caught.trouble}" if caught.errors else ""


def _fate(caught: Caught) -> str:
    if caught.layer:
        return f"caught by {caught.layer}"
    if not caught.survived:
        return "not hunted"
    return f"SURVIVED ({_trouble(caught)})" if caught.errors else "SURVIVED"


def _markdown(headings: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def table(found: Finding) -> str:
    """Return the table for a terminal."""
    rows = [list(_HEADINGS), *(_cells(line) for line in found.layers)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    lines = [
        "  ".join(
            [
                *(row[n].ljust(widths[n]) for n in (0, 1)),
                *(row[n].rjust(widths[n]) for n in range(2, len(row))),
            ]
        )
        for row in rows
    ]
    lines += [
        f"mutant {name.replace('_', ' ')}: {_fate(caught)}"
        for name, caught in found.mutants.items()
    ]
    lines += [f"{letter} {what}" for letter, what in _remarks(found.layers)]
    return "\n".join(lines)


def replayed(letter: str, case: str, tally: Tally) -> Iterator[str]:
    """Yield the lines about a case that was tried again."""
    yield (
        f"{letter} {case}: cases {tally.cases:,}, acknowledged {tally.acknowledged:,}, "
        f"lost {tally.lost:,}, twice {tally.duplicates:,}, refused {tally.refused:,}, "
        f"other {tally.broken:,}, errors {tally.errors:,}"
    )
    if tally.facts:
        yield _facts(tally)
    for failure in tally.failures:
        yield f"{failure.case}: {failure.what}"
    if not tally.cases:
        yield "nothing was tried: the fault did not strike, or there is no such case"


def failures(results: Results) -> Iterator[str]:
    """Yield each failure with the command that shows it again."""
    for row, failure in results.failures:
        mutant = f" --mutant {results.mutant}" if results.mutant else ""
        options = (
            f"--layer {row.letter} --seed {results.seed}{mutant} --case {shlex.quote(failure.case)}"
        )
        yield f"{row.letter} {failure.what}"
        yield f"    make crash LEVEL={results.level} ARGS={shlex.quote(options)}"
    yield from results.too_few
    for name in results.survivors:
        yield f"mutant {name} survived: make crash ARGS='--layer --hunt {name}'"
