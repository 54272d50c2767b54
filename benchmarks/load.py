"""All messages of a session, against the least that any reader has to do."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import holdfast
from benchmarks.conversation import submit_many
from benchmarks.harness import Bench, Result, at_most

if TYPE_CHECKING:
    from collections.abc import Iterator

_MESSAGES = 10_000


def load(bench: Bench) -> Iterator[Result]:
    """Open a session for reading and take its messages; the file is in the page cache."""
    store = holdfast.open_store(bench.fresh("load"))
    with store.create() as session:
        submit_many(session, _MESSAGES)
    journal = session.path / "journal.jsonl"

    def bare() -> float:
        began = time.perf_counter()
        with journal.open("rb") as file:
            for line in file:
                json.loads(line)
        return time.perf_counter() - began

    def ours() -> float:
        began = time.perf_counter()
        with store.open(session.id, mode="read") as opened:
            found = opened.messages
        taken = time.perf_counter() - began
        assert len(found) == _MESSAGES
        return taken

    samples = bench.interleave(
        "load 10,000 messages", bench.amount(25, 9), {"floor": bare, "ours": ours}
    )
    yield samples.result("load 10,000 messages", "seconds", at_most(1.0))
