"""Damage never stops a reader: what reads is read, what does not is reported in its place."""

from __future__ import annotations

import pytest

from holdfast.journal import format as journal_format
from holdfast.journal.damage import Damage, in_order
from holdfast.journal.format import seal
from holdfast.model.entry import Custom, Entry, Meta
from holdfast.model.message import Message, ToolCall, assistant, user
from holdfast.store.local import segment
from holdfast.store.local.reader import Journal
from tests.journal.journal_lines import AT, HEADER, Chain, texts, write
from tests.store.local.test_file_log import backward, forward, open_journal, seqs


def outline(records):
    """Return numbers with their status, and damage as (kind, offset, length)."""
    return [
        (record.seq, record.status)
        if isinstance(record, Entry)
        else (record.kind, record.offset, record.length)
        for record in records
    ]


def read(folder):
    with open_journal(folder) as journal:
        result = outline(journal.records())
        back = [block.records for block in journal.blocks_backward()]
        assert outline(record for block in reversed(back) for record in block) == result
        return result


def damage_in(folder):
    return [item for item in read(folder) if isinstance(item[0], str)]


class TestGlued:
    lines = texts(4)

    def test_two_records_in_one_line(self, tmp_path):
        write(tmp_path, [*self.lines[:2], self.lines[2] + self.lines[3], self.lines[4]])
        assert read(tmp_path) == [(n, "ok") for n in range(5)]

    def test_all_records_in_one_line(self, tmp_path):
        write(tmp_path, [b"".join(self.lines)])
        assert read(tmp_path) == [(n, "ok") for n in range(5)]

    def test_a_torn_record_that_the_next_append_was_glued_to(self, tmp_path):
        torn = self.lines[2][:40]
        write(tmp_path, [*self.lines[:2], torn + self.lines[3], self.lines[4]])
        start = sum(len(line) + 1 for line in self.lines[:2])
        assert read(tmp_path) == [
            (0, "ok"),
            (1, "ok"),
            ("unreadable", start, 40),
            (3, "unverified"),
            (4, "ok"),
        ]

    def test_a_run_of_nuls_before_a_record(self, tmp_path):
        write(tmp_path, [*self.lines[:2], b"\0" * 4096 + self.lines[3], self.lines[4]])
        start = sum(len(line) + 1 for line in self.lines[:2])
        assert read(tmp_path) == [
            (0, "ok"),
            (1, "ok"),
            ("unreadable", start, 4096),
            (3, "unverified"),
            (4, "ok"),
        ]

    def test_a_run_of_nuls_after_a_record(self, tmp_path):
        write(tmp_path, [*self.lines[:2], self.lines[2] + b"\0" * 100, self.lines[3]])
        start = sum(len(line) + 1 for line in self.lines[:2]) + len(self.lines[2])
        assert read(tmp_path) == [
            (0, "ok"),
            (1, "ok"),
            (2, "ok"),
            ("unreadable", start, 100),
            (3, "unverified"),
        ]

    def test_a_record_without_a_sum_glued_to_one_with(self, tmp_path):
        bare = b'{"seq":2,"at":"x","type":"turn","state":"started"}'
        write(tmp_path, [*self.lines[:2], bare + self.lines[3], self.lines[4]])
        assert read(tmp_path) == [
            (0, "ok"),
            (1, "ok"),
            (2, "edited"),
            (3, "unverified"),
            (4, "ok"),
        ]

    def test_a_number_of_any_length_in_a_glued_record(self, tmp_path):
        big = seal(2, AT, "meta", b'{"n":%s}' % (b"7" * 5000), self.lines[1][-10:-2])
        write(tmp_path, [*self.lines[:2], big + self.lines[3]])
        assert read(tmp_path)[:3] == [(0, "ok"), (1, "ok"), (2, "ok")]

    def test_objects_inside_a_glued_record_are_part_of_it(self, tmp_path):
        rows = [{"seq": n} for n in range(5)]
        chain = Chain(self.lines[1][-10:-2], 2)
        lines = chain.lines([Custom(name="e", data=rows), user("b")])
        write(tmp_path, [*self.lines[:2], b"".join(lines)])
        assert read(tmp_path) == [(n, "ok") for n in range(4)]

    def test_a_glued_record_that_is_no_entry(self, tmp_path):
        write(tmp_path, [*self.lines[:2], b'{"seq":2000000000000000}' + self.lines[2]])
        assert [item[0] for item in read(tmp_path)] == [0, 1, "unreadable", 2]


