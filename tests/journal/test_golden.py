"""Journals as they were written once, read by this code and by a reader of a few lines.

The files in ``tests/golden`` are part of the format's promise: they are never written anew. The
small reader follows ``docs/format.md`` with nothing but ``json`` and ``zlib``; where it and the
code agree on every line, a reader in another language can be written too.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from holdfast.files import Files
from holdfast.journal.damage import Damage
from holdfast.journal.format import seal
from holdfast.model.codec import encode_body
from holdfast.model.entry import BODIES, Custom, Entry, Meta, Unknown
from holdfast.model.message import Message, Text, UnknownPart
from holdfast.store.local.layout import segment_name
from holdfast.store.local.reader import Journal
from holdfast.store.local.repair import inspect_tail

GOLDEN = Path(__file__).parent.parent / "golden"
NAMES = sorted({path.name.split(".")[0] for path in GOLDEN.glob("*.jsonl")})
Row = tuple[int, str, str, bytes]  # number, type, status, line


def files_of(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(GOLDEN.glob(f"{name}.*jsonl"), key=_number)]


def _number(path: Path) -> int:
    parts = path.name.split(".")
    return int(parts[1]) if len(parts) == 3 else 1


# The small reader.


def fields_of(line: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(line, parse_int=lambda digits: int(digits[:4000]))
    except RecursionError:  # sealed and intact, of unknown content
        start = line[:200].split(b'"name"')[0].rstrip(b",") + b"}"
        return dict(json.loads(start)) if line[-18:-10] == b',"sum":"' else None
    except ValueError:
        return None
    is_entry = isinstance(fields, dict) and type(fields.get("seq")) is int
    return fields if is_entry and 0 <= fields["seq"] < 10**15 else None


def read_file(data: bytes) -> list[Row]:
    rows: list[Row] = []
    previous: bytes | None = b""
    for line in data.split(b"\n"):
        fields = fields_of(line) if line else None
        has_sum = line[-18:-10] == b',"sum":"' and line[-2:] == b'"}'
        stored = line[-10:-2] if has_sum else None
        if fields is None:
            previous = stored if line else previous
            continue
        kind = fields.get("type")
        if previous is None and kind in ("gap", "header"):
            previous = b""
        if previous is None:
            status = "unverified"
        else:
            status = "ok" if stored == b"%08x" % crc32(previous + line[:-18]) else "edited"
        rows.append((fields["seq"], kind or "", status, line))
        previous = stored
        if kind in ("gap", "header") and fields.get("chain") is not None:
            previous = fields["chain"].encode() or None
        elif kind == "header" and fields.get("continues"):
            previous = fields["continues"]["sum"].encode()
    return rows


def read_journal(files: list[bytes]) -> list[Row]:
    rows: list[Row] = []
    for number, data in enumerate(files):
        more = read_file(data)
        if number:
            header, *more = more
            rows = [row for row in rows if row[0] <= header[0]]
        rows += more
    last = json.loads(rows[-1][3]).get("batch")
    if last and [json.loads(row[3]).get("batch") for row in rows[-last[1] :]] != [
        [index, last[1]] for index in range(last[1])
    ]:
        first = rows[-1][0] - last[0]
        rows = [row for row in rows if row[0] < first]
    return rows


# The code.


@pytest.fixture
def journal(tmp_path, request):
    for number, path in enumerate(sorted(GOLDEN.glob(f"{request.param}.*jsonl"), key=_number), 1):
        shutil.copy(path, tmp_path / segment_name(number))
    with Journal(Files(), tmp_path) as journal:
        journal.last.end = inspect_tail(journal).end
        yield journal


def rows_of(journal: Journal) -> list[Row]:
    entries = [record for record in journal.records() if isinstance(record, Entry)]
    return [(entry.seq, entry.type, entry.status, entry.line) for entry in entries]


EXPECTED = {
    "plain": [(number, "ok") for number in range(21)],
    "batch": [(0, "ok"), (1, "ok"), (2, "ok"), (3, "ok"), (4, "ok")],
    "gap": [
        (0, "ok"),
        (1, "ok"),
        (4, "ok"),
        (5, "ok"),
        (6, "ok"),
        (7, "ok"),
        (8, "unverified"),
        (9, "ok"),
        (10, "ok"),
    ],
    "continued": [(number, "ok") for number in range(6)],
    "snapshots": [(number, "ok") for number in range(4)],
    "unknown": [(number, "ok") for number in range(8)],
    "foreign": [
        (0, "ok"),
        (1, "ok"),
        (2, "edited"),
        (3, "unverified"),
        (4, "unverified"),
        (5, "unverified"),
        (6, "unverified"),
    ],
    "damaged": [
        (0, "ok"),
        (1, "ok"),
        (2, "edited"),
        (3, "ok"),
        (5, "unverified"),
        (6, "edited"),
        (7, "edited"),
    ],
}


WRITTEN_ONCE = {
    "batch.jsonl": "1ac6bd86",
    "continued.2.jsonl": "e6d56cf4",
    "continued.jsonl": "6f8ec198",
    "damaged.jsonl": "83863413",
    "foreign.jsonl": "622237a8",
    "gap.jsonl": "46c74113",
    "plain.jsonl": "6c1d9831",
    "snapshots.jsonl": "c29cef5b",
    "unknown.jsonl": "a045b1a8",
}


def test_there_is_an_expectation_for_every_file():
    assert sorted(EXPECTED) == NAMES


def test_the_files_are_the_ones_that_were_written_then():
    sums = {path.name: f"{crc32(path.read_bytes()):08x}" for path in GOLDEN.glob("*.jsonl")}
    assert sums == WRITTEN_ONCE


@pytest.mark.parametrize("name", EXPECTED)
def test_the_small_reader_reads_what_is_expected(name):
    assert [(seq, status) for seq, _, status, _ in read_journal(files_of(name))] == EXPECTED[name]


@pytest.mark.parametrize(
    ("journal", "name"), [(name, name) for name in EXPECTED], indirect=["journal"]
)
def test_the_code_reads_the_same(journal, name):
    assert rows_of(journal) == read_journal(files_of(name))


@pytest.mark.parametrize("journal", ["plain"], indirect=True)
def test_every_type_is_there_and_understood(journal):
    entries = [record for record in journal.records() if isinstance(record, Entry)]
    assert {entry.type for entry in entries} == BODIES.keys() - {"gap", "snapshot"}
    for entry in entries:
        assert type(entry.body) is BODIES[entry.type]


@pytest.mark.parametrize("journal", ["snapshots"], indirect=True)
def test_snapshots_are_understood(journal):
    entries = [record for record in journal.records() if isinstance(record, Entry)]
    assert [entry.type for entry in entries] == ["header", *["snapshot"] * 3]
    assert {type(entry.body) for entry in entries[1:]} == {BODIES["snapshot"]}


@pytest.mark.parametrize("journal", ["plain", "batch", "snapshots", "unknown"], indirect=True)
def test_what_is_understood_would_be_written_the_same_byte_for_byte(journal):
    previous = b""
    for entry in journal.records():
        assert isinstance(entry, Entry)
        if not isinstance(entry.body, Unknown) or entry.body.fields is not None:
            data = encode_body(entry.body)[0]
            if entry.seq != 4 or entry.type != "event":  # 1E5 and 100000.0 are the same number
                assert entry.line == seal(
                    entry.seq,
                    entry.at,
                    entry.type,
                    data,
                    previous,
                    entry.parent,
                    entry.id,
                    entry.batch,
                )
        previous = entry.sum


@pytest.mark.parametrize("journal", ["unknown"], indirect=True)
def test_what_is_not_understood_is_kept(journal):
    entries = {entry.seq: entry for entry in journal.records() if isinstance(entry, Entry)}
    assert entries[1].body == Unknown("hologram", {"beams": [1, 2], "must": False, "": {"x": 1}})
    message = entries[2].body
    assert isinstance(message, Message)
    assert message.content == [
        UnknownPart(fields={"type": "hologram", "beams": 2}),
        Text(text="a", extra={"from_2031": [None]}),
    ]
    assert message.extra == {"from_2031": {"deep": "\ud800"}}
    assert entries[3].body == Unknown("message", {"role": "user", "content": "a shape of its own"})
    numbers = entries[4].body
    assert isinstance(numbers, Custom)
    assert numbers.data[0] == int("9" * 30)
    assert b"7" * 5000 in encode_body(numbers)[0]
    assert b"1e400" in encode_body(numbers)[0]
    assert entries[5].body == Unknown("event", None)


@pytest.mark.parametrize("journal", ["foreign"], indirect=True)
def test_lines_of_another_hand_are_read(journal):
    bodies = [entry.body for entry in journal.records() if isinstance(entry, Entry)]
    assert isinstance(bodies[2], Message)
    assert bodies[2].text == "by hand"
    assert bodies[3] == Meta({"title": "other order"})


@pytest.mark.parametrize("journal", ["continued"], indirect=True)
def test_ghosts_do_not_count(journal):
    bodies = [entry.body for entry in journal.records() if isinstance(entry, Entry)]
    said = [body.text for body in bodies if isinstance(body, Message)]
    assert said == ["one", "two", "three", "four", "five"]
    assert not [record for record in journal.records() if isinstance(record, Damage)]


@pytest.mark.parametrize("journal", ["damaged"], indirect=True)
def test_damage_is_where_it_is(journal):
    (damage,) = [record for record in journal.records() if isinstance(record, Damage)]
    data = files_of("damaged")[0]
    assert set(data[damage.offset : damage.offset + damage.length]) == {0}
    assert (damage.before, damage.after) == (3, 5)


def test_the_tails_are_what_the_format_says(tmp_path):
    tails = {}
    for name in ("batch", "damaged", "foreign"):
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(GOLDEN / f"{name}.jsonl", folder / "journal.jsonl")
        with Journal(Files(), folder) as journal:
            tails[name] = inspect_tail(journal)
    assert (tails["batch"].last_seq, tails["batch"].next_seq, tails["batch"].cut_batch) == (
        4,
        8,
        True,
    )
    assert (tails["damaged"].last_seq, tails["damaged"].next_seq) == (7, 9)
    assert tails["damaged"].torn_bytes == 30
    assert (tails["foreign"].torn_bytes, tails["foreign"].newline_missing) == (0, True)
