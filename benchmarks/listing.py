"""Ten thousand sessions: listed warm, after one changed, and without the index."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

import holdfast
from benchmarks.conversation import messages, own_json
from benchmarks.harness import Bench, Result, at_least, at_most
from holdfast.journal.format import seal
from holdfast.model.entry import FORMAT, NO_PARENT_FIELD, Header
from holdfast.model.ids import folder_of, new_name, new_uid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_NEWEST = 50
_MESSAGES = 6
_MINUTES_APART = 40
_JOURNAL = "journal.jsonl"


def listing(bench: Bench) -> Iterator[Result]:
    """List through the index, which is warm unless the row says otherwise."""
    sessions = bench.amount(10_000, 2_000)
    home = bench.kept(f"list-{sessions}", lambda folder: _build(bench, folder, sessions))
    store = holdfast.open_store(home)
    assert len(store.list()) == sessions
    warm = bench.interleave(
        f"list {sessions:,} sessions",
        bench.amount(25, 9),
        {
            "floor": lambda: _timed(lambda: _scan(home), sessions),
            "newest": lambda: _timed(lambda: len(store.list(limit=_NEWEST)), _NEWEST),
            "all": lambda: _timed(lambda: len(store.list()), sessions),
        },
    )
    yield warm.result(f"list newest 50 of {sessions:,}", "seconds", at_most(1.5), ours="newest")
    yield warm.result(f"list all {sessions:,}", "seconds", at_most(3.0), ours="all")
    yield _command(bench, home, sessions)
    yield _after_a_change(bench, store)
    yield _rebuild(bench, store, sessions)


def _command(bench: Bench, home: Path, sessions: int) -> Result:
    """Time ``holdfast ls``, from the shell's side, against an interpreter that only loads."""
    environment = {**os.environ, "HOLDFAST_HOME": str(home)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(*words: str) -> float:
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, *words], env=environment, capture_output=True, check=True, cwd=home
        )
        return time.perf_counter() - began

    samples = bench.interleave(
        "holdfast ls",
        bench.amount(31, 11),
        {
            "floor": lambda: run("-c", "import click, msgspec, sqlite3"),
            "ours": lambda: run("-m", "holdfast", "ls"),
        },
    )
    return samples.result(f"holdfast ls with {sessions:,} sessions", "seconds", at_most(2.0))


def _timed(work: Callable[[], int], expected: int) -> float:
    began = time.perf_counter()
    done = work()
    taken = time.perf_counter() - began
    assert done == expected
    return taken


def _scan(home: Path) -> int:
    """The least that shows whether anything changed: every folder, every journal's status."""
    found = 0
    with os.scandir(home / "sessions") as groups:
        for group in groups:
            with os.scandir(group.path) as folders:
                for folder in folders:
                    os.stat(f"{folder.path}/{_JOURNAL}")
                    found += 1
    return found


def _after_a_change(bench: Bench, store: holdfast.LocalStore) -> Result:
    chance = random.Random(2026)
    ids = [summary.id for summary in store.list()]
    moments = count()

    def list_newest() -> float:
        return _timed(lambda: len(store.list(limit=_NEWEST)), _NEWEST)

    def list_changed() -> float:
        with store.open(chance.choice(ids)) as session:
            session.append(messages()[0])
        _age(session.path / _JOURNAL, next(moments))
        return list_newest()

    samples = bench.interleave(
        "list after a change", bench.amount(41, 15), {"floor": list_newest, "ours": list_changed}
    )
    return samples.result(
        "list newest 50 after one changed, against none", "seconds", at_most(1.05)
    )


def _rebuild(bench: Bench, store: holdfast.LocalStore, sessions: int) -> Result:
    journals = [summary.path for summary in _paths(store)]

    def bare() -> int:
        for path in journals:
            with open(path, "rb") as file:
                for line in file.read().splitlines():
                    json.loads(line)
        return len(journals)

    def rebuild() -> int:
        for suffix in ("", "-wal", "-shm", "-journal"):
            (store.path / f"index.db{suffix}").unlink(missing_ok=True)
        calls: list[tuple[int, int]] = []
        store.list(limit=_NEWEST, progress=lambda done, total: calls.append((done, total)))
        assert calls[-1] == (sessions, sessions)
        return sessions

    samples = bench.interleave(
        "list without the index",
        bench.amount(7, 3),
        {"floor": lambda: _timed(bare, sessions), "ours": lambda: _timed(rebuild, sessions)},
    )
    return samples.result(
        f"rebuild the index of {sessions:,}", "seconds", at_least(0.3), inverse=True
    )


def _paths(store: holdfast.LocalStore) -> Iterator[os.DirEntry[str]]:
    for group in os.scandir(store.path / "sessions"):
        for folder in os.scandir(group.path):
            yield from (entry for entry in os.scandir(folder.path) if entry.name == _JOURNAL)


def _build(bench: Bench, home: Path, sessions: int) -> None:
    """Write sessions as folders: header, meta, six messages, two usages."""
    encoded = [own_json(message) for message in messages()]
    model = "some-model-4"
    meta = own_json(holdfast.Meta({"workspace": "/home/me/app", "provider": "x", "model": model}))
    usage = own_json(holdfast.Usage(812, 40, 0.0031, model=model))
    began = datetime.now(UTC) - timedelta(minutes=_MINUTES_APART * (sessions + 1))
    for number in bench.steps(f"building {sessions:,} sessions", sessions):
        moment = began + timedelta(minutes=_MINUTES_APART * number)
        session_id = f"{moment:%Y%m%d-%H%M%S}-{new_name()}"
        folder = home / "sessions" / folder_of(session_id) / session_id
        folder.mkdir(parents=True, mode=0o700)
        header = own_json(Header(FORMAT, session_id, new_uid()))
        bodies = [("header", header), ("meta", meta)]
        for turn in range(_MESSAGES // 2):
            bodies += [("message", encoded[(2 * turn + side + number) % 64]) for side in (0, 1)]
            bodies += [("usage", usage)] if turn else []
        (folder / _JOURNAL).write_bytes(_lines(bodies, f"{moment:%Y-%m-%dT%H:%M:%S}.001Z"))
        (folder / "lock").write_bytes(b" " * 511 + b"\n")
        os.utime(folder / _JOURNAL, (moment.timestamp(), moment.timestamp()))


def _lines(bodies: list[tuple[str, bytes]], at: str) -> bytes:
    lines: list[bytes] = []
    chain, head = b"", None
    for seq, (type_name, data) in enumerate(bodies):
        parent = head if type_name == "message" else NO_PARENT_FIELD
        line = seal(seq, at, type_name, data, chain, parent=parent)
        head = seq if type_name == "message" else head
        chain = line[-10:-2]
        lines.append(line + b"\n")
    return b"".join(lines)


def _age(journal: Path, number: int) -> None:
    """Give a journal a time in the past, so that its row in the index is final at once."""
    moment = time.time_ns() - 60_000_000_000 + number
    os.utime(journal, ns=(moment, moment))
