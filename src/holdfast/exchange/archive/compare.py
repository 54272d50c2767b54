"""The session of an archive, compared with the one that is here; and whether it arrived sound.

Sums of a manifest tell what happened on the way. What was wrong before, or was altered together
with its sum, only the journal itself tells: its lines are sealed, and it names its blobs.
"""

from __future__ import annotations

from bisect import bisect_left
from hashlib import sha256
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.exchange.importing.source_files import ImportProblem
from holdfast.files import Files
from holdfast.store.doctor.findings import ADVICE
from holdfast.store.local.reader import Journal

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.exchange.archive.manifest import Manifest
    from holdfast.store.local.segment import Segment
    from holdfast.store.types import Problem, Report

_CHUNK_BYTES = 1024 * 1024


def goes_on_from(folder: Path, manifest: Manifest) -> bool:
    """Tell whether the journal of the session in a folder begins with that of an archive.

    Content is compared, not files: the one here may have been compressed meanwhile.
    """
    try:
        with Journal(Files(), folder) as journal:
            here = {segment.name: segment for segment in journal.segments}
            return all(
                member.name in here and _sum(here[member.name], member.size_bytes) == member.sha256
                for member in manifest.files
                if member.name.startswith("journal")
            )
    except (OSError, HoldfastError):
        return False


def _sum(segment: Segment, size_bytes: int) -> str | None:
    """Return the sum of the first bytes, ``None`` if the file does not have as many."""
    if size_bytes > segment.size:
        return None
    digest = sha256()
    for start in range(0, size_bytes, _CHUNK_BYTES):
        digest.update(segment.read(start, min(size_bytes, start + _CHUNK_BYTES)))
    return digest.hexdigest()


def problems_of(report: Report, folder: Path, source: Path) -> tuple[list[ImportProblem], int]:
    """Return what is damaged in a session that has arrived, with lines; and how much in all.

    What opening it puts right, as after any crash, is not among it.
    """
    damaged = [problem for problem in report.problems if ADVICE[problem.kind].damage]
    if not damaged:
        return [], 0
    found = [
        ImportProblem(f"{source}: {name}", line, f"{problem.kind}: {problem.detail}")
        for problem, (name, line) in zip(damaged, _lines(folder, damaged), strict=True)
    ]
    return found, len(found) + report.more


def _lines(folder: Path, problems: list[Problem]) -> list[tuple[str, int | None]]:
    """Return file and line, from 1, of each problem; those in other files have no line."""
    places = [_place(problem) for problem in problems]
    ends: dict[str, list[int]] = {}
    with Journal(Files(), folder) as journal:
        for segment in journal.segments:
            last = max((at for name, at in places if name == segment.name), default=0)
            ends[segment.name] = _line_ends(segment, last)
    return [
        (name, bisect_left(ends[name], at) + 1 if name in ends else None) for name, at in places
    ]


def _place(problem: Problem) -> tuple[str, int]:
    name, _, offset = problem.where.rpartition(":")
    return (name, int(offset)) if offset.isdecimal() else (problem.where, 0)


def _line_ends(segment: Segment, last: int) -> list[int]:
    """Return the places of all newlines before an offset."""
    ends: list[int] = []
    for start in range(0, last, _CHUNK_BYTES):
        data = segment.read(start, min(last, start + _CHUNK_BYTES))
        at = data.find(b"\n")
        while at >= 0:
            ends.append(start + at)
            at = data.find(b"\n", at + 1)
    return ends
