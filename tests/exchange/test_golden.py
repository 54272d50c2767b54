"""Every importer on files as its agent writes them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdfast.exchange.importers import BUILT_IN, importer, recognised
from holdfast.exchange.importing.source_files import SourceReader
from tests.exchange.sources import CASES, GOLDEN, copied, outcome, take_all


def fingerprint(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    found = {}
    for path in [folder, *folder.rglob("*")]:
        status = os.stat(path)
        data = path.read_bytes() if path.is_file() else b""
        found[str(path)] = status.st_mtime_ns, status.st_mode, data
    return found


def test_every_importer_has_a_golden_source():
    assert {case.partition("/")[0] for case in CASES} == set(BUILT_IN)


@pytest.mark.parametrize("case", CASES)
def test_a_source_becomes_what_it_says(case, store, tmp_path):
    source = copied(case, tmp_path)
    before = fingerprint(source)
    done = take_all(store, case.partition("/")[0], source)
    expected = json.loads((GOLDEN / case / "expected.json").read_text("utf-8"))
    assert [outcome(store, each, source) for each in done] == expected
    assert fingerprint(source) == before, "an import never touches its source"


@pytest.mark.parametrize("case", CASES)
def test_a_second_import_takes_nothing(case, store, tmp_path):
    source = copied(case, tmp_path)
    first = take_all(store, case.partition("/")[0], source)
    sizes = {each.session: _size(store, each.session) for each in first if each.session}
    again = take_all(store, case.partition("/")[0], source)
    assert {each.action for each in again} <= {"unchanged", "empty"}
    assert [each.session for each in again] == [each.session for each in first]
    assert sizes == {name: _size(store, name) for name in sizes}


def _size(store, session_id):
    with store.open(session_id, mode="read") as session:
        return (session.path / "journal.jsonl").stat().st_size


@pytest.mark.parametrize("case", CASES)
def test_a_source_is_recognised(case, tmp_path):
    source = copied(case, tmp_path)
    found = recognised(source, SourceReader())
    assert found is not None
    assert found.name == case.partition("/")[0]


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_an_importer_says_what_it_is(name):
    one = importer(name)
    assert one.name == name
    assert one.title
    for place in one.found(Path("/home/nobody"), {}):
        assert place.is_absolute()


@pytest.mark.parametrize("case", CASES)
def test_a_source_is_recognised_behind_files_that_are_nobodys(case, tmp_path):
    source = copied(case, tmp_path)
    endings = {"".join(path.suffixes[-1:]) for path in source.rglob("*") if path.is_file()}
    name = ".aider.chat.history.md"
    for number in range(5):
        folder = source / f"!{number}" / "chats"
        folder.mkdir(parents=True)
        for ending in endings:
            (folder / (name if ending == ".md" else f"session-{number}{ending}")).write_text("{}\n")
    found = recognised(source, SourceReader())
    assert found is not None
    assert found.name == case.partition("/")[0]
