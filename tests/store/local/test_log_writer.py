"""What an append does when the disk is full, or when a sync fails."""

from __future__ import annotations

import errno
import os
import threading

import pytest

from holdfast.errors import DiskFull, WriteFailed
from holdfast.files import Files
from holdfast.model.entry import Header
from holdfast.store.local.layout import segment_name
from holdfast.store.local.reader import Journal
from tests.journal.writer_on_files import Desk

NO_ROOM = [errno.ENOSPC, errno.EDQUOT, errno.EFBIG]


@pytest.fixture
def desk(tmp_path, files):
    desk = Desk(files, tmp_path / "session")
    desk.append("a")
    desk.append("b")
    files.calls.clear()
    yield desk
    files.heal()
    desk.writer.close()


class TestNoRoom:
    @pytest.mark.parametrize("kept", [1, 20, 100])
    def test_a_short_write_is_undone(self, desk, kept):
        before = (desk.folder / "journal.jsonl").read_bytes()
        desk.files.tear(kept)
        ticket = desk.submit("c")
        with pytest.raises(DiskFull) as caught:
            ticket.wait()
        assert caught.value.pending == (3,)
        assert (desk.folder / "journal.jsonl").read_bytes() == before
        assert desk.files.count("sync") == 0
        assert ticket.wait().seq == 3
        assert desk.texts() == ["a", "b", "c"]

    @pytest.mark.parametrize("code", NO_ROOM)
    def test_no_room_at_all(self, desk, code):
        desk.files.fail("write", code)
        ticket = desk.submit("c")
        with pytest.raises(DiskFull):
            ticket.wait()
        assert not ticket.done
        assert desk.texts() == ["a", "b"]
        assert ticket.wait().seq == 3
        assert desk.texts() == ["a", "b", "c"]

    def test_what_waits_completes_by_itself_and_only_once(self, desk):
        with desk.files.full_disk(50):
            tickets = [desk.submit(f"{n}") for n in range(3)]
            for ticket in tickets:
                with pytest.raises(DiskFull):
                    ticket.wait()
            assert not desk.writer.drain()
            late = desk.submit("late")
            with pytest.raises(DiskFull) as caught:
                late.wait()
            assert caught.value.pending == (3, 4, 5, 6)
            assert isinstance(desk.writer.trouble(), DiskFull)
        assert desk.writer.drain()
        assert desk.writer.trouble() is None
        assert [ticket.wait().seq for ticket in (*tickets, late)] == [3, 4, 5, 6]
        assert desk.writer.drain()
        assert desk.texts() == ["a", "b", "0", "1", "2", "late"]

    def test_numbers_are_kept_across_attempts(self, desk):
        with desk.files.full_disk():
            ticket = desk.submit("c")
            for _ in range(5):
                with pytest.raises(DiskFull):
                    ticket.wait()
            lines = [entry.line for entry in ticket.entries]
        ticket.wait()
        assert [entry.line for entry in ticket.entries] == lines
        assert desk.on_disk()[-1].line == lines[-1]

    def test_flush_says_so(self, desk):
        desk.submit("c")
        with desk.files.full_disk(), pytest.raises(DiskFull):
            desk.writer.flush()
        desk.writer.flush()
        assert desk.texts() == ["a", "b", "c"]

    def test_a_short_write_that_cannot_be_undone_goes_to_the_next_file(self, desk):
        desk.files.tear(30)
        desk.files.fail("truncate")
        desk.append("c")
        assert desk.log.place.segment == 2
        assert desk.texts() == ["a", "b", "c"]
        with Journal(Files(), desk.folder) as journal:
            assert len(list(journal.records())) == 4

    def test_many_threads_on_a_full_disk(self, desk, eventually):
        refused: list[DiskFull] = []
        barrier = threading.Barrier(8)

        def work(name: int) -> None:
            barrier.wait()
            try:
                desk.append(f"{name}")
            except DiskFull as error:
                refused.append(error)

        with desk.files.full_disk():
            threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert len(refused) == 8
        desk.writer.flush()
        assert sorted(desk.texts()[2:]) == [f"{n}" for n in range(8)]


