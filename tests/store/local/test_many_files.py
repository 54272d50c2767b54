"""Journals in very many files, and numbers of files that cannot be right."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.files import Files
from holdfast.journal.format import seal, stored_sum
from holdfast.model.entry import Entry
from holdfast.store.catalog.index import Index
from holdfast.store.local.layout import Home, segment_name, segment_number
from holdfast.store.local.reader import MOST_FILES_HELD, Journal
from tests.hostile import AT, SESSION, header, said
from tests.odd_journals import sealed


class FakeCountingFiles(Files):
    """Counts reads of journals."""

    def __init__(self):
        self.reads = 0
        self._journals = set()

    def open_read(self, path):
        descriptor = super().open_read(path)
        self._journals.discard(descriptor)
        if Path(path).name.startswith("journal."):
            self._journals.add(descriptor)
        return descriptor

    def read_at(self, descriptor, size, offset):
        self.reads += descriptor in self._journals
        return super().read_at(descriptor, size, offset)


def continued(folder, count: int) -> None:
    """Write a journal of so many files, with one message in each."""
    folder.mkdir(parents=True)
    data = sealed([header(), said("user", "0")])
    (folder / "journal.jsonl").write_bytes(data)
    previous = stored_sum(data[:-1]) or b""
    head = b'{"format":1,"session":"%s","uid":"%s"' % (SESSION.encode(), b"0" * 32)
    for number in range(2, count + 1):
        seq = number - 1
        body = head + b',"continues":{"seq":%d,"sum":"%s"}}' % (seq, previous)
        first = seal(seq, AT, "header", body, b"")
        text = b'{"role":"user","content":[{"type":"text","text":"%d"}]}' % seq
        line = seal(seq + 1, AT, "message", text, previous, seq)
        previous = stored_sum(line) or b""
        (folder / segment_name(number)).write_bytes(first + b"\n" + line + b"\n")


def reads_of(folder) -> int:
    files = FakeCountingFiles()
    with Journal(files, folder) as journal:
        numbers = [each.seq for each in journal.records() if isinstance(each, Entry)]
        assert numbers == list(range(len(journal.segments) + 1))
    return files.reads


def test_each_file_costs_the_same_however_many_there_are(tmp_path):
    continued(tmp_path / "few", 20)
    continued(tmp_path / "many", 200)
    assert reads_of(tmp_path / "many") <= 11 * reads_of(tmp_path / "few")


def test_a_journal_of_many_files_is_read_once_for_the_list(tmp_path):
    folder = tmp_path / "sessions" / "2026-11" / SESSION
    continued(folder, 30)
    for path in folder.iterdir():
        os.utime(path, (1_000_000_000, 1_000_000_000))
    files = FakeCountingFiles()
    index = Index(Home(files, tmp_path, force=False))
    (summary,) = index.summaries()
    assert files.reads
    assert (summary.messages, summary.state) == (30, "clean")
    before = files.reads
    assert index.summaries() == [summary]
    assert files.reads == before, "it was read again"
    # A change in any of the files shows, and so does another file.
    path = folder / segment_name(17)
    path.write_bytes(path.read_bytes() + b"\n")
    os.utime(path, (1_000_000_000, 1_000_000_001))
    index.summaries()
    assert files.reads > before
    before = files.reads
    index.summaries()
    assert files.reads == before
    continued(tmp_path / "longer", 31)
    (tmp_path / "longer" / segment_name(31)).rename(folder / segment_name(31))
    (longer,) = index.summaries()
    assert longer.messages == 31


@pytest.mark.parametrize("holds", [0, -3, MOST_FILES_HELD + 1, 10**15])
def test_a_number_of_files_that_cannot_be_right_is_one(tmp_path, holds):
    (tmp_path / "journal.jsonl").write_bytes(sealed([header(holds=holds), said("user", "x")]))
    with Journal(Files(), tmp_path) as journal:
        assert [segment.number for segment in journal.segments] == [1]


def test_names_of_continuation_files():
    assert segment_number("journal.17.jsonl") == 17
    for name in (
        "journal.jsonl",
        "journal.0.jsonl",
        "journal.017.jsonl",
        "journal.1234567890.jsonl",
    ):
        assert segment_number(name) == 0