def test_damage_knows_its_neighbours(tmp_path):
    lines = texts(5)
    write(tmp_path, [b"#", *lines[1:3], b"#", b"#", *lines[4:], b"#"])
    with open_journal(tmp_path) as journal:
        around = [(d.before, d.after) for d in journal.records() if isinstance(d, Damage)]
    assert around == [(None, 1), (2, 4), (2, 4), (5, None)]


def test_an_object_inside_a_torn_record_is_not_an_entry(tmp_path):
    """A tool call may carry rows that look like entries, with numbers that look right."""
    rows = [{"seq": 10 + n, "at": "x", "type": "turn", "state": "started"} for n in range(3)]
    chain = Chain()
    lines = chain.lines([HEADER, user("a"), assistant(ToolCall(id="c", name="n", arguments=rows))])
    assert b'{"seq":11' in lines[2]
    for cut in range(len(lines[2])):
        write(tmp_path, [lines[0], lines[1], lines[2][:cut]])
        assert seqs(e for e in _entries(tmp_path)) == [0, 1]


def _entries(folder):
    with open_journal(folder) as journal:
        return forward(journal)


def test_salvage_gives_up_on_a_line_made_to_be_slow(tmp_path):
    line = b'{"seq":1,[' * 5000
    write(tmp_path, [*texts(1), line, b"x"])
    assert [item[0] for item in read(tmp_path)] == [0, 1, "unreadable", "unreadable"]
    assert len(journal_format.salvage(b'{"seq":1}' * 2000)) == journal_format._MOST_SALVAGE_TRIES


def test_blank_lines_stand_for_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(segment, "_BLOCK_BYTES", 150)
    lines = texts(6)
    spaced = [piece for line in lines for piece in (line, b"", b"")]
    write(tmp_path, [b"", *spaced])
    with open_journal(tmp_path) as journal:
        assert journal.header is not None
        assert seqs(forward(journal)) == seqs(backward(journal)) == [0, 1, 2, 3, 4, 5, 6]
        assert {e.status for e in backward(journal)[1:]} == {"ok"}


@pytest.mark.parametrize("block", [100, 1000, 256 * 1024])
class TestTooLong:
    @pytest.fixture(autouse=True)
    def limits(self, monkeypatch, block):
        monkeypatch.setattr(segment, "LONGEST_LINE_BYTES", 2000)
        monkeypatch.setattr(segment, "_BLOCK_BYTES", block)

    @pytest.mark.parametrize("size", [1990, 5000, 100_000])
    def test_a_long_line_is_reported_and_what_follows_is_read(self, tmp_path, size):
        chain = Chain()
        lines = chain.lines([HEADER, user("a"), user("x" * size), user("b"), user("c")])
        assert len(lines[2]) > 2000
        write(tmp_path, lines)
        start = len(lines[0]) + len(lines[1]) + 2
        assert read(tmp_path) == [
            (0, "ok"),
            (1, "ok"),
            ("too long", start, len(lines[2])),
            (3, "ok"),
            (4, "ok"),
        ]
        with open_journal(tmp_path) as journal:
            assert journal.find(2) is None
            assert journal.find(3) is not None

    @pytest.mark.parametrize("newline", [b"", b"\n"])
    def test_at_the_end(self, tmp_path, newline):
        lines = Chain().lines([HEADER, user("a"), user("x" * 9000)])
        path = write(tmp_path, lines[:2])
        start = path.stat().st_size
        path.write_bytes(path.read_bytes() + lines[2] + newline)
        assert read(tmp_path) == [(0, "ok"), (1, "ok"), ("too long", start, len(lines[2]))]

    def test_at_the_beginning(self, tmp_path):
        write(tmp_path, [b"z" * 9000, *texts(1)[1:]])
        assert read(tmp_path) == [("too long", 0, 9000), (1, "unverified")]

    def test_the_whole_file(self, tmp_path):
        (tmp_path / "journal.jsonl").write_bytes(b"z" * 9000)
        assert read(tmp_path) == [("too long", 0, 9000)]

    def test_one_byte_less_is_read(self, tmp_path):
        for size in (2000, 2001):
            chain = Chain()
            header = chain.line(HEADER)
            length = len(Chain(chain.previous, 1).line(user("")))
            line = chain.line(user("x" * (size - length)))
            assert len(line) == size
            write(tmp_path, [header, line])
            assert read(tmp_path)[1][0] == (1 if size == 2000 else "too long")