class FakeOneCall(Files):
    """Does a part of the next append, then says what it was told to say, or how much it did."""

    def __init__(self) -> None:
        self.part: int | None = None
        self.error: OSError | None = None
        self.blind = False

    def append(self, descriptor: int, data: bytes, end: int) -> int:
        if self.part is None:
            return super().append(descriptor, data, end)
        part, self.part = self.part, None
        done = os.write(descriptor, data[:part]) if part else 0
        if self.error is not None:
            self.blind = self.error.errno == errno.ENOMEM
            raise self.error
        return done

    def status(self, descriptor: int) -> os.stat_result:
        if self.blind:
            self.blind = False
            raise OSError(errno.EIO, "cannot look")
        return super().status(descriptor)


class TestOneCall:
    """Writing and syncing are one call: what it left behind tells which of them failed."""

    @pytest.fixture
    def desk(self, tmp_path):
        desk = Desk(FakeOneCall(), tmp_path / "session")
        desk.append("a")
        desk.append("b")
        yield desk
        desk.writer.close()

    @pytest.mark.parametrize("code", [*NO_ROOM, errno.EMFILE])
    def test_nothing_was_written(self, desk, code):
        desk.files.part, desk.files.error = 0, OSError(code, "no")
        ticket = desk.submit("c")
        with pytest.raises(DiskFull):
            ticket.wait()
        assert ticket.wait().segment == 1
        assert desk.texts() == ["a", "b", "c"]

    @pytest.mark.parametrize("code", [*NO_ROOM, errno.EIO, errno.EROFS])
    def test_all_was_written_and_none_of_it_synced(self, desk, code):
        """Its pages may be gone, whatever the file seems to hold."""
        desk.files.part, desk.files.error = 10_000, OSError(code, "no")
        assert desk.append("c").position.segment == 2
        assert desk.texts() == ["a", "b", "c"]

    def test_a_part_was_written(self, desk):
        before = (desk.folder / "journal.jsonl").read_bytes()
        desk.files.part = 20
        ticket = desk.submit("c")
        with pytest.raises(DiskFull):
            ticket.wait()
        assert (desk.folder / "journal.jsonl").read_bytes() == before
        assert ticket.wait().segment == 1
        assert desk.texts() == ["a", "b", "c"]

    def test_nobody_can_tell(self, desk):
        desk.files.part, desk.files.error = 0, OSError(errno.ENOMEM, "no")
        assert desk.append("c").position.segment == 2
        assert desk.texts() == ["a", "b", "c"]

    def test_without_room_set_aside_a_short_write_is_not_synced(self, tmp_path):
        """A part that stayed for as long as a sync takes could be shown by a follower."""

        class FakeScarce(FakeOneCall):
            in_one = True
            synced = 0

            def reserve(self, *_: int) -> bool:
                return False

            def write(self, descriptor: int, data: bytes) -> int:
                part, self.part = self.part, None
                return super().write(descriptor, data if part is None else data[:part])

            def sync(self, descriptor: int) -> None:
                self.synced += 1
                super().sync(descriptor)

        files = FakeScarce()
        desk = Desk(files, tmp_path / "session")
        desk.append("a")
        files.part, files.synced = 20, 0
        ticket = desk.submit("b")
        with pytest.raises(DiskFull):
            ticket.wait()
        assert files.synced == 0
        ticket.wait()
        assert files.synced == 1
        assert desk.texts() == ["a", "b"]
        desk.writer.close()


