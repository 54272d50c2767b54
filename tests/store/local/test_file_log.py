"""Reading a journal: forward, backward and by number say the same, whatever the sizes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.errors import DamagedJournal
from holdfast.files import Files
from holdfast.journal.damage import Damage
from holdfast.model.entry import Entry, Header
from holdfast.model.message import Message, user
from holdfast.store.local.layout import segment_name
from holdfast.store.local.reader import Journal
from tests.journal.journal_lines import HEADER, SESSION, Chain, texts, write

BLOCK = 256 * 1024


def open_journal(folder: Path) -> Journal:
    return Journal(Files(), folder)


def forward(journal: Journal) -> list[Entry]:
    return [record for record in journal.records() if isinstance(record, Entry)]


def backward(journal: Journal, seq: int | None = None) -> list[Entry]:
    blocks = [block.records for block in journal.blocks_backward(seq)]
    return [record for block in reversed(blocks) for record in block if isinstance(record, Entry)]


def seqs(entries) -> list[int]:
    return [entry.seq for entry in entries]


@settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    sizes=st.lists(st.integers(0, 900), min_size=1, max_size=60),
    gaps=st.lists(st.integers(1, 5), min_size=60, max_size=60),
    block=st.integers(60, 2000),
    long_at=st.one_of(st.none(), st.integers(0, 59)),
    blank_at=st.one_of(st.none(), st.integers(0, 59)),
    end=st.booleans(),
)
def test_every_way_of_reading_gives_the_same(
    tmp_path, monkeypatch, sizes, gaps, block, long_at, blank_at, end
):
    """Blocks are small here, so that lines cross them, fill them and span several."""
    monkeypatch.setattr("holdfast.store.local.segment._BLOCK_BYTES", block)
    chain = Chain()
    lines = [chain.line(HEADER)]
    for number, size in enumerate(sizes):
        chain.seq += gaps[number] - 1
        lines.append(chain.line(user("x" * (9000 if number == long_at else size))))
        if number == blank_at:
            lines.append(b"")
    path = write(tmp_path, lines)
    if not end:
        path.write_bytes(path.read_bytes()[:-1])
    with open_journal(tmp_path) as journal:
        entries = forward(journal)
        assert [entry.line for entry in entries] == [line for line in lines if line]
        assert {entry.status for entry in entries} == {"ok"}
        assert backward(journal) == entries
        for place, entry in enumerate(entries):
            assert journal.find(entry.seq) == entry
            assert list(journal.records(entry.seq)) == entries[place + 1 :]
            back = backward(journal, entry.seq)
            assert back[: place + 1] == entries[: place + 1]
        known = set(seqs(entries))
        for seq in {seq + 1 for seq in known} - known:
            assert journal.find(seq) is None
        data = path.read_bytes()
        assert all(data[e.offset :].startswith(e.line) for e in entries)


def test_real_blocks_and_a_line_longer_than_a_block(tmp_path):
    chain = Chain()
    bodies = [user(f"{n}" + "y" * (700 * 1024 if n == 7 else 3000)) for n in range(400)]
    lines = chain.lines([HEADER, *bodies])
    assert sum(map(len, lines)) > 6 * BLOCK
    write(tmp_path, lines)
    with open_journal(tmp_path) as journal:
        entries = forward(journal)
        assert [entry.line for entry in entries] == lines
        assert backward(journal) == entries
        assert {entry.status for entry in entries} == {"ok"}
        assert [journal.find(seq) for seq in (0, 1, 7, 8, 9, 399, 400)] == [
            entries[seq] for seq in (0, 1, 7, 8, 9, 399, 400)
        ]
        assert journal.find(401) is None
        assert journal.size_bytes == sum(map(len, lines)) + len(lines)


def test_lines_longer_than_a_first_look_are_found(tmp_path):
    write(tmp_path, texts(120, 10_000))
    with open_journal(tmp_path) as journal:
        assert journal.size_bytes > 4 * BLOCK
        assert all(journal.find(n) == entry for n, entry in enumerate(forward(journal)))


def test_the_last_newline(tmp_path):
    path = write(tmp_path, texts(3))
    whole = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"x" * 600_000)
    with open_journal(tmp_path) as journal:
        assert journal.last.last_newline() == whole - 1
    path.write_bytes(b"x" * 600_000)
    with open_journal(tmp_path) as journal:
        assert journal.last.last_newline() == -1


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_what_is_no_file_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "journal.jsonl"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(write(tmp_path, texts(1), "real.jsonl"))
    with pytest.raises(OSError, match=r"regular|symbolic"):
        open_journal(tmp_path)


def test_finding_an_entry_reads_little(tmp_path, files):
    write(tmp_path, texts(3000, 1500))
    with Journal(files, tmp_path) as journal:
        size = journal.size_bytes
        assert size > 4_000_000
        files.read = 0
        original = type(files).read_at

        def counting(self, descriptor, size, offset):
            files.read += size
            return original(self, descriptor, size, offset)

        type(files).read_at, undo = counting, original
        try:
            found = journal.find(2000)
        finally:
            type(files).read_at = undo
        assert found is not None
        assert found.seq == 2000
        assert files.read < size / 2


def test_a_view_does_not_change_when_the_file_grows(tmp_path):
    lines = texts(5)
    path = write(tmp_path, lines[:4])
    with open_journal(tmp_path) as journal:
        with path.open("ab") as file:
            file.write(lines[4] + b"\n")
        assert len(forward(journal)) == len(backward(journal)) == 4
        assert journal.find(4) is None
        journal.last.end = path.stat().st_size
        assert len(forward(journal)) == 5


def test_a_view_survives_the_cutting_of_a_torn_tail(tmp_path):
    """The writer that opens next cuts what was torn, while this reader has it in view."""
    lines = texts(5)
    path = write(tmp_path, lines)
    whole = path.stat().st_size
    with path.open("ab") as file:
        file.write(b'{"seq":6,"at":"2026' + b"x" * 100_000)
    with open_journal(tmp_path) as journal:
        with path.open("r+b") as file:
            file.truncate(whole)
        assert seqs(forward(journal)) == seqs(backward(journal)) == [0, 1, 2, 3, 4, 5]
        list(journal.last.forward(whole))


def test_a_view_survives_deletion_and_replacement(tmp_path):
    path = write(tmp_path, texts(3))
    with open_journal(tmp_path) as journal:
        path.unlink()
        write(tmp_path, [b"something else"])
        assert seqs(forward(journal)) == [0, 1, 2, 3]


def test_no_journal_is_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_journal(tmp_path)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "empty"),
        (b"\n", "not a journal"),
        (b"hello\nworld\n", "not a journal"),
        (b"\0" * 5000, "not a journal"),
        (b"{}\n[]\n", "not a journal"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40, "not a journal"),
    ],
)
def test_a_file_that_is_no_journal(tmp_path, content, kind):
    (tmp_path / "journal.jsonl").write_bytes(content)
    with open_journal(tmp_path) as journal:
        assert journal.header is None
        assert forward(journal) == []
        with pytest.raises(DamagedJournal) as caught:
            journal.check_readable()
    assert (caught.value.kind, caught.value.offset) == (kind, 0)
    assert caught.value.path == tmp_path / "journal.jsonl"
    assert (tmp_path / "journal.jsonl").read_bytes() == content


def test_an_unreadable_header_does_not_hide_the_rest(tmp_path):
    lines = texts(3)
    write(tmp_path, [b"#" * 50, *lines[1:]])
    with open_journal(tmp_path) as journal:
        assert journal.header is None
        journal.check_readable()
        records = list(journal.records())
        assert isinstance(records[0], Damage)
        assert (records[0].offset, records[0].length, records[0].kind) == (0, 50, "unreadable")
        assert [(e.seq, e.status) for e in forward(journal)] == [
            (1, "unverified"),
            (2, "ok"),
            (3, "ok"),
        ]


def test_a_first_line_that_is_no_header(tmp_path):
    write(tmp_path, Chain().lines([user("a"), user("b")]))
    with open_journal(tmp_path) as journal:
        assert journal.header is None
        assert seqs(forward(journal)) == [0, 1]


@pytest.mark.parametrize("blanks", [1, 5000])
def test_blank_lines_before_a_header_stand_for_nothing_in_a_file_of_any_size(
    tmp_path, monkeypatch, blanks
):
    header = Header(format=1, session=SESSION, uid="u")
    lines = Chain().lines([header, user("a" * 300), user("b" * 300)])
    write(tmp_path, [b"\n" * (blanks - 1), *lines])
    with open_journal(tmp_path) as journal:
        small = journal.header
    monkeypatch.setattr("holdfast.store.local.segment._BLOCK_BYTES", 100)
    with open_journal(tmp_path) as journal:
        assert journal.header == small
    assert small is not None
    assert (small.body, small.offset) == (header, blanks)


@pytest.mark.parametrize("size", [3000, 5000, 70_000])
def test_a_header_of_any_length(tmp_path, size, monkeypatch):
    """A long key makes a long header; the line behind it is checked all the same."""
    monkeypatch.setattr("holdfast.store.local.segment._BLOCK_BYTES", 1000)
    chain = Chain(b"12345678", 1)
    old = chain.lines([user("a" * 300), user("b" * 300), user("c" * 300)])
    header = Header(format=1, session=SESSION, uid="u", key="k" * size, chain="12345678")
    write(tmp_path, [Chain().line(header), *old])
    with open_journal(tmp_path) as journal:
        assert journal.header is not None
        assert journal.header.body == header
        entries = [e for e in forward(journal) if isinstance(e.body, Message)]
        assert [e.status for e in entries] == ["ok"] * 3
        for block in journal.blocks_backward():
            for record in block.records:
                assert isinstance(record, Damage) or record.status == "ok"


def test_a_long_line_that_only_ends_like_a_header(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.store.local.segment._BLOCK_BYTES", 1000)
    lines = Chain().lines([HEADER, user("x" * 5000), user("y" * 900), user("z" * 900)])
    write(tmp_path, lines)
    with open_journal(tmp_path) as journal:
        assert [e.status for e in backward(journal)] == ["ok"] * 4


def test_the_files_are_closed(tmp_path, files):
    write(tmp_path, texts(1))
    with Journal(files, tmp_path):
        pass
    assert files.count("open_read", "journal.jsonl") == files.count("close") == 1
    journal = Journal(files, tmp_path)
    journal.close()
    journal.close()
    assert files.count("open_read", "journal.jsonl") == files.count("close") == 2
    journal = Journal(files, tmp_path)
    del journal  # a view that was dropped
    assert files.count("open_read", "journal.jsonl") == files.count("close") == 3


def test_what_was_opened_is_closed_if_a_later_file_cannot_be(tmp_path, files):
    write(tmp_path, texts(1))
    (tmp_path / segment_name(2)).symlink_to(tmp_path / "journal.jsonl")
    with pytest.raises(OSError, match="symbolic"):
        Journal(files, tmp_path)
    assert files.count("close") == 1


def test_it_names_its_session_and_its_place(store):
    with store.create() as session:
        session.append(user("hello"))
    with Journal(Files(), session.path) as journal:
        assert (journal.session_id, journal.location) == (session.id, session.path)
