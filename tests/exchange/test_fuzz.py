"""Damaged sources: whatever is wrong with one, what can be read is, and nothing else happens.

For every golden source: cut off at any byte, bytes changed, lines in another order, values of
another kind in any place.
"""

from __future__ import annotations

import json
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import ImportRejected
from holdfast.exchange.importers import importer
from holdfast.exchange.importing.items import Item, MessageItem
from holdfast.exchange.importing.sequence import STRIDE, ItemSequencer
from holdfast.exchange.importing.source_files import SourceReader
from tests.exchange.sources import CASES, copied, take_all

ROUNDS = 60
STRANGE: list[Any] = [None, True, -1, 10**400, 1.5, "", "\ud800", "x" * 50, [], [[]], {}, {"a": []}]


def read_all(name: str, path: Path) -> list[Item]:
    """Read a source as an import does, and return what it says."""
    one, reading = importer(name), SourceReader()
    one.sniff(path, reading)
    items: list[Item] = []
    for source in one.sessions(path, reading):
        track = ItemSequencer(reading, [(0, STRIDE)], "2026-01-01T00:00:00.000Z")
        try:
            for item in one.read(source, reading):
                items.append(item)
                track.take(item)
        except ImportRejected:
            continue
    return items


def texts(items: list[Item]) -> list[str]:
    return [item.message.text for item in items if isinstance(item, MessageItem)]


def files_of(source: Path) -> list[Path]:
    return [path for path in sorted(source.rglob("*")) if path.is_file()]


@pytest.fixture(params=CASES)
def damaged(request, tmp_path):
    """The importer's name, the copy of a source, and a generator of accidents."""
    source = copied(request.param, tmp_path)
    return request.param.partition("/")[0], source, random.Random(request.param)


def test_cut_off_at_any_byte(damaged):
    name, source, chance = damaged
    for path in files_of(source):
        data = path.read_bytes()
        for size in sorted(chance.sample(range(len(data)), min(ROUNDS, len(data)))):
            path.write_bytes(data[:size])
            said = texts(read_all(name, source))
            if path.suffix == ".jsonl":  # whole lines before the cut say what they said
                path.write_bytes(data[: data.rfind(b"\n", 0, size) + 1])
                before = texts(read_all(name, source))
                assert said[: len(before)] == before or len(said) >= len(before)
        path.write_bytes(data)


def test_changed_bytes(damaged):
    name, source, chance = damaged
    for path in files_of(source):
        data = path.read_bytes()
        for _ in range(ROUNDS):
            broken = bytearray(data)
            for _ in range(chance.choice([1, 1, 3, 20])):
                broken[chance.randrange(len(data))] = chance.choice([0, 10, 34, 123, 255, 0xC3])
            path.write_bytes(broken)
            read_all(name, source)
        path.write_bytes(data)


def test_lines_in_another_order(damaged):
    name, source, chance = damaged
    for path in files_of(source):
        data = path.read_bytes()
        lines = data.splitlines(keepends=True)
        for _ in range(ROUNDS // 5):
            chance.shuffle(lines)
            path.write_bytes(b"".join(lines * chance.choice([1, 2])))
            read_all(name, source)
        path.write_bytes(data)


def altered(value: Any, chance: random.Random, probability: float) -> Any:
    """Return a value with some of what is in it replaced by something of another kind."""
    if chance.random() < probability:
        return chance.choice(STRANGE)
    if isinstance(value, dict):
        return {
            key: altered(item, chance, probability)
            for key, item in value.items()
            if chance.random() > probability / 2
        }
    if isinstance(value, list):
        return [altered(item, chance, probability) for item in value]
    return value


def altered_text(data: str, chance: random.Random, probability: float) -> str:
    try:
        return json.dumps(altered(json.loads(data), chance, probability))
    except ValueError:
        return data


def test_values_of_another_kind(damaged):
    name, source, chance = damaged
    for path in files_of(source):
        if path.suffix == ".db":
            _alter_database(name, source, path, chance)
            continue
        data = path.read_bytes()
        text = data.decode()
        for _ in range(ROUNDS):
            pieces = text.splitlines() if path.suffix == ".jsonl" else [text]
            odds = chance.choice([0.02, 0.1, 0.3])
            path.write_text("\n".join(altered_text(piece, chance, odds) for piece in pieces))
            read_all(name, source)
        path.write_bytes(data)


def _alter_database(name, source, path, chance):
    data = path.read_bytes()
    for _ in range(ROUNDS // 2):
        with sqlite3.connect(path) as database:
            found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            tables = [name for (name,) in found if not name.startswith("sqlite_")]
            for table in tables:
                rows = database.execute(f'SELECT rowid, * FROM "{table}"')
                columns = [each[0] for each in rows.description][1:]
                for row in rows.fetchall():
                    for column, value in zip(columns, row[1:], strict=True):
                        if isinstance(value, str) and chance.random() < 0.3:
                            new = altered_text(value, chance, 0.2)
                            database.execute(
                                f'UPDATE OR IGNORE "{table}" SET "{column}" = ? WHERE rowid = ?',
                                (new, row[0]),
                            )
        database.close()
        read_all(name, source)
        path.write_bytes(data)


def test_a_damaged_source_is_imported_as_far_as_it_goes(damaged, store):
    name, source, chance = damaged
    for path in files_of(source):
        data = path.read_bytes()
        path.write_bytes(data[: chance.randrange(len(data))])
    try:
        done = take_all(store, name, source)
    except ImportRejected:
        done = []
    for each in done:
        if each.session is not None:
            assert store.verify(each.session).ok
