"""Several journal files of one session: what counts in which, and what a ghost is."""

from __future__ import annotations

import pytest

from holdfast.journal.damage import Damage
from holdfast.model.entry import Entry, Header, Position
from holdfast.model.message import Message, user
from holdfast.store.local.layout import segment_name
from tests.journal.journal_lines import HEADER, SESSION, Chain, continuation_header, write
from tests.store.local.test_file_log import backward, forward, open_journal, seqs
from tests.store.local.test_file_log_damage import outline


def continued(folder, *, ghosts=(b"ghost 4", b"ghost 5"), after=(b"real 4", b"real 5", b"real 6")):
    """Make a session whose second file goes on behind entry 3; the first has ghosts behind it."""
    chain = Chain()
    first = chain.lines([HEADER, user("1"), user("2"), user("3")])
    anchor = chain.previous
    ghost = Chain(anchor, 4).lines([user(text.decode()) for text in ghosts])
    write(folder, [*first, *ghost])
    real = Chain(anchor, 4).lines([user(text.decode()) for text in after])
    write(folder, [continuation_header(3, anchor), *real], segment_name(2))
    return anchor


def spoken(entries):
    return [e.body.text for e in entries if isinstance(e.body, Message)]


def test_the_second_file_takes_the_place_of_the_ghosts(tmp_path):
    continued(tmp_path)
    with open_journal(tmp_path) as journal:
        assert spoken(forward(journal)) == ["1", "2", "3", "real 4", "real 5", "real 6"]
        assert backward(journal) == forward(journal)
        assert {e.status for e in forward(journal)} == {"ok"}
        assert [e.segment for e in forward(journal)] == [1, 1, 1, 1, 2, 2, 2]
        assert journal.last.number == 2
        assert journal.header is not None
        assert journal.header.seq == 0


@pytest.mark.parametrize("seq", range(7))
def test_by_number_and_back_from_a_number(tmp_path, seq):
    continued(tmp_path)
    with open_journal(tmp_path) as journal:
        entries = forward(journal)
        assert journal.find(seq) == entries[seq]
        assert seqs(e for e in backward(journal, seq) if e.seq <= seq) == list(range(seq + 1))
        assert list(journal.records(seq)) == entries[seq + 1 :]


@pytest.mark.parametrize("left", [b"\0" * 300, b'{"seq":4,"at":"2026', b"\0" * 4096 + b"}\n"])
def test_what_a_failed_sync_left_behind_is_no_damage(tmp_path, left):
    anchor = continued(tmp_path, ghosts=())
    with (tmp_path / "journal.jsonl").open("ab") as file:
        file.write(left)
    with open_journal(tmp_path) as journal:
        assert not [r for r in journal.records() if isinstance(r, Damage)]
        assert seqs(forward(journal)) == seqs(backward(journal)) == list(range(7))
    assert anchor


def test_damage_of_the_last_acknowledged_entry_is_told(tmp_path):
    continued(tmp_path)
    path = tmp_path / "journal.jsonl"
    data = path.read_bytes()
    with open_journal(tmp_path) as journal:
        entry = journal.find(3)
    assert entry is not None
    path.write_bytes(
        data[: entry.offset] + b"#" * len(entry.line) + data[entry.offset + len(entry.line) :]
    )
    with open_journal(tmp_path) as journal:
        kinds = [item[0] for item in outline(journal.records())]
        assert kinds == [0, 1, 2, "unreadable", 4, 5, 6]
        assert spoken(forward(journal))[2:] == ["real 4", "real 5", "real 6"]


def test_a_chain_of_files(tmp_path):
    chain = Chain()
    write(
        tmp_path, [*chain.lines([HEADER, user("1")]), Chain(chain.previous, 2).line(user("ghost"))]
    )
    header = continuation_header(1, chain.previous)
    second = chain.lines([user("2"), user("3")])
    write(
        tmp_path, [header, *second, Chain(chain.previous, 4).line(user("ghost"))], segment_name(2)
    )
    header = continuation_header(3, chain.previous)
    write(tmp_path, [header, *chain.lines([user("4"), user("5")])], segment_name(3))
    with open_journal(tmp_path) as journal:
        assert spoken(forward(journal)) == ["1", "2", "3", "4", "5"]
        assert backward(journal) == forward(journal)
        assert {e.status for e in forward(journal)} == {"ok"}


