"""Bytes on disk, against the messages' own JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import holdfast
from benchmarks.conversation import messages, own_json
from benchmarks.harness import Bench, Result, at_most

if TYPE_CHECKING:
    from collections.abc import Iterator

_MESSAGES = 10_000
_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system's own


def size(bench: Bench) -> Iterator[Result]:
    """Everything the session's folder takes up once it is closed, by message."""
    pool = messages()
    with holdfast.open_store(bench.fresh("size")).create() as session:
        for number in bench.steps("bytes on disk", _MESSAGES):
            session.submit(pool[number % len(pool)])
    own = sum(len(own_json(pool[number % len(pool)])) for number in range(_MESSAGES))
    files = [path for path in session.path.rglob("*") if path.is_file()]
    length = sum(path.stat().st_size for path in files)
    taken = sum(path.stat().st_blocks for path in files) * _BLOCK_BYTES
    for name, total in (("file length", length), ("blocks taken", taken)):
        yield Result(
            name=f"bytes a message beyond its own JSON, {name}",
            ours=(total - own) / _MESSAGES,
            unit="bytes",
            goal=at_most(110, "bytes"),
        )
