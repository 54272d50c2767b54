"""What the fuzzer begins with: real journals, live files and bodies, and names to be wary of.

The first byte of an input says how it is used; see ``fuzz``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import holdfast
from holdfast.journal.format import parse
from holdfast.model.codec import dumps, plain
from holdfast.model.entry import BODIES
from tests.crash.lab import scenario
from tests.crash.lab.results import ROOT
from tests.crash.lab.witness import Witness

TOKENS = (
    *(f'"type":"{name}"' for name in BODIES),
    *(
        '{"seq":1,',
        '"parent":null,',
        '"batch":[0,2],',
        '"sum":"00000000"}',
        '"chain":""',
        "\\ud800",
    ),
    *('"must":true', '"keep_from":', '"to":null', '"continues":{', '"holds":2', "NaN", "1e999"),
    *('"stream":"', '"generation":', '"after":', '"call_id":"', "\\n", "\\x00", "\\xff"),
)
_NAMES = (
    "20260102-030405-aaaabbbb",
    "key-" + "a" * 52,
    "telegram:42",
    "..",
    "../../etc/passwd",
    "/etc/passwd",
    "keyed/../../../x",
    "2026-01/20260102-030405-aaaabbbb/journal.jsonl",
    "\0",
    "\u2028ü😀",
    "a" * 300,
)


def write(folder: Path) -> None:
    """Write a folder of inputs for each target, and the dictionary."""
    journals = [path.read_bytes() for path in sorted((ROOT / "tests/golden").glob("*.jsonl"))]
    played, live = _played(folder / "play")
    journals += played
    _put(folder / "journal", (bytes([n]) + data for data in journals for n in (0, 2)))
    _put(folder / "lines", (bytes([n]) + data for data in journals for n in (0, 1, 2)))
    _put(folder / "live", (bytes([n]) + data for data in live for n in (0, 1)))
    _put(folder / "decoding", _bodies(journals))
    _put(folder / "names", (bytes([n]) + name.encode() for name in _NAMES for n in range(8)))
    _put(folder / "reading", (bytes([n]) + data for data in journals[:3] for n in range(0, 60, 7)))
    words = "".join(f'"{_escaped(token)}"\n' for token in TOKENS)
    (folder / "dictionary").write_text(words, encoding="ascii")


def _escaped(token: str) -> str:
    return token.replace('"', '\\"') if "\\x" in token else _quoted(token)


def _quoted(token: str) -> str:
    return token.replace("\\", "\\\\").replace('"', '\\"')


def _put(folder: Path, inputs: Iterator[bytes]) -> None:
    folder.mkdir(parents=True)
    for data in inputs:
        (folder / sha256(data).hexdigest()[:16]).write_bytes(data)


def _played(home: Path) -> tuple[list[bytes], list[bytes]]:
    """Return the journals of a scenario, and a live file that was caught with two streams in it."""
    nobody = os.open(os.devnull, os.O_WRONLY)
    try:
        scenario.run(home, Witness(nobody), "one")
    finally:
        os.close(nobody)
    store = holdfast.open_store(home)
    journals = []
    live: list[bytes] = []
    for summary in store.list():
        with store.open(summary.id) as session:
            journals.append((session.path / "journal.jsonl").read_bytes())
            live.append(_caught(session))
    return journals, live


def _caught(session: holdfast.Session) -> bytes:
    first, second = session.stream(model="none"), session.stream(call_id="a call", name="bash")
    first.write("Looking at ")
    first.write('{"command": "ma', kind="tool_call", call_id="c1", name="bash")
    second.write("output")
    path = session.path / "live.jsonl"
    while b"output" not in path.read_bytes():
        pass
    return path.read_bytes()


def _bodies(journals: list[bytes]) -> Iterator[bytes]:
    kinds = list(BODIES)
    for data in journals:
        for line in data.split(b"\n"):
            entry = parse(line, None, 0, 1) if line else None
            if entry is not None:
                kind = kinds.index(entry.type) if entry.type in kinds else len(kinds)
                yield bytes([kind]) + dumps(plain(entry.body))
