"""The import, in fresh processes with bytecode warm."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from benchmarks.harness import Bench, Result, at_most

if TYPE_CHECKING:
    from collections.abc import Iterator

_TIMED = """
import time
began = time.perf_counter()
import {modules}
print(time.perf_counter() - began)
"""
_FOREIGN = """
import sys
import msgspec  # what it loads for itself is its own affair
before = {name.partition(".")[0] for name in sys.modules}
import holdfast
after = {name.partition(".")[0] for name in sys.modules}
print(*after - before - sys.stdlib_module_names - {"holdfast"})
"""


def startup(bench: Bench) -> Iterator[Result]:
    """``import holdfast`` against the three modules that it could not do without."""
    samples = bench.interleave(
        "import holdfast",
        bench.amount(61, 21),
        {
            "floor": lambda: float(_python(_TIMED.format(modules="msgspec, sqlite3, asyncio"))),
            "ours": lambda: float(_python(_TIMED.format(modules="holdfast"))),
        },
    )
    yield samples.result("import holdfast", "seconds", at_most(1.5))
    foreign = _python(_FOREIGN).split()
    name = f"  foreign modules it loads {foreign}" if foreign else "  foreign modules it loads"
    yield Result(name=name, ours=len(foreign), unit="modules", goal=at_most(0, "modules"))


def _python(code: str) -> str:
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    return answer.stdout
