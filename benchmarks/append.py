"""Durable appends: one session, deep in a session, many at once (threads, asyncio); and bulk.

Beside the floor stands what the format alone takes: each message encoded, read back and sealed,
then written as the floor is. No store could be faster than that and write the same bytes; what is
between it and ours is the store's own work.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import holdfast
from benchmarks.conversation import last_line, messages, submit_many
from benchmarks.harness import Bench, Result, at_least
from holdfast.journal.format import seal, timestamp
from holdfast.model.codec import encode_body

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

_SESSIONS = 64
_AWAITED = 200
_BARE_THREADS = 16
_POOL = messages()


@contextmanager
def _bare_file(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _bare(descriptor: int, line: bytes, count: int) -> None:
    for _ in range(count):
        os.write(descriptor, line)
        os.fdatasync(descriptor)


def _lines(count: int) -> Iterator[bytes]:
    """Yield lines as the format wants them, and do nothing else."""
    chain = b""
    for number in range(count):
        data, _ = encode_body(_POOL[number % len(_POOL)])
        line = seal(number, timestamp(), "message", data, chain, number)
        chain = line[-10:-2]
        yield line + b"\n"


def _format_alone(descriptor: int, count: int) -> None:
    for line in _lines(count):
        os.write(descriptor, line)
        os.fdatasync(descriptor)


def _durable(session: holdfast.Session, count: int) -> None:
    for number in range(count):
        session.append(_POOL[number % len(_POOL)])


def _rate(count: int, work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def one(bench: Bench) -> Iterator[Result]:
    """One session against one file, both in the same folder."""
    count = 40
    with holdfast.open_store(bench.fresh("append")).create() as session:
        _durable(session, 100)
        line = last_line(session.path / "journal.jsonl")
        with _bare_file(session.path / "floor") as floor:
            samples = bench.interleave(
                "durable append",
                bench.amount(100, 30),
                {
                    "floor": partial(_rate, count, partial(_bare, floor, line, count)),
                    "ours": partial(_rate, count, partial(_durable, session, count)),
                    "format": partial(_rate, count, partial(_format_alone, floor, count)),
                },
            )
    yield samples.result("durable append, one session", "a second", at_least(0.90))
    yield samples.result("  the format alone", "a second", None, ours="format")


def deep(bench: Bench) -> Iterator[Result]:
    """The same far into a session, against its beginning."""
    count = 40
    deepest = bench.amount(1_000_000, 100_000)
    depths = {"100": 100, "10,000": 10_000, f"{deepest:,}": deepest}
    with ExitStack() as stack:
        measures: dict[str, Callable[[], float]] = {}
        for name, depth in depths.items():
            store = holdfast.open_store(bench.fresh(f"deep-{depth}"))
            session = stack.enter_context(store.create())
            submit_many(session, depth, partial(bench.progress.step, f"building {name} messages"))
            measures[name] = partial(_rate, count, partial(_durable, session, count))
        samples = bench.interleave("durable append, deep", bench.amount(100, 30), measures)
    for name in list(depths)[1:]:
        yield samples.result(
            f"durable append at message {name}, against 100",
            "a second",
            at_least(0.95),
            ours=name,
            floor="100",
        )


def many(bench: Bench) -> Iterator[Result]:
    """64 sessions in one process against 64 bare threads, and against one session."""
    count, alone_count = 25, 200
    with ExitStack() as stack:
        store = stack.enter_context(holdfast.open_store(bench.fresh("many")))
        sessions = [store.create() for _ in bench.steps("making 64 sessions", _SESSIONS)]
        for session in sessions:
            _durable(session, 2)
        line = last_line(sessions[0].path / "journal.jsonl")
        files = [stack.enter_context(_bare_file(each.path / "floor")) for each in sessions]
        bare = [partial(_bare, file, line, count) for file in files]
        alone = [partial(_format_alone, file, count) for file in files]
        ours = [partial(_durable, session, count) for session in sessions]
        total = count * _SESSIONS
        samples = bench.interleave(
            "durable append, 64 sessions",
            bench.amount(25, 9),
            {
                "floor": lambda: total / _in_threads(bare),
                "ours": lambda: total / _in_threads(ours),
                "format": lambda: total / _in_threads(alone),
                "one": partial(_rate, alone_count, partial(_durable, sessions[0], alone_count)),
            },
        )
    yield samples.result("durable append, 64 sessions at once", "a second", at_least(0.8))
    yield samples.result("  the format alone", "a second", None, ours="format")
    yield samples.result(
        "durable append, 64 sessions against one", "a second", at_least(3.0), floor="one"
    )


def awaited(bench: Bench) -> Iterator[Result]:
    """200 sessions under asyncio, against a bare pool of 16 threads that sync the same bytes."""
    count = 10
    with ExitStack() as stack:
        store = stack.enter_context(holdfast.open_store(bench.fresh("awaited")))
        sessions = [store.create() for _ in bench.steps("making 200 sessions", _AWAITED)]
        for session in sessions:
            _durable(session, 2)
        line = last_line(sessions[0].path / "journal.jsonl")
        files = [stack.enter_context(_bare_file(each.path / "floor")) for each in sessions]
        threads = stack.enter_context(ThreadPoolExecutor(_BARE_THREADS))

        async def append_in_all() -> None:
            await asyncio.gather(*(_append(session, count) for session in sessions))

        def pooled() -> None:
            for _ in range(count):
                list(threads.map(partial(_bare, line=line, count=1), files))

        total = count * _AWAITED
        samples = bench.interleave(
            "durable append, 200 sessions, asyncio",
            bench.amount(15, 7),
            {
                "floor": partial(_rate, total, pooled),
                "ours": partial(_rate, total, lambda: asyncio.run(append_in_all())),
            },
        )
    yield samples.result("durable append, 200 sessions, asyncio", "a second", at_least(0.45))


async def _append(session: holdfast.Session, count: int) -> None:
    for number in range(count):
        await session.submit(_POOL[number % len(_POOL)])


def _in_threads(works: Sequence[Callable[[], None]]) -> float:
    """Return the seconds from a common start to the end of the last one."""
    start = threading.Barrier(len(works) + 1)

    def run(work: Callable[[], None]) -> None:
        start.wait()
        work()

    threads = [threading.Thread(target=run, args=[work]) for work in works]
    for thread in threads:
        thread.start()
    start.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def bulk(bench: Bench) -> Iterator[Result]:
    """Many entries and one wait, against a loop of writes without and with one sync."""
    count = bench.amount(20_000, 5_000)
    with holdfast.open_store(bench.fresh("bulk")).create() as session:
        _durable(session, 1)
        line = last_line(session.path / "journal.jsonl")
        with _bare_file(session.path / "floor") as floor:

            def write_all() -> None:
                for _ in range(count):
                    os.write(floor, line)

            def unsynced() -> float:
                rate = _rate(count, write_all)
                os.fdatasync(floor)  # not timed: its dirty pages would slow down whoever is next
                return rate

            def synced() -> None:
                write_all()
                os.fdatasync(floor)

            def format_alone() -> None:
                for each in _lines(count):
                    os.write(floor, each)

            def submit_all() -> None:
                for number in range(count - 1):
                    session.submit(_POOL[number % len(_POOL)])
                session.submit(_POOL[0]).wait()

            samples = bench.interleave(
                "bulk append",
                bench.amount(15, 7),
                {
                    "floor": unsynced,
                    "ours": partial(_rate, count, submit_all),
                    "synced": lambda: _rate(count, synced),
                    "format": partial(_rate, count, format_alone),
                },
            )
    yield samples.result("bulk append, one wait", "a second", at_least(0.3))
    yield samples.result("  the format alone", "a second", None, ours="format")
    yield samples.result("  the same, floor with one sync", "a second", None, floor="synced")
