"""Sources that grow while they are imported: after any line, and then the rest."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import holdfast
from holdfast.model.codec import plain
from tests.exchange.sources import LAST_WRITTEN_NS, plain_totals, take_all


def content(store: holdfast.Store) -> list[dict[str, Any]]:
    """Return what the sessions of a store say; numbers and the import's own notes left out."""
    found = []
    for summary in store.list():
        with store.open(summary.id, mode="read") as session:
            assert store.verify(summary.id).ok
            totals = plain_totals(session)
            totals["cost_usd"] = round(totals["cost_usd"], 9)
            del totals["requests"]  # what a request is corrected by is an entry of its own
            found.append(
                {
                    "title": summary.title,
                    "totals": totals,
                    "messages": [plain(each) for each in session.messages],
                    "context": [plain(each) for each in session.context()],
                    "meta": {k: v for k, v in session.meta.items() if k != "imported"},
                }
            )
    return sorted(found, key=lambda each: str(each["messages"]))


def recorded(store: holdfast.Store) -> int:
    """Return how many messages all sessions have, on all branches."""
    found = 0
    for summary in store.list():
        with store.open(summary.id, mode="read") as session:
            found += session.state.messages
    return found


def imported(name: str, path: Path, steps: Sequence[bytes], *, quiet: bool = False) -> Any:
    """Import a file after each step of its growth; return what the store says in the end.

    A quiet source was last written long ago at every step.
    """
    with tempfile.TemporaryDirectory() as home, holdfast.open_store(Path(home)) as store:
        for data in steps:
            path.write_bytes(data)
            if quiet:
                os.utime(path, ns=(LAST_WRITTEN_NS, LAST_WRITTEN_NS))
            take_all(store, name, path.parent)
        os.utime(path, ns=(LAST_WRITTEN_NS, LAST_WRITTEN_NS))
        take_all(store, name, path.parent)
        return content(store), recorded(store)


def prefixes(data: bytes) -> list[bytes]:
    """Return a file after each of its lines."""
    lines = data.splitlines(keepends=True)
    return [b"".join(lines[: number + 1]) for number in range(len(lines))]


def check_growth(name: str, path: Path, *, exact: bool = True) -> None:
    """Check that any prefix and then the rest, and line by line, come to what one import does.

    ``exact``: no message is recorded twice, on whatever branch.
    """
    data = path.read_bytes()
    steps = prefixes(data)
    wanted, number = imported(name, path, [data])
    for step in steps:
        said, found = imported(name, path, [step, data])
        assert said == wanted
        assert not exact or found == number
        assert imported(name, path, [step, data], quiet=True)[0] == wanted
    said, found = imported(name, path, steps)
    assert said == wanted
    assert not exact or found == number
