"""The end of a journal after a crash: nothing valid is lost, nothing torn is kept, all is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.files import Files
from holdfast.journal.damage import Damage
from holdfast.model.entry import Entry
from holdfast.model.message import user
from holdfast.store.local.layout import DAMAGED_NAME, segment_name
from holdfast.store.local.reader import Journal
from holdfast.store.local.repair import (
    SetAside,
    Tail,
    inspect_tail,
    next_free_seq,
    quarantine_tail,
    without_torn_end,
)
from tests.disk import FakeUnsyncedFiles
from tests.journal.journal_lines import HEADER, Chain, continuation_header, texts, write
from tests.store.local.test_file_log import forward, open_journal, seqs


def look(folder: Path) -> Tail:
    with open_journal(folder) as journal:
        return inspect_tail(journal)


def repair(folder: Path) -> tuple[Tail, SetAside | None]:
    """Do what an opener with the lock does."""
    with open_journal(folder) as journal:
        tail = inspect_tail(journal)
        files = FakeUnsyncedFiles()
        done = quarantine_tail(files, folder, journal.last, tail) if tail.torn_bytes else None
        return tail, done


def go_on(folder: Path, tail: Tail, text: str = "after") -> None:
    """Append as a writer does that was told ``tail``."""
    line = Chain(tail.chain, max(tail.next_seq, next_free_seq(Files(), folder))).line(user(text))
    with (folder / segment_name(tail.segment)).open("ab") as file:
        assert file.tell() == tail.end
        file.write((b"\n" if tail.newline_missing else b"") + line + b"\n")


def check_whole(folder: Path) -> list[Entry]:
    """Read everything; there must be no damage and no doubt."""
    with open_journal(folder) as journal:
        records = list(journal.records())
    assert not [record for record in records if isinstance(record, Damage)]
    entries = [record for record in records if isinstance(record, Entry)]
    assert {entry.status for entry in entries} == {"ok"}
    return entries


def test_a_whole_journal_has_nothing_torn(tmp_path):
    lines = texts(3)
    path = write(tmp_path, lines)
    tail = look(tmp_path)
    assert tail == Tail(
        segment=1,
        end=path.stat().st_size,
        size=path.stat().st_size,
        last_seq=3,
        next_seq=4,
        chain=lines[3][-10:-2],
        newline_missing=False,
        cut_batch=False,
    )
    assert tail.torn_bytes == 0


def test_cut_at_every_byte_of_the_last_three_lines(tmp_path):
    lines = texts(5, 30)
    whole = b"".join(line + b"\n" for line in lines)
    ends = [sum(len(line) + 1 for line in lines[:count]) for count in range(len(lines) + 1)]
    path = tmp_path / "journal.jsonl"
    for cut in range(ends[-4], len(whole) + 1):
        path.write_bytes(whole[:cut])
        # A line counts from its last brace on; the newline may be missing.
        kept = sum(1 for end in ends[1:] if cut >= end - 1)
        torn = cut - min(cut, ends[kept])
        tail, done = repair(tmp_path)
        assert (tail.last_seq, tail.torn_bytes) == (kept - 1, torn)
        assert tail.newline_missing == (cut == ends[kept] - 1)
        assert tail.next_seq == kept + (torn > 0)
        if torn:
            assert done is not None
            assert Path(done.path).read_bytes() == whole[tail.end : cut]
            assert (done.offset, done.size_bytes, done.reason) == (tail.end, torn, "torn record")
        else:
            assert done is None
        assert path.read_bytes() == whole[: tail.end]
        assert look(tmp_path).torn_bytes == 0
        go_on(tmp_path, tail)
        entries = check_whole(tmp_path)
        assert [entry.line for entry in entries[:-1]] == lines[:kept]
        assert entries[-1].seq >= kept + (torn > 0)
        for saved in (tmp_path / DAMAGED_NAME).glob("*"):
            saved.unlink()


@pytest.mark.parametrize("count", [1, 17, 4096, 300_000])
@pytest.mark.parametrize("newline", [b"", b"\n"])
def test_a_run_of_nuls_at_the_end(tmp_path, count, newline):
    lines = texts(3)
    path = write(tmp_path, lines)
    good = path.read_bytes()
    path.write_bytes(good + b"\0" * count + newline)
    tail, done = repair(tmp_path)
    assert done is not None
    assert done.size_bytes == count + len(newline)
    assert path.read_bytes() == good
    go_on(tmp_path, tail)
    assert len(check_whole(tmp_path)) == 5


def test_nuls_behind_a_record_whose_newline_never_came(tmp_path):
    """What goes on there must not be glued to the record."""
    lines = texts(3)
    path = write(tmp_path, lines)
    good = path.read_bytes()[:-1]
    path.write_bytes(good + b"\0" * 512)
    tail, done = repair(tmp_path)
    assert done is not None
    assert (tail.last_seq, tail.newline_missing, tail.end) == (3, True, len(good))
    assert path.read_bytes() == good
    go_on(tmp_path, tail)
    check_whole(tmp_path)
    assert path.read_bytes().startswith(good + b"\n{")


def test_a_torn_record_glued_to_a_whole_one(tmp_path):
    lines = texts(3)
    path = write(tmp_path, lines)
    good = path.read_bytes()[:-1]
    path.write_bytes(good + b'{"seq":4,"at":"20')
    tail, _ = repair(tmp_path)
    assert path.read_bytes() == good
    go_on(tmp_path, tail)
    assert check_whole(tmp_path)[-1].seq == 5


def test_nuls_where_whole_records_follow_are_damage_in_the_middle(tmp_path):
    lines = texts(4)
    path = write(tmp_path, [*lines[:2], b"\0" * 200, *lines[3:]])
    before = path.read_bytes()
    tail, done = repair(tmp_path)
    assert done is None
    assert (tail.last_seq, tail.torn_bytes) == (4, 0)
    assert path.read_bytes() == before


@pytest.mark.parametrize("present", [1, 2, 3])
@pytest.mark.parametrize("torn", [b"", b'{"seq":6,', b"\0" * 50])
def test_a_torn_batch_goes_as_one(tmp_path, present, torn):
    chain = Chain()
    single = chain.lines([HEADER, user("1"), user("2")])
    batch = chain.batch([user(f"batch {n}") for n in range(4)])
    path = write(tmp_path, [*single, *batch[:present]])
    end = sum(len(line) + 1 for line in single)
    path.write_bytes(path.read_bytes() + torn)
    tail, done = repair(tmp_path)
    assert (tail.end, tail.last_seq, tail.cut_batch) == (end, 2, True)
    assert tail.next_seq == 7  # the whole batch had numbers
    assert done is not None
    assert done.reason == "incomplete batch"
    assert path.stat().st_size == end
    go_on(tmp_path, tail)
    assert seqs(check_whole(tmp_path)) == [0, 1, 2, 7]


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_batch_with_a_hole_was_never_acknowledged(tmp_path, lost):
    """After a power cut any part of what was not synced may be missing."""
    chain = Chain()
    single = chain.lines([HEADER, user("1")])
    batch = chain.batch([user(f"batch {n}") for n in range(4)])
    batch[lost] = b"\0" * len(batch[lost])
    write(tmp_path, [*single, *batch])
    tail = look(tmp_path)
    assert (tail.last_seq, tail.cut_batch, tail.next_seq) == (1, True, 6)


def test_a_whole_batch_stays(tmp_path):
    chain = Chain()
    lines = [*chain.lines([HEADER]), *chain.batch([user("a"), user("b"), user("c")])]
    write(tmp_path, lines)
    tail = look(tmp_path)
    assert (tail.last_seq, tail.torn_bytes, tail.cut_batch) == (3, 0, False)


def test_a_batch_larger_than_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.store.local.segment._BLOCK_BYTES", 500)
    chain = Chain()
    header = chain.lines([HEADER, user("1")])
    batch = chain.batch([user("x" * 200) for _ in range(20)])
    write(tmp_path, [*header, *batch])
    assert look(tmp_path).torn_bytes == 0
    write(tmp_path, [*header, *batch[:-1]])
    tail = look(tmp_path)
    assert (tail.last_seq, tail.next_seq, tail.cut_batch) == (1, 22, True)


def test_a_batch_that_is_all_there_is_of_a_file(tmp_path):
    """The header is not part of it, and stays."""
    chain = Chain()
    header = chain.line(HEADER)
    batch = chain.batch([user("a"), user("b")])
    path = write(tmp_path, [header, batch[0]])
    tail, _ = repair(tmp_path)
    assert (tail.last_seq, tail.end, tail.next_seq) == (0, len(header) + 1, 3)
    assert path.read_bytes() == header + b"\n"


def test_a_batch_without_anything_before_it_is_kept_where_nothing_can_be_told(tmp_path):
    path = write(tmp_path, [Chain(b"", 5).line(user("a"), batch=(0, 3))])
    tail = look(tmp_path)
    assert (tail.end, tail.torn_bytes, tail.last_seq) == (path.stat().st_size, 0, 5)


@pytest.mark.parametrize("count", [10**9, 10**14])
def test_an_absurd_batch_size_costs_nothing(tmp_path, count):
    line = b'{"seq":2,"at":"x","batch":[0,%d],"type":"turn","state":"started"}' % count
    write(tmp_path, [*texts(1), line])
    tail = look(tmp_path)
    assert (tail.last_seq, tail.cut_batch) == (1, True)


def test_numbers_of_what_was_cut_are_not_used_again(tmp_path):
    lines = texts(4)
    path = write(tmp_path, lines)
    path.write_bytes(path.read_bytes()[:-30])
    for _ in range(5):
        tail, _ = repair(tmp_path)
        data = path.read_bytes()
        path.write_bytes(data + Chain(tail.chain, max(tail.next_seq, 0)).line(user("x"))[:-5])
    used = next_free_seq(Files(), tmp_path)
    assert used >= 5
    tail, _ = repair(tmp_path)
    go_on(tmp_path, tail)
    assert check_whole(tmp_path)[-1].seq >= used


def test_numbers_seen_in_torn_lines_are_skipped(tmp_path):
    path = write(tmp_path, texts(2))
    path.write_bytes(path.read_bytes() + b'{"seq":40,"at":"\n\0\0{"seq":41,"at":"\n{"seq":4')
    assert look(tmp_path).next_seq == 42


def test_nothing_set_aside_means_every_number_is_free(tmp_path):
    assert next_free_seq(Files(), tmp_path) == 0
    (tmp_path / DAMAGED_NAME).mkdir()
    (tmp_path / DAMAGED_NAME / "notes.txt").write_text("mine")
    assert next_free_seq(Files(), tmp_path) == 0


def test_a_second_tear_at_the_same_place_keeps_both(tmp_path):
    path = write(tmp_path, texts(2))
    good = path.read_bytes()
    for torn in (b'{"seq":3,"a', b'{"seq":3,"b', b'{"seq":3,"a'):
        path.write_bytes(good + torn)
        repair(tmp_path)
    saved = sorted(file.read_bytes() for file in (tmp_path / DAMAGED_NAME).iterdir())
    assert saved == [b'{"seq":3,"a', b'{"seq":3,"b']


def test_what_is_torn_is_saved_and_synced_before_it_is_cut(tmp_path, files):
    path = write(tmp_path, texts(2))
    path.write_bytes(path.read_bytes() + b"torn")
    with Journal(files, tmp_path) as journal:
        tail = inspect_tail(journal)
        done = quarantine_tail(files, tmp_path, journal.last, tail)
        assert journal.last.end == journal.last.size == tail.end
    cut = files.first("truncate")
    assert files.first("rename") < files.last("sync_folder") < cut < files.last("sync", "journal")
    assert files.first("sync_folder", tmp_path.name) < files.first("rename")
    assert Path(done.path).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / DAMAGED_NAME).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("method", ["make_folder", "write", "sync", "rename", "sync_folder"])
def test_nothing_is_cut_that_could_not_be_saved(tmp_path, files, method):
    path = write(tmp_path, texts(2))
    path.write_bytes(path.read_bytes() + b"torn")
    before = path.read_bytes()
    files.fail(method)
    with Journal(files, tmp_path) as journal, pytest.raises(OSError, match="Input/output"):
        quarantine_tail(files, tmp_path, journal.last, inspect_tail(journal))
    assert path.read_bytes() == before
    tail, done = repair(tmp_path)  # and the next attempt does it
    assert done is not None
    assert path.stat().st_size == tail.end


def test_a_file_without_even_a_header_keeps_every_byte(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"not a journal")
    assert look(tmp_path) == Tail(
        segment=1,
        end=13,
        size=13,
        last_seq=-1,
        next_seq=0,
        chain=b"",
        newline_missing=True,
        cut_batch=False,
    )


def test_a_header_alone(tmp_path):
    line = Chain().line(HEADER)
    write(tmp_path, [line])
    tail = look(tmp_path)
    assert (tail.last_seq, tail.next_seq, tail.chain) == (0, 1, line[-10:-2])


class TestContinuation:
    def make(self, folder, lines):
        chain = Chain()
        write(folder, chain.lines([HEADER, *(user(str(n)) for n in range(1, 8))]))
        real = Chain(chain.previous, 8)
        header = continuation_header(7, chain.previous)
        write(
            folder,
            [header, *real.lines([user(str(n)) for n in range(8, 8 + lines)])],
            segment_name(2),
        )
        return header, chain.previous

    def test_the_tail_is_that_of_the_last_file(self, tmp_path):
        self.make(tmp_path, 3)
        tail = look(tmp_path)
        assert (tail.segment, tail.last_seq, tail.next_seq) == (2, 10, 11)

    def test_a_header_alone_is_chained_to_what_it_continues(self, tmp_path):
        header, anchor = self.make(tmp_path, 0)
        tail = look(tmp_path)
        assert (tail.last_seq, tail.next_seq, tail.chain) == (7, 8, anchor)
        assert tail.end == len(header) + 1
        go_on(tmp_path, tail)
        assert seqs(check_whole(tmp_path)) == list(range(9))

    def test_a_torn_continuation(self, tmp_path):
        self.make(tmp_path, 2)
        path = tmp_path / segment_name(2)
        path.write_bytes(path.read_bytes()[:-20])
        tail, done = repair(tmp_path)
        assert done is not None
        assert "tail-2-" in done.path
        go_on(tmp_path, tail)
        assert seqs(check_whole(tmp_path)) == [*range(9), 10]

    @pytest.mark.parametrize("content", [b"", b"\0" * 100, b"no newline", b"garbage\n"])
    def test_one_of_which_nothing_can_be_read_does_not_start_numbers_again(self, tmp_path, content):
        self.make(tmp_path, 1)
        (tmp_path / segment_name(2)).write_bytes(content)
        tail, done = repair(tmp_path)
        assert done is None
        assert (tail.last_seq, tail.next_seq, tail.end) == (7, 8, len(content))
        go_on(tmp_path, tail)
        with open_journal(tmp_path) as journal:
            assert seqs(forward(journal)) == list(range(9))


class TestWithoutTheLock:
    """For a reader the same look means: not yet written."""

    def records(self, tmp_path, lines, rest=b""):
        path = write(tmp_path, lines)
        path.write_bytes(path.read_bytes() + rest)
        with open_journal(tmp_path) as journal:
            return list(journal.records())

    def test_what_is_torn_is_left_out(self, tmp_path):
        lines = texts(2)
        records = self.records(tmp_path, lines, b"\0\0\n{")
        assert len(records) == 5
        assert without_torn_end(records) == records[:3]

    def test_an_incomplete_batch_is_left_out(self, tmp_path):
        chain = Chain()
        lines = [*chain.lines([HEADER, user("1")]), *chain.batch([user("a"), user("b")])]
        records = self.records(tmp_path, lines[:3])
        assert without_torn_end(records) == records[:2]
        whole = self.records(tmp_path, lines)
        assert without_torn_end(whole) == whole

    def test_damage_in_the_middle_stays(self, tmp_path):
        lines = texts(3)
        records = self.records(tmp_path, [*lines[:2], b"#", lines[3]])
        assert without_torn_end(records) == records

    def test_nothing_is_nothing(self):
        assert without_torn_end([]) == []
        assert without_torn_end([Damage(1, 0, 5, "unreadable")]) == []