class TestReserve:
    def test_room_is_set_aside_and_given_back(self, tmp_path):
        desk = Desk(Files(), tmp_path / "session")
        desk.append("a")
        desk.append("b")
        path = desk.folder / "journal.jsonl"
        status = path.stat()
        assert status.st_blocks * 512 >= 1024 * 1024
        assert status.st_size < 1000
        desk.writer.close()
        assert path.stat().st_blocks * 512 < 1024 * 1024
        assert path.stat().st_size == status.st_size

    def test_it_is_asked_for_ahead_and_not_every_time(self, desk):
        for _ in range(20):
            desk.append("x" * 1000)
        assert desk.files.count("reserve") == 0  # the second append had done it
        for _ in range(40):
            desk.append("x" * 30_000)
        assert 1 <= desk.files.count("reserve") <= 3

    def test_where_it_could_not_be_had_it_is_asked_for_again(self, tmp_path, files):
        desk = Desk(files, tmp_path / "session")
        files.on("reserve", lambda: None)
        desk.append("a")
        desk.append("b")
        desk.append("c")
        assert files.count("reserve") == 2
        desk.writer.close()

    def test_after_a_cut_it_is_asked_for_again(self, desk):
        desk.files.tear(10)
        with pytest.raises(DiskFull):
            desk.append("c")
        desk.files.calls.clear()
        desk.writer.drain()
        assert desk.files.count("reserve") == 1

    def test_nothing_is_given_back_that_was_not_taken(self, tmp_path, files):
        files.fail("reserve", times=None)
        files.faults[0].act = lambda *_: False
        desk = Desk(files, tmp_path / "session")
        desk.append("a")
        desk.append("b")
        desk.writer.close()
        assert files.count("truncate") == 0

    def test_a_close_that_fails_is_no_loss(self, desk):
        desk.files.fail("truncate")
        desk.writer.close()
        assert desk.texts() == ["a", "b"]


