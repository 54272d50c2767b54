"""The table, the JSON file, and facts about the machine they were measured on."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

import holdfast
from benchmarks.harness import Result, show

_HEADINGS = ("what", "ours", "floor", "ratio", "quartiles", "goal", "")


def table(results: list[Result]) -> str:
    """Return the results as a table."""
    rows = [_HEADINGS, *(_row(result) for result in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(lines)


def _row(result: Result) -> tuple[str, ...]:
    spread = result.spread
    verdict = {True: "ok", False: "MISSED", None: ""}[result.met]
    return (
        result.name,
        show(result.ours, result.unit),
        "" if result.floor is None else show(result.floor, result.unit),
        "" if result.ratio is None else f"{result.ratio:.3f}",
        "" if spread is None else f"{spread[0]:.2f}–{spread[1]:.2f}",
        "" if result.goal is None else str(result.goal),
        verdict,
    )


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    cells = [row[0].ljust(widths[0])]
    cells += [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
    return "  ".join([*cells, row[-1]]).rstrip()


def write_json(path: Path, results: list[Result], facts: dict[str, Any]) -> None:
    """Write results and facts as one JSON object."""
    rows = [
        {
            "name": result.name,
            "unit": result.unit,
            "ours": result.ours,
            "floor": result.floor,
            "ratio": result.ratio,
            "quartiles": result.spread,
            "goal": None if result.goal is None else str(result.goal),
            "met": result.met,
        }
        for result in results
    ]
    text = json.dumps({"machine": facts, "results": rows}, indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def machine_facts(scratch: Path, *, quick: bool) -> dict[str, Any]:
    """Return what one has to know to compare figures."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "cpus": os.cpu_count(),
        "architecture": platform.machine(),
        "kernel": f"{platform.system()} {platform.release()}",
        "file_system": file_system(scratch),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "msgspec": msgspec.__version__,
        "sqlite": sqlite3.sqlite_version,
        "holdfast": holdfast.__version__,
    }


def file_system(path: Path) -> str:
    """Return the type of the file system that holds ``path``, as far as the system tells."""
    device = path.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    except OSError:
        return "unknown"
    for line in mounts.splitlines():
        mount, _, kind = line.partition(" - ")
        if mount.split()[2] == wanted:
            return kind.split()[0]
    return "unknown"