def test_a_very_long_line_is_never_in_memory_whole(tmp_path, files, monkeypatch):
    monkeypatch.setattr(segment, "LONGEST_LINE_BYTES", 1 << 20)
    lines = texts(2)
    path = write(tmp_path, lines[:2])
    with path.open("ab") as file:
        file.write(bytes(64 << 20) + b"\n" + lines[2] + b"\n")
    asked: list[int] = []
    original = type(files).read_at

    def noting(self, descriptor, size, offset):
        asked.append(size)
        return original(self, descriptor, size, offset)

    monkeypatch.setattr(type(files), "read_at", noting)
    with Journal(files, tmp_path) as journal:
        assert seqs(forward(journal)) == seqs(backward(journal)) == [0, 1, 2]
        assert [r.kind for r in journal.records() if isinstance(r, Damage)] == ["too long"]
    assert max(asked) <= 4 << 20


class TestHoles:
    """A large hole is damage that is not read, and what stands after it is read."""

    HOLE = 1 << 30

    def sparse(self, tmp_path, *places: int | bytes):
        """Write pieces and, for each number, a hole of as many bytes."""
        path = tmp_path / "journal.jsonl"
        with path.open("wb") as file:
            for each in places:
                if isinstance(each, bytes):
                    file.write(each)
                else:
                    file.truncate(file.tell() + each)
                    file.seek(0, 2)
        return path

    def lines(self, first: int, last: int) -> bytes:
        return b"".join(line + b"\n" for line in texts(8)[first:last])

    @pytest.mark.parametrize(
        "places",
        [
            (0, 9, HOLE),
            (HOLE, 0, 9),
            (0, 4, HOLE, 4, 9),
            (0, 4, HOLE, 4, 6, HOLE, 6, 9, HOLE),
            (0, 4, HOLE, b"x" * (1 << 20), HOLE, b"y" * (1 << 20), 4, 9),
        ],
    )
    def test_in_both_directions(self, tmp_path, files, monkeypatch, places):
        pieces: list[int | bytes] = []
        numbers = iter(places)
        for each in numbers:
            is_line = isinstance(each, int) and each < self.HOLE
            pieces.append(self.lines(each, next(numbers)) if is_line else each)
        self.sparse(tmp_path, *pieces)
        read = 0
        original = type(files).read_at

        def noting(self, descriptor, size, offset):
            nonlocal read
            read += size
            return original(self, descriptor, size, offset)

        monkeypatch.setattr(type(files), "read_at", noting)
        with Journal(files, tmp_path) as journal:
            assert seqs(forward(journal)) == seqs(backward(journal)) == list(range(9))
            damaged = [r for r in journal.records() if isinstance(r, Damage)]
            assert sum(each.length for each in damaged) >= self.HOLE - (1 << 20)
            assert journal.find(7) is not None
            assert journal.last.last_newline() > 0
            journal.last.checksum(0, journal.last.end)
        assert read < self.HOLE // 8

    def test_a_file_that_was_cut_and_grew_is_looked_at_again(self, tmp_path):
        path = self.sparse(tmp_path, self.lines(0, 9), self.HOLE)
        with open_journal(tmp_path) as journal:
            assert seqs(backward(journal)) == list(range(9))
            with path.open("r+b") as file:
                file.truncate(len(self.lines(0, 8)))
                file.seek(0, 2)
                file.write(b" " * (1 << 20) + b"\n" + self.lines(8, 9))
            journal.last.size = journal.last.end = path.stat().st_size
            assert seqs(forward(journal)) == list(range(9))

    def test_a_continuation_file_that_is_a_hole(self, tmp_path, files):
        write(tmp_path, texts(2))
        with (tmp_path / "journal.2.jsonl").open("wb") as file:
            file.truncate(self.HOLE)
        with Journal(files, tmp_path) as journal:
            assert seqs(forward(journal)) == [0, 1, 2]


