"""Appending: what is acknowledged is on the disk, in order, exactly once."""

from __future__ import annotations

import errno
import threading

import msgspec
import pytest

from holdfast.errors import DiskFull, SessionExists, UsageError, WriteFailed
from holdfast.files import Files
from holdfast.journal.writer import MARK_EVERY_BYTES
from holdfast.model.entry import LARGEST_SEQ, Checkpoint, Head, Mark, Turn
from holdfast.store.local.lock import LOCK_NAME, AppendTarget, read_durable
from tests.journal.writer_on_files import Desk, draft


@pytest.fixture
def desk(tmp_path, files):
    desk = Desk(files, tmp_path / "session")
    yield desk
    files.heal()
    desk.writer.close()


def durable_size(desk) -> int | None:
    descriptor = Files().open_read(desk.folder / LOCK_NAME)
    try:
        note = read_durable(Files(), descriptor)
    finally:
        Files().close(descriptor)
    return note.size if note else None


def test_nothing_is_made_before_the_first_append(desk):
    assert not desk.folder.exists()
    assert desk.log.place is None
    desk.writer.flush()
    assert desk.writer.drain()
    assert not desk.folder.exists()


def test_the_first_append_makes_the_journal(desk):
    position = desk.append("a").position
    assert (position.seq, position.segment) == (1, 1)
    data = (desk.folder / "journal.jsonl").read_bytes()
    assert data[position.offset :].startswith(b'{"seq":1,')
    assert desk.texts() == ["a"]
    assert desk.files.count("write", "journal.jsonl") == 1  # header and entry in one


def test_positions_say_where_the_entries_are(desk):
    tickets = [desk.append(f"{n}" * n) for n in range(1, 6)]
    data = (desk.folder / "journal.jsonl").read_bytes()
    for ticket in tickets:
        entry = ticket.entries[-1]
        assert data[ticket.position.offset :].startswith(entry.line + b"\n")
    assert [entry.line for entry in desk.owner.published] == [e.line for e in desk.on_disk()]


def test_an_append_is_one_write_and_one_sync(desk):
    desk.append("a")
    desk.files.calls.clear()
    desk.append("b")
    assert desk.files.count("write") == desk.files.count("sync") == 1
    assert desk.files.first("write") < desk.files.first("sync")


def test_a_batch_is_one_write_and_numbered_as_one(desk):
    desk.append("a")
    desk.files.calls.clear()
    ticket = desk.append("b", "c", "d", id="mine")
    assert desk.files.count("write") == 1
    assert [entry.batch for entry in ticket.entries] == [(0, 3), (1, 3), (2, 3)]
    assert [entry.id for entry in ticket.entries] == [None, None, "mine"]
    assert ticket.position.seq == 4


def test_parents_follow_the_head(desk):
    desk.append("a")
    with desk.writer.mutex:
        ticket = desk.writer.enqueue(
            [draft(Turn(state="started")), draft(Head(to=1)), draft(Turn(state="failed"))]
        )
    ticket.wait()
    assert [entry.parent for entry in ticket.entries] == [1, -1, 1]
    assert desk.append("b").entries[0].parent == 4
    assert desk.on_disk()[1].parent is None


def test_what_was_submitted_waits_for_somebody(desk):
    tickets = [desk.submit(f"{n}") for n in range(5)]
    assert not any(ticket.done for ticket in tickets)
    assert len(desk.writer.unpublished) == 6  # the header is one
    assert desk.writer.drain()
    assert all(ticket.done for ticket in tickets)
    assert desk.texts() == ["0", "1", "2", "3", "4"]
    assert desk.writer.unpublished == []


def test_flush_writes_everything(desk):
    for n in range(5):
        desk.submit(f"{n}")
    desk.writer.flush()
    assert len(desk.texts()) == 5


