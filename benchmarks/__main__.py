"""Run the benchmarks: ``python -m benchmarks [names …] [--json FILE] [--quick] [--keep DIR]``."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import (
    append,
    doctor,
    exchange,
    listing,
    load,
    loop,
    resume,
    search,
    size,
    startup,
    terminal,
)
from benchmarks.harness import Bench, Progress, Result
from benchmarks.report import file_system, machine_facts, table, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BENCHMARKS: dict[str, Callable[[Bench], Iterator[Result]]] = {
    "append": append.one,
    "deep": append.deep,
    "many": append.many,
    "asyncio": append.awaited,
    "bulk": append.bulk,
    "load": load.load,
    "resume": resume.resume,
    "list": listing.listing,
    "search": search.search,
    "doctor": doctor.doctor,
    "exchange": exchange.exchange,
    "import": startup.startup,
    "size": size.size,
    "loop": loop.loop,
    "terminal": terminal.terminal,
}
_RESULTS = Path(__file__).with_name("results.json")
_IN_MEMORY = {"tmpfs", "ramfs"}


def main() -> int:
    """Run what was asked for; 1 if a goal is missed, 130 if it was interrupted."""
    options = _options()
    scratch = _scratch(options.keep)
    progress = Progress()
    bench = Bench(scratch, progress, quick=options.quick)
    facts = machine_facts(scratch, quick=options.quick)
    results: list[Result] = []
    interrupted = False
    try:
        for name in options.names or BENCHMARKS:
            results.extend(BENCHMARKS[name](bench))
    except KeyboardInterrupt:
        interrupted = True
    finally:
        progress.clear()
        if options.keep is None:
            shutil.rmtree(scratch, ignore_errors=True)
    print(table(results))
    print(" · ".join(f"{name} {value}" for name, value in facts.items()))
    if options.json is not None:
        write_json(options.json, results, facts)
    if interrupted:
        print("interrupted: this is what there was", file=sys.stderr)
        return 130
    return int(any(result.met is False for result in results))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"which ones: {', '.join(BENCHMARKS)} (all)"
    )
    parser.add_argument(
        "--json",
        nargs="?",
        type=Path,
        const=_RESULTS,
        metavar="FILE",
        help="write the results there too (benchmarks/results.json)",
    )
    parser.add_argument("--quick", action="store_true", help="smaller histories, fewer rounds")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="work there, and keep what took long to build"
    )
    options = parser.parse_args()
    unknown = set(options.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    return options


def _scratch(keep: Path | None) -> Path:
    """Return a folder on a real disk: syncing memory would measure nothing."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        return keep.resolve()
    places = [Path(tempfile.gettempdir()), Path("/var/tmp"), Path(__file__).parent]  # noqa: S108  a name of its own is made in it
    for place in places:
        if place.is_dir() and file_system(place) not in _IN_MEMORY:
            return Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=place))
    sys.exit("There is no disk to measure, only memory: give a folder with --keep.")


if __name__ == "__main__":
    sys.exit(main())