def test_a_later_file_limits_all_before_it(tmp_path):
    """The third goes on behind entry 1, so nothing in the second ever counted."""
    chain = Chain()
    write(tmp_path, chain.lines([HEADER, user("1")]))
    anchor = chain.previous
    header = continuation_header(1, anchor)
    write(tmp_path, [header, Chain(anchor, 2).line(user("ghost"))], segment_name(2))
    write(tmp_path, [header, Chain(anchor, 2).line(user("2"))], segment_name(3))
    with open_journal(tmp_path) as journal:
        assert spoken(forward(journal)) == spoken(backward(journal)) == ["1", "2"]


def test_a_damaged_continuation_header(tmp_path):
    continued(tmp_path)
    path = tmp_path / segment_name(2)
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([b"#" * len(lines[0]), *lines[1:]]))
    with open_journal(tmp_path) as journal:
        assert spoken(forward(journal)) == ["1", "2", "3", "real 4", "real 5", "real 6"]
        assert backward(journal) == forward(journal)
        assert [item[0] for item in outline(journal.records())] == [
            0,
            1,
            2,
            3,
            "unreadable",
            4,
            5,
            6,
        ]
        assert [e.status for e in forward(journal)][4] == "unverified"


@pytest.mark.parametrize("content", [b"", b"\0" * 9000, b"garbage without end", b"garbage\nmore\n"])
def test_a_continuation_of_which_nothing_can_be_read_hides_nothing(tmp_path, content):
    continued(tmp_path)
    (tmp_path / segment_name(2)).write_bytes(content)
    with open_journal(tmp_path) as journal:
        assert spoken(forward(journal)) == ["1", "2", "3", "ghost 4", "ghost 5"]
        assert backward(journal) == forward(journal)
        assert journal.find(3) is not None
        assert seqs(e for e in backward(journal, 2) if e.seq <= 2) == [0, 1, 2]
        assert journal.last.number == 2


def test_files_that_a_compaction_merged_do_not_count(tmp_path):
    """The first file holds two; the second is a left-over that nobody removed."""
    continued(tmp_path)
    header = Header(format=1, session=SESSION, uid="0" * 32, holds=2)
    chain = Chain()
    write(tmp_path, chain.lines([header, user("a"), user("b")]))
    with open_journal(tmp_path) as journal:
        assert spoken(forward(journal)) == ["a", "b"]
        assert [segment.number for segment in journal.segments] == [2]
        assert {e.segment for e in forward(journal)} == {2}
    write(
        tmp_path, [continuation_header(2, chain.previous), chain.line(user("c"))], segment_name(3)
    )
    with open_journal(tmp_path) as journal:
        assert spoken(forward(journal)) == spoken(backward(journal)) == ["a", "b", "c"]


def test_a_file_after_a_missing_one_does_not_count(tmp_path):
    chain = Chain()
    write(tmp_path, chain.lines([HEADER, user("1")]))
    write(
        tmp_path, [continuation_header(1, chain.previous), chain.line(user("2"))], segment_name(3)
    )
    with open_journal(tmp_path) as journal:
        assert spoken(forward(journal)) == ["1"]


def test_an_entry_of_the_continuation_is_where_it_says(tmp_path):
    continued(tmp_path)
    with open_journal(tmp_path) as journal:
        for entry in forward(journal):
            assert isinstance(entry, Entry)
            assert entry.position == Position(entry.seq, entry.offset, entry.segment)
            data = (tmp_path / segment_name(entry.segment)).read_bytes()
            assert data[entry.offset :].startswith(entry.line + b"\n")