class TestFailedSync:
    @pytest.fixture
    def old(self, desk):
        return desk.log.place.descriptor

    def test_writing_goes_on_in_the_next_file(self, desk):
        desk.files.fail("sync", name="journal.jsonl")
        ticket = desk.append("c")
        assert ticket.position.segment == 2
        data = (desk.folder / "journal.2.jsonl").read_bytes()
        assert data[ticket.position.offset :].startswith(ticket.entries[0].line + b"\n")
        assert desk.texts() == ["a", "b", "c"]
        desk.append("d")
        assert desk.log.place.segment == 2
        assert desk.texts() == ["a", "b", "c", "d"]

    def test_the_header_names_the_last_acknowledged_entry(self, desk):
        last = desk.on_disk()[-1]
        desk.files.fail("sync", name="journal.jsonl")
        desk.append("c")
        with Journal(Files(), desk.folder) as journal:
            header = journal.last.header()
        assert header is not None
        assert header.seq == last.seq
        assert isinstance(header.body, Header)
        assert header.body.continues is not None
        assert (header.body.continues.seq, header.body.continues.sum.encode()) == (2, last.sum)

    def test_the_old_descriptor_is_never_used_again(self, desk, old):
        desk.files.fail("sync", name="journal.jsonl")
        desk.append("c")
        place = desk.files.first("sync", "journal.jsonl")
        later = [call for call in desk.files.calls[place + 1 :] if call[1] == "journal.jsonl"]
        assert [method for method, _ in later] == ["touch", "close"]

    def test_acknowledged_only_when_the_new_file_and_its_name_are_durable(self, desk):
        desk.files.fail("sync", name="journal.jsonl")
        states = []
        ticket = desk.submit("c")
        folder = desk.folder

        def at_folder_sync() -> None:
            states.append((ticket.done, (folder / "journal.2.jsonl").exists()))
            Files().sync_folder(folder)

        desk.files.on("sync_folder", at_folder_sync)
        ticket.wait()
        assert states == [(False, True)]
        calls = desk.files.calls
        new_sync = next(n for n, call in enumerate(calls) if call[0] == "sync" and ".2." in call[1])
        assert new_sync < desk.files.first("rename") < desk.files.first("sync_folder")

    def test_ghosts_in_the_old_file_are_not_read(self, desk):
        desk.files.fail("sync", name="journal.jsonl")
        desk.submit("c")
        desk.append("d")
        assert b'"c"' in (desk.folder / "journal.jsonl").read_bytes()
        entries = desk.on_disk()
        assert [e.seq for e in entries] == [0, 1, 2, 3, 4]
        assert [e.segment for e in entries] == [1, 1, 1, 2, 2]

    def test_a_write_that_fails_otherwise_goes_the_same_way(self, desk):
        desk.files.fail("write", errno.EIO)
        desk.append("c")
        assert desk.log.place.segment == 2
        assert desk.texts() == ["a", "b", "c"]

    def test_several_times(self, desk):
        for n in range(4):
            desk.files.fail("sync", name=segment_name(n + 1))
            desk.append(f"{n}")
        assert desk.log.place.segment == 5
        assert desk.texts() == ["a", "b", "0", "1", "2", "3"]

    def test_no_room_for_the_new_file_then_room(self, desk):
        desk.files.fail("sync", name="journal.jsonl")
        desk.files.fail("open_append", errno.ENOSPC, name=".journal.2.jsonl", times=2)
        ticket = desk.submit("c")
        for _ in range(2):
            with pytest.raises(DiskFull) as caught:
                ticket.wait()
            assert caught.value.pending == (3,)
        assert not (desk.folder / "journal.2.jsonl").exists()
        assert ticket.wait().segment == 2
        assert desk.files.count("sync", "journal.jsonl") == 1
        assert desk.texts() == ["a", "b", "c"]

    def test_it_is_never_retried_in_the_old_file_even_if_there_is_room(self, desk):
        desk.files.fail("sync", name="journal.jsonl")
        desk.files.fail("open_append", errno.ENOSPC, name=".journal.2.jsonl")
        with pytest.raises(DiskFull):
            desk.append("c")
        assert desk.writer.drain()
        assert desk.files.count("write", "journal.jsonl") == 1
        assert desk.files.count("write", ".journal.2.jsonl") == 1

    @pytest.mark.parametrize("step", ["open_append", "write", "sync", "rename", "sync_folder"])
    def test_both_fail(self, desk, step):
        desk.files.fail("sync", name="journal.jsonl")
        name = desk.folder.name if step == "sync_folder" else ".2."
        desk.files.fail(step, name=name)
        first, second = desk.submit("c"), desk.submit("d", "e")
        with pytest.raises(WriteFailed) as caught:
            first.wait()
        assert caught.value.last_durable == 2
        with pytest.raises(WriteFailed):
            second.wait()
        with pytest.raises(WriteFailed):
            desk.submit("f")
        assert isinstance(desk.writer.trouble(), WriteFailed)
        assert desk.texts()[:2] == ["a", "b"]
        assert desk.texts()[2:] in ([], ["c", "d", "e"])
        desk.writer.close()

    def test_a_new_file_that_cannot_be_opened_again(self, desk):
        desk.files.fail("sync", name="journal.jsonl")
        desk.files.fail("open_append", errno.EIO, name="journal.2.jsonl", nth=2)
        with pytest.raises(WriteFailed):
            desk.append("c")

    def test_a_new_file_that_cannot_be_opened_for_now_is_made_again(self, desk):
        desk.files.fail("sync", name="journal.jsonl")
        desk.files.fail("open_append", errno.EMFILE, name="journal.2.jsonl", nth=2)
        with pytest.raises(DiskFull):
            desk.append("c")
        desk.append("d")
        assert desk.texts() == ["a", "b", "c", "d"]

    def test_a_descriptor_that_cannot_be_closed_and_a_file_that_cannot_be_touched(self, desk):
        desk.files.fail("sync", name="journal.jsonl")
        desk.files.fail("close", name="journal.jsonl", nth=2)
        desk.append("c")
        desk.files.fail("sync", name="journal.2.jsonl")
        desk.files.fail("touch")
        desk.append("d")
        assert desk.texts() == ["a", "b", "c", "d"]

    def test_going_on_after_a_continuation(self, desk, files):
        desk.files.fail("sync", name="journal.jsonl")
        desk.append("c")
        desk.writer.close()
        again = Desk.opened(files, desk.folder)
        assert again.append("d").position.segment == 2
        again.writer.close()
        assert again.texts() == ["a", "b", "c", "d"]

    def test_a_missing_newline_is_not_carried_into_the_new_file(self, desk, files):
        desk.writer.close()
        path = desk.folder / "journal.jsonl"
        path.write_bytes(path.read_bytes()[:-1])
        again = Desk.opened(files, desk.folder)
        files.fail("sync", name="journal.jsonl")
        again.append("c")
        again.append("d")
        again.writer.close()
        assert again.texts() == ["a", "b", "c", "d"]
        assert b"\n\n" not in (desk.folder / "journal.2.jsonl").read_bytes()
