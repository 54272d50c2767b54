"""Search through a gigabyte of transcripts, against a scan of the same files.

The floor is ripgrep if it is installed, else grep: both regardless of case, as we are, counting
lines, so that they have to read everything. The files are in the page cache. Most of our time for a
rare word goes into asking every journal whether it has changed, and so depends on their number:
sessions are of two megabytes here. What people said and what tools answered is taken from the
standard library's own sources.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import sysconfig
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import holdfast
from benchmarks.conversation import own_json
from benchmarks.harness import Bench, Result, at_least, at_most
from holdfast.journal.format import seal
from holdfast.model.entry import FORMAT, NO_PARENT_FIELD, Header
from holdfast.model.ids import folder_of, new_name, new_uid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MEGABYTE = 1_000_000
_SESSION_MEGABYTES = 2
_MEMORY_MB = 150
_RARE, _RARE_TIMES, _COMMON = "quetzalcoatlus", 12, "return"
_LENGTHS = (80, 160, 300, 600, 1200, 2500, 6000)
_LIMIT = 20


def search(bench: Bench) -> Iterator[Result]:
    """Search for a rare and a common word; build the index; take up one new message."""
    megabytes = bench.amount(1000, 60)
    name = "1 GB" if megabytes == 1000 else f"{megabytes} MB"
    home = bench.kept(f"search-of-{megabytes}", lambda folder: _build(bench, folder, megabytes))
    yield from _index(home, megabytes, name)
    store = holdfast.open_store(home)
    scan = _scanner()
    for word, what, least in ((_RARE, "rare", 100.0), (_COMMON, "common", 20.0)):
        samples = bench.interleave(
            f"search {name} for a {what} word",
            bench.amount(15, 7),
            {
                "floor": partial(_timed, partial(_scan, scan, word, home)),
                "newest": partial(_timed, partial(store.search, word, limit=_LIMIT)),
                "rank": partial(_timed, partial(store.search, word, limit=_LIMIT, order="rank")),
            },
        )
        goal = None if bench.quick else at_least(least)
        for order in ("newest", "rank"):
            yield samples.result(
                f"search {name}, {what} word, by {order}, against {scan[0]}",
                "seconds",
                goal,
                ours=order,
                inverse=True,
            )
    yield _after_a_change(bench, store, name)


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    found = work()
    taken = time.perf_counter() - began
    assert found
    return taken


def _scanner() -> list[str]:
    if shutil.which("rg"):
        return ["rg", "--no-config", "--count", "--ignore-case", "--fixed-strings"]
    return ["grep", "--recursive", "--count", "--ignore-case", "--fixed-strings"]


def _scan(scanner: list[str], word: str, home: Path) -> bytes:
    done = subprocess.run(
        [*scanner, word, str(home / "sessions")], stdout=subprocess.PIPE, check=True
    )
    return done.stdout


def _index(home: Path, megabytes: int, name: str) -> Iterator[Result]:
    """Build the index in a process of its own, whose memory is measured."""
    for path in home.glob("search.db*"):
        path.unlink()
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks.search_child", str(home), _COMMON],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, peak = map(float, answer.stdout.split())
    size = sum(path.stat().st_size for path in home.glob("search.db*"))
    yield Result(f"index {name}", megabytes / seconds, "MB a second")
    yield Result("  its size, of the files'", size / _MEGABYTE / megabytes, "ratio")
    yield Result(
        "  peak memory, index and search",
        peak / _MEGABYTE,
        "MB",
        goal=at_most(_MEMORY_MB, "MB"),
    )


def _after_a_change(bench: Bench, store: holdfast.LocalStore, name: str) -> Result:
    """A message more in one session, against none."""
    ids = sorted(store.ids())

    def look() -> float:
        return _timed(partial(store.search, _RARE, limit=_LIMIT))

    def changed() -> float:
        with store.open(ids[len(ids) // 2]) as session:
            session.append(holdfast.user("one more"))
        return look()

    samples = bench.interleave(
        "search after a change", bench.amount(15, 7), {"floor": look, "ours": changed}
    )
    return samples.result(f"search {name} after one changed, against none", "seconds", None)


def _build(bench: Bench, home: Path, megabytes: int) -> None:
    """Write sessions of about two megabytes."""
    chance = random.Random(2026)
    text = _sources()
    sessions = megabytes // _SESSION_MEGABYTES
    rare = set(chance.sample(range(sessions), min(_RARE_TIMES, sessions)))
    began = datetime.now(UTC) - timedelta(hours=sessions + 1)
    for number in bench.steps(f"building {sessions} sessions", sessions):
        moment = began + timedelta(hours=number)
        session_id = f"{moment:%Y%m%d-%H%M%S}-{new_name()}"
        folder = home / "sessions" / folder_of(session_id) / session_id
        folder.mkdir(parents=True, mode=0o700)
        journal = folder / "journal.jsonl"
        at = f"{moment:%Y-%m-%dT%H:%M:%S}.001Z"
        journal.write_bytes(_journal(session_id, at, chance, text, rare=number in rare))
        (folder / "lock").write_bytes(b" " * 511 + b"\n")
        os.utime(journal, (moment.timestamp(), moment.timestamp()))


def _journal(session_id: str, at: str, chance: random.Random, text: str, *, rare: bool) -> bytes:
    lines: list[bytes] = []
    size, chain, parent = 0, b"", None
    bodies = [
        ("header", own_json(Header(FORMAT, session_id, new_uid()))),
        ("meta", own_json(holdfast.Meta({"workspace": "/home/me/app", "model": "some-model-4"}))),
    ]
    while size < _SESSION_MEGABYTES * _MEGABYTE:
        if not bodies:
            bodies = [("message", own_json(each)) for each in _turn(chance, text, rare=rare)]
            rare = False
        type_name, data = bodies.pop(0)
        above = parent if type_name == "message" else NO_PARENT_FIELD
        line = seal(len(lines), at, type_name, data, chain, parent=above)
        parent = len(lines) if type_name == "message" else parent
        chain = line[-10:-2]
        lines.append(line + b"\n")
        size += len(line)
    return b"".join(lines)


def _turn(chance: random.Random, text: str, *, rare: bool) -> list[holdfast.Message]:
    """A question, a call, what it gave, and an answer."""

    def some() -> str:
        start = chance.randrange(len(text))
        return text[start : start + chance.choice(_LENGTHS)]

    call = holdfast.ToolCall(id=new_name(), name="read", arguments={"path": some()[:60]})
    return [
        holdfast.user(f"{_RARE} {some()}" if rare else some()),
        holdfast.assistant([holdfast.Thinking(text=some()), call]),
        holdfast.tool_result(call.id, some() + some()),
        holdfast.assistant(some()),
    ]


def _sources() -> str:
    folder = Path(sysconfig.get_paths()["stdlib"])
    files = sorted(path for path in folder.rglob("*.py") if "site-packages" not in path.parts)
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)