class TestNumbers:
    """A line whose number cannot be right gives way to those that are verified."""

    def altered(self, tmp_path, monkeypatch, at: int, number: int, block: int):
        monkeypatch.setattr(segment, "_BLOCK_BYTES", block)
        lines = texts(40, 50)
        lines[at] = lines[at].replace(b'{"seq":%d,' % at, b'{"seq":%d,' % number)
        write(tmp_path, lines)
        return lines

    @pytest.mark.parametrize("block", [150, 400, 1000, 256 * 1024])
    @pytest.mark.parametrize("at", [5, 12, 20, 33])
    def test_too_high(self, tmp_path, monkeypatch, at, block):
        self.altered(tmp_path, monkeypatch, at, 9000, block)
        with open_journal(tmp_path) as journal:
            expected = [n for n in range(41) if n != at]
            assert seqs(forward(journal)) == seqs(backward(journal)) == expected
            assert [journal.find(n) is not None for n in range(41)] == [n != at for n in range(41)]

    @pytest.mark.parametrize("block", [150, 400, 1000, 256 * 1024])
    @pytest.mark.parametrize("at", [12, 20, 33])
    def test_too_low(self, tmp_path, monkeypatch, at, block):
        self.altered(tmp_path, monkeypatch, at, 2, block)
        with open_journal(tmp_path) as journal:
            assert seqs(forward(journal)) == [n for n in range(41) if n != at]
            for n in range(41):
                found = journal.find(n)
                assert (found is not None and found.status == "ok") == (n != at)

    def test_out_of_order_is_reported_with_its_place(self, tmp_path, monkeypatch):
        lines = self.altered(tmp_path, monkeypatch, 5, 9000, 256 * 1024)
        start = sum(len(line) + 1 for line in lines[:5])
        assert damage_in(tmp_path) == [("out of order", start, len(lines[5]))]

    def test_a_repeated_line_counts_once(self, tmp_path):
        lines = texts(4)
        write(tmp_path, [*lines[:3], lines[2], *lines[3:]])
        assert [item[0] for item in read(tmp_path)] == [0, 1, 2, "out of order", 3, 4]

    def test_swapped_lines(self, tmp_path):
        lines = texts(4)
        write(tmp_path, [lines[0], lines[2], lines[1], lines[3], lines[4]])
        assert seqs(_entries(tmp_path)) == [0, 2, 3, 4]

    def test_numbers_of_unverified_lines_among_themselves(self):
        def entry(seq, status):
            return Entry(seq, AT, "meta", Meta({}), status=status, offset=seq)

        records = [entry(1, "ok"), entry(5, "edited"), entry(3, "edited"), entry(6, "ok")]
        assert [r.kind if isinstance(r, Damage) else r.seq for r in in_order(records)] == [
            1,
            5,
            "out of order",
            6,
        ]
        gone = Damage(1, 0, 5, "unreadable")
        assert in_order([gone, entry(1, "ok")]) == [gone, entry(1, "ok")]


def test_a_journal_without_any_sums_is_still_read(tmp_path, monkeypatch):
    """Every line written anew by another program: nothing verifies, everything is there."""
    monkeypatch.setattr(segment, "_BLOCK_BYTES", 500)
    lines = [b'{"seq":%d,"type":"message","role":"user","content":[]}' % n for n in range(1, 120)]
    write(tmp_path, lines)
    with open_journal(tmp_path) as journal:
        assert seqs(forward(journal)) == seqs(backward(journal)) == list(range(1, 120))
        assert all(journal.find(n) is not None for n in range(1, 120))


@pytest.mark.parametrize(
    "wrong", [b"\0", b"\xff", b"\n", None], ids=["nul", "ff", "newline", "flip"]
)
def test_one_bad_byte_anywhere_costs_at_most_its_line(tmp_path, wrong):
    lines = texts(4, 20)
    path = write(tmp_path, lines)
    good = path.read_bytes()
    starts = [entry.offset for entry in _entries(tmp_path)]
    for place in range(0, len(good), 3):
        bad = bytearray(good)
        bad[place : place + 1] = bytes([good[place] ^ 0x20]) if wrong is None else wrong
        path.write_bytes(bad)
        hit = max(n for n, start in enumerate(starts) if start <= place)
        is_newline = good[place] == 10
        lost = {hit, hit + 1} if is_newline else {hit}
        with open_journal(tmp_path) as journal:
            found = forward(journal)
            assert {n for n in range(5) if n not in lost} <= set(seqs(found))
            intact = [e for e in found if e.status == "ok"]
            assert all(e.line == lines[e.seq] for e in intact)


def test_deep_and_strange_lines_in_the_middle(tmp_path):
    chain = Chain()
    lines = chain.lines([HEADER, user("\u2028 \u2029 \x85 \x1c"), Custom(name="e", data="\0")])
    deep = seal(
        3, AT, "event", b'{"name":"e","data":%s}' % (b"[" * 9000 + b"]" * 9000), chain.previous
    )
    last = Chain(deep[-10:-2], 4).line(user("\ud800"))
    write(tmp_path, [*lines, deep, last])
    assert read(tmp_path) == [(n, "ok") for n in range(5)]
    entries = _entries(tmp_path)
    assert isinstance(entries[1].body, Message)
    assert entries[1].body.text == "\u2028 \u2029 \x85 \x1c"
    assert entries[3].line == deep