def test_many_threads_each_entry_once_and_in_order(desk):
    acknowledged: list[tuple[int, str]] = []
    barrier = threading.Barrier(16)

    def work(name: int) -> None:
        barrier.wait()
        for n in range(12):
            ticket = desk.append(f"{name}-{n}") if n % 3 else desk.append(f"{name}-{n}", "pair")
            acknowledged.append((ticket.entries[0].seq, f"{name}-{n}"))

    desk.append("first")
    threads = [threading.Thread(target=work, args=(name,)) for name in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = desk.on_disk()
    texts = {e.seq: e.body.text for e in entries if e.type == "message"}
    assert all(texts[seq] == text for seq, text in acknowledged)
    assert sorted(texts.values()).count("pair") == 16 * 4
    assert len(entries) == 2 + 16 * 12 + 16 * 4
    assert [e.seq for e in entries] == list(range(len(entries)))
    assert [e.seq for e in desk.owner.published] == [e.seq for e in entries]
    for name in range(16):
        own = [text for text in texts.values() if text.startswith(f"{name}-")]
        assert own == [f"{name}-{n}" for n in range(12)]


def test_those_who_arrive_during_a_sync_share_the_next(desk, eventually):
    desk.append("first")
    gate = threading.Event()
    real_sync = Files().sync
    descriptor = desk.log.place.descriptor

    def slow() -> None:
        gate.wait()
        real_sync(descriptor)

    desk.files.on("sync", slow)
    threads = [threading.Thread(target=desk.append, args=(f"{n}",)) for n in range(16)]
    desk.files.calls.clear()
    for thread in threads:
        thread.start()
    eventually(lambda: len(desk.writer.unpublished) == 16)
    gate.set()
    for thread in threads:
        thread.join()
    assert sorted(desk.texts()[1:]) == sorted(f"{n}" for n in range(16))
    assert desk.files.count("sync") == 2
    assert desk.files.count("write") == 2


def test_nobody_is_told_before_the_sync(desk):
    desk.append("first")
    seen: list[tuple[int, bool]] = []
    descriptor = desk.log.place.descriptor
    ticket = desk.submit("second")

    def check() -> None:
        seen.append((len(desk.owner.published), ticket.done))
        Files().sync(descriptor)

    desk.files.on("sync", check)
    ticket.wait()
    assert seen == [(2, False)]
    assert len(desk.owner.published) == 3


def test_the_mutex_is_free_while_the_disk_is_busy(desk, eventually):
    """Also when it is ``flush`` that writes: others must be able to queue meanwhile."""
    desk.append("first")
    descriptor = desk.log.place.descriptor
    queued: list[bool] = []

    def busy() -> None:
        other = threading.Thread(target=lambda: queued.append(bool(desk.submit("meanwhile"))))
        other.start()
        other.join(30)
        assert not other.is_alive()
        Files().sync(descriptor)

    desk.files.on("sync", busy)
    desk.submit("second")
    desk.writer.flush()
    assert queued == [True]
    assert desk.texts() == ["first", "second", "meanwhile"]


def test_flush_waits_for_a_round_that_another_thread_writes(desk, eventually):
    desk.append("first")
    gate, inside = threading.Event(), threading.Event()
    descriptor = desk.log.place.descriptor

    def slow() -> None:
        inside.set()
        gate.wait()
        Files().sync(descriptor)

    desk.files.on("sync", slow)
    leader = threading.Thread(target=desk.append, args=("second",))
    leader.start()
    inside.wait()
    flushed: list[list[str]] = []

    def flush() -> None:
        desk.writer.flush()
        flushed.append(desk.texts())

    closer = threading.Thread(target=flush)
    closer.start()
    assert not flushed
    gate.set()
    closer.join()
    leader.join()
    assert flushed == [["first", "second"]]


def test_close_waits_for_the_leader(desk):
    desk.append("first")
    gate, inside = threading.Event(), threading.Event()
    descriptor = desk.log.place.descriptor

    def slow() -> None:
        inside.set()
        gate.wait()
        Files().sync(descriptor)

    desk.files.on("sync", slow)
    leader = threading.Thread(target=desk.append, args=("second",))
    leader.start()
    inside.wait()
    closer = threading.Thread(target=desk.writer.close)
    closer.start()
    gate.set()
    closer.join()
    leader.join()
    assert desk.log.place is None
    assert desk.texts() == ["first", "second"]
    desk.writer.close()


def test_the_durable_size_is_noted(desk):
    desk.append("a")
    assert durable_size(desk) == (desk.folder / "journal.jsonl").stat().st_size
    for n in range(5):
        desk.append(f"{n}")
    noted = durable_size(desk)
    size = (desk.folder / "journal.jsonl").stat().st_size
    assert noted is not None
    assert noted <= size
    desk.writer.close()
    assert durable_size(desk) == size


def test_a_lock_file_that_cannot_be_written_stops_nobody(desk):
    desk.files.fail("write_at", errno.ENOSPC, times=None)
    desk.append("a")
    desk.append("b")
    assert desk.texts() == ["a", "b"]


def test_payloads_are_stored_before_the_line(desk):
    desk.append("a")
    order = []
    desk.log._store = lambda place, payloads: order.append((list(payloads), desk.texts()))
    ticket = desk.submit("b", payloads=[b"large"])
    ticket.wait()
    assert order == [([b"large"], ["a"])]


def test_payloads_of_the_first_round_go_with_the_birth(desk):
    desk.submit("a", payloads=[b"large"]).wait()
    assert desk.log.payloads == [b"large"]


def test_a_payload_that_cannot_be_stored(desk):
    desk.append("a")

    def failing(place, payloads):
        raise OSError(errno.EIO, "broken")

    desk.log._store = failing
    ticket = desk.submit("b", payloads=[b"large"])
    with pytest.raises(WriteFailed) as caught:
        ticket.wait()
    assert caught.value.last_durable == 1
    assert desk.texts() == ["a"]


def test_a_payload_without_room_waits(desk):
    desk.append("a")
    real = desk.log._store

    def failing(place, payloads):
        raise OSError(errno.ENOSPC, "full")

    desk.log._store = failing
    ticket = desk.submit("b", payloads=[b"large"])
    with pytest.raises(DiskFull) as caught:
        ticket.wait()
    assert caught.value.pending == (2,)
    desk.log._store = real
    assert desk.writer.drain()
    assert desk.log.payloads == [b"large"]
    assert desk.texts() == ["a", "b"]


def test_a_place_that_is_taken_is_told_and_nothing_is_appended(desk):
    def taken(data, payloads):
        raise SessionExists("it exists")

    desk.log._create = taken
    first, second = desk.submit("a"), desk.submit("b")
    with pytest.raises(SessionExists):
        first.wait()
    with pytest.raises(SessionExists):
        second.wait()
    with pytest.raises(SessionExists):
        desk.submit("c")
    assert isinstance(desk.writer.trouble(), SessionExists)


def test_a_session_that_cannot_be_made_for_lack_of_room_is_made_later(desk):
    with desk.files.full_disk():
        ticket = desk.submit("a")
        with pytest.raises(DiskFull) as caught:
            ticket.wait()
        assert caught.value.pending == (0, 1)
        assert str(desk.log.location) in str(caught.value)
        assert isinstance(desk.writer.trouble(), DiskFull)
    assert desk.writer.drain()
    assert desk.writer.trouble() is None
    assert ticket.wait().seq == 1
    assert desk.texts() == ["a"]


def test_a_session_that_cannot_be_made_at_all(desk):
    desk.files.fail("sync")
    with pytest.raises(WriteFailed) as caught:
        desk.append("a")
    assert caught.value.last_durable is None


class TestMarks:
    def test_a_mark_follows_a_checkpoint(self, desk):
        desk.append("a")
        with desk.writer.mutex:
            ticket = desk.writer.enqueue([draft(Checkpoint(summary=[], keep_from=0))])
        after = desk.submit("b")
        ticket.wait()
        after.wait()
        assert [e.type for e in desk.on_disk()[2:]] == ["checkpoint", "mark", "message"]
        assert desk.on_disk()[3].body == Mark(state={"seq": 2})

    def test_a_mark_comes_about_every_half_megabyte(self, desk):
        for _ in range(30):
            desk.append("x" * 60_000)
        marks = [e for e in desk.on_disk() if e.type == "mark"]
        assert len(marks) == 30 * 60_000 // MARK_EVERY_BYTES
        assert desk.writer.cursor.since_mark_bytes < MARK_EVERY_BYTES

    def test_a_burst_is_divided_where_marks_are_due(self, desk):
        tickets = [desk.submit("x" * 60_000) for _ in range(30)]
        desk.writer.flush()
        assert all(ticket.done for ticket in tickets)
        assert len([e for e in desk.on_disk() if e.type == "mark"]) == 3

    def test_a_mark_is_left_out_where_what_follows_has_its_number_already(self, desk):
        desk.append("a")
        with desk.files.full_disk():
            with desk.writer.mutex:
                ticket = desk.writer.enqueue([draft(Checkpoint(summary=[], keep_from=0))])
            behind = desk.submit("b")
            with pytest.raises(DiskFull):
                behind.wait()
            with pytest.raises(DiskFull) as caught:
                ticket.wait()
            assert caught.value.pending == (2, 3)
        desk.writer.flush()
        assert behind.done
        assert [e.type for e in desk.on_disk()[2:]] == ["checkpoint", "message"]
        assert [e.seq for e in desk.on_disk()] == [0, 1, 2, 3]

    def test_a_mark_that_found_no_room_is_made_anew(self, desk):
        desk.append("a")
        with desk.files.full_disk():
            with desk.writer.mutex:
                ticket = desk.writer.enqueue([draft(Checkpoint(summary=[], keep_from=0))])
            for _ in range(3):
                with pytest.raises(DiskFull):
                    ticket.wait()
        desk.writer.flush()
        desk.append("b")
        assert [e.type for e in desk.on_disk()[2:]] == ["checkpoint", "mark", "message"]
        assert [e.seq for e in desk.on_disk()] == [0, 1, 2, 3, 4]


def test_parents_are_right_after_an_attempt_that_found_no_room(desk):
    desk.append("a")
    desk.append("b")
    with desk.files.full_disk():
        with desk.writer.mutex:
            ticket = desk.writer.enqueue([draft(Head(to=1)), draft(Turn(state="started"))])
            rewound = desk.writer.enqueue([draft(Head(to=2))])
        with pytest.raises(DiskFull):
            ticket.wait()
    after = desk.append("c")
    assert [entry.parent for entry in ticket.entries] == [-1, 1]
    assert rewound.done
    assert after.entries[0].parent == 2
    assert desk.on_disk()[-1].parent == 2


def test_going_on_in_a_file_that_was_rewritten(desk):
    desk.append("a")
    desk.append("b")
    old = desk.log.place
    lines = (desk.folder / "journal.jsonl").read_bytes()
    (desk.folder / "new").write_bytes(lines)
    (desk.folder / "new").rename(old.path)
    descriptor = desk.files.open_append(old.path)
    inode = desk.files.status(descriptor).st_ino
    with desk.writer.mutex:
        place = AppendTarget(old.folder, old.lock, old.path, descriptor, inode, 3, len(lines))
        desk.log.move(place, desk.writer.cursor)
    assert durable_size(desk) == len(lines)
    desk.files.calls.clear()
    assert desk.append("c").position.segment == 3
    assert desk.files.count("reserve") == 1
    assert desk.texts() == ["a", "b", "c"]


def test_going_on_where_another_writer_stopped(desk, files):
    desk.append("a", "b")
    desk.writer.close()
    again = Desk.opened(files, desk.folder)
    ticket = again.append("c")
    assert ticket.position.seq == 3
    again.writer.close()
    assert again.texts() == ["a", "b", "c"]


def test_a_missing_newline_is_written_first(desk, files):
    desk.append("a")
    desk.writer.close()
    path = desk.folder / "journal.jsonl"
    path.write_bytes(path.read_bytes()[:-1])
    again = Desk.opened(files, desk.folder)
    position = again.append("b").position
    assert path.read_bytes()[position.offset :].startswith(b'{"seq":2,')
    again.append("c")
    again.writer.close()
    assert again.texts() == ["a", "b", "c"]


def test_a_forked_child_cannot_write(desk):
    desk.append("a")
    desk.log.place.lock._leave_to_parent()  # what happens in the child
    with pytest.raises(UsageError, match="fork"):
        desk.submit("b")


@pytest.fixture
def last_number(tmp_path, files):
    """A desk that has one number left to give."""
    desk = Desk(files, tmp_path / "session")
    desk.append("a")
    place = desk.log.place
    desk.log._durable = place, msgspec.structs.replace(desk.writer.cursor, next_seq=LARGEST_SEQ)
    yield desk
    desk.writer.close()


def test_a_number_that_nobody_could_read_back_is_never_given(last_number):
    desk = last_number
    assert desk.append("b").wait().seq == LARGEST_SEQ
    before = (desk.folder / "journal.jsonl").read_bytes()
    with pytest.raises(WriteFailed, match="used all entry numbers"):
        desk.append("c")
    assert (desk.folder / "journal.jsonl").read_bytes() == before
    assert desk.texts() == ["a", "b"]


def test_nor_to_a_mark(last_number):
    before = (last_number.folder / "journal.jsonl").read_bytes()
    with pytest.raises(WriteFailed, match="used all entry numbers"):
        last_number.append("x" * MARK_EVERY_BYTES)  # behind which a mark would stand
    assert (last_number.folder / "journal.jsonl").read_bytes() == before


def test_a_mistake_of_ours_stops_the_writer_and_is_told(tmp_path, files, monkeypatch):
    """Else everybody would wait for ever, and nothing would say why."""
    desk = Desk(files, tmp_path / "session")
    desk.append("a")

    def mistaken(_):
        raise TypeError("no such thing")

    monkeypatch.setattr(desk.owner, "mark_after", mistaken)
    ticket, other = desk.submit("x" * MARK_EVERY_BYTES), desk.submit("y")
    with pytest.raises(WriteFailed, match="no such thing") as caught:
        ticket.wait()
    assert isinstance(caught.value.__cause__, TypeError)
    with pytest.raises(WriteFailed):
        other.wait()
    assert isinstance(desk.writer.trouble(), WriteFailed)
    assert desk.texts() == ["a"]
    desk.writer.close()


def test_what_passes_is_tried_again(tmp_path, files, monkeypatch):
    desk = Desk(files, tmp_path / "session")
    desk.append("a")

    def deep(_):
        monkeypatch.undo()
        raise RecursionError("too deep, here")

    monkeypatch.setattr(desk.owner, "mark_after", deep)
    ticket = desk.submit("x" * MARK_EVERY_BYTES)
    with pytest.raises(RecursionError):
        ticket.wait()
    assert ticket.wait().seq == 2
    desk.writer.close()
