"""Appending while somebody meddles with the file, or interrupts: nothing is lost or doubled."""

from __future__ import annotations

import os
import threading

import pytest

from holdfast.errors import WriteFailed
from holdfast.files import Files
from holdfast.model.message import user
from tests.journal.journal_lines import Chain
from tests.journal.writer_on_files import Desk


@pytest.fixture
def desk(tmp_path, files):
    desk = Desk(files, tmp_path / "session")
    desk.append("a")
    desk.append("b")
    files.calls.clear()
    yield desk
    files.heal()
    desk.writer.close()


class TestSomebodyMeddles:
    @pytest.fixture(autouse=True)
    def look_every_time(self, monkeypatch):
        monkeypatch.setattr("holdfast.store.local.log_writer._LOOK_EVERY_SECONDS", 0.0)

    def stopped(self, desk, word: str) -> None:
        waiting = desk.submit("c")
        with pytest.raises(WriteFailed, match=word) as caught:
            waiting.wait()
        assert caught.value.last_durable == 2
        assert caught.value.may_be_gone
        assert "export it now" in str(caught.value)
        with pytest.raises(WriteFailed):
            desk.append("d")
        assert desk.files.count("write") == 0

    def test_deleted(self, desk):
        (desk.folder / "journal.jsonl").unlink()
        self.stopped(desk, "deleted")

    def test_moved_away(self, desk):
        os.rename(desk.folder / "journal.jsonl", desk.folder / "elsewhere.jsonl")
        self.stopped(desk, "gone")

    def test_the_folder_is_gone(self, desk):
        os.rename(desk.folder, desk.folder.with_name("trash"))
        self.stopped(desk, "gone")

    def test_replaced_by_an_editor(self, desk):
        path = desk.folder / "journal.jsonl"
        (desk.folder / "keep").hardlink_to(path)
        (desk.folder / "new").write_bytes(path.read_bytes())
        os.rename(desk.folder / "new", path)
        self.stopped(desk, "replaced")

    def test_appended_to_by_somebody_else(self, desk):
        path = desk.folder / "journal.jsonl"
        line = Chain(b"", 9).line(user("from elsewhere")) + b"\n"
        with path.open("ab") as file:
            file.write(line)
        after = path.read_bytes()
        self.stopped(desk, "another process")
        desk.writer.close()
        assert path.read_bytes() == after  # what is not ours is not cut off either

    def test_cut_by_somebody_else(self, desk):
        path = desk.folder / "journal.jsonl"
        os.truncate(path, 10)
        self.stopped(desk, "another process")
        desk.writer.close()
        assert path.stat().st_size == 10

    def test_the_name_is_looked_at_about_once_a_second(self, desk, monkeypatch):
        monkeypatch.setattr("holdfast.store.local.log_writer._LOOK_EVERY_SECONDS", 1000.0)
        desk.append("c")
        desk.files.calls.clear()
        for _ in range(5):
            desk.append("x")
        assert desk.files.count("status_of") == 0
        assert desk.files.count("status") == 5


class TestInterrupts:
    """Ctrl+C can come between any two steps; nothing is lost and nothing is written twice."""

    @pytest.mark.parametrize("step", ["status", "reserve", "write", "sync"])
    @pytest.mark.parametrize("done", [False, True])
    def test_the_round_is_written_by_the_next_call(self, desk, step, done):
        place = desk.log.place

        def interrupt() -> None:
            if done and step == "write":
                os.write(place.descriptor, b'{"seq":3,"at":"2026')
            if done and step == "sync":
                Files().sync(place.descriptor)
            raise KeyboardInterrupt

        text = "x" * 900_000 if step == "reserve" else "c"
        desk.files.on(step, interrupt)
        ticket = desk.submit(text)
        with pytest.raises(KeyboardInterrupt):
            ticket.wait()
        assert not ticket.done
        desk.append("d")
        assert ticket.done
        assert desk.texts() == ["a", "b", text, "d"]
        assert desk.log.place.segment == 1

    def test_during_the_birth(self, tmp_path, files):
        desk = Desk(files, tmp_path / "other")

        def interrupt() -> None:
            raise KeyboardInterrupt

        files.on("make_folder", interrupt)
        ticket = desk.submit("a")
        with pytest.raises(KeyboardInterrupt):
            ticket.wait()
        assert ticket.wait().seq == 1
        assert desk.texts() == ["a"]
        desk.writer.close()

    def test_during_the_change_to_another_file(self, desk):
        desk.files.fail("sync", name="journal.jsonl")

        def interrupt() -> None:
            raise KeyboardInterrupt

        desk.files.on("rename", interrupt)
        ticket = desk.submit("c")
        with pytest.raises(KeyboardInterrupt):
            ticket.wait()
        desk.append("d")
        assert desk.texts() == ["a", "b", "c", "d"]
        assert ticket.position.segment == 2

    def test_after_everything_was_done(self, desk):
        """The entries are durable: their ticket says so, and they are not written again."""

        def interrupt() -> None:
            raise KeyboardInterrupt

        ticket = desk.submit("c")
        desk.log._note_again = 0.0
        desk.files.on("write_at", interrupt)
        with pytest.raises(KeyboardInterrupt):
            ticket.wait()
        assert ticket.done
        assert len(desk.owner.published) == 4
        desk.append("d")
        assert desk.texts() == ["a", "b", "c", "d"]

    def test_those_who_wait_meanwhile_are_served(self, desk, eventually):
        gate = threading.Event()

        def interrupt() -> None:
            gate.wait()
            raise KeyboardInterrupt

        desk.files.on("sync", interrupt)
        interrupted: list[bool] = []

        def lead() -> None:
            try:
                desk.append("c")
            except KeyboardInterrupt:
                interrupted.append(True)

        leader = threading.Thread(target=lead)
        leader.start()
        eventually(lambda: desk.files.count("sync") == 1)
        other = threading.Thread(target=desk.append, args=("d",))
        other.start()
        eventually(lambda: len(desk.writer.unpublished) == 2)
        gate.set()
        leader.join()
        other.join()
        assert interrupted == [True]
        assert desk.texts() == ["a", "b", "c", "d"]
