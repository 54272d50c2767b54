"""The machinery of layer F: its rules must be able to break."""

from __future__ import annotations

import errno
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.files import Files
from tests.crash.lab.faults import full, player, scarce, sync
from tests.crash.lab.grounds import Ground
from tests.crash.lab.layer import Plan
from tests.crash.lab.tally import Tally
from tests.crash.lab.witness import Witness
from tests.crash.layers.f_faults import FAULTS, Faults


class HeardWitness(Witness):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__(-1)
        self.said: list[list[Any]] = []

    def say(self, *words: Any) -> None:
        self.said.append(list(words))


def _player(folder: Path) -> tuple[player.Player, HeardWitness]:
    witness = HeardWitness()
    ground = Ground("folder", str(folder))
    ground.disk.mkdir(parents=True)
    return player.Player(ground, witness, "seed"), witness


def _judged(witness: HeardWitness) -> Tally:
    tally = Tally()
    player.heard(witness.said, tally)
    return tally


def test_every_case_names_a_play_that_exists():
    for name, fault in FAULTS.items():
        module, _, function = fault.play.partition(":")
        if module:
            found = importlib.import_module(f"tests.crash.lab.faults.{module}")
            assert callable(getattr(found, function)), name


def test_every_level_has_cases(tmp_path):
    for level, rounds in (("ci", 1), ("nightly", 50)):
        plan = Plan(level, 1, tmp_path, tmp_path)
        assert len(Faults(plan).cases()) == rounds * len(FAULTS)
    telling = Faults(Plan("mutant", 1, tmp_path, tmp_path)).cases()
    assert {case.rpartition(" ")[0] for case in telling} < FAULTS.keys()


def test_rules_and_facts_are_counted_and_kept_from_the_oracle(tmp_path):
    playing, witness = _player(tmp_path)
    playing.rule("the sun rises", True)
    playing.rule("it rises in the west", False, "(it does not)")
    playing.fact("mornings")
    witness.say("intends", "a", 1, "append", {"labels": ["a1"]})
    tally = Tally()
    left = player.heard(witness.said, tally)
    assert left == [["intends", "a", 1, "append", {"labels": ["a1"]}]]
    assert tally.facts == {"rules held": 1, "mornings": 1}
    assert [failure.what for failure in tally.failures] == [
        "not true: it rises in the west (it does not)"
    ]


def test_an_error_that_is_not_holdfasts_is_told_from_one_that_is(tmp_path):
    playing, witness = _player(tmp_path)

    def refuse() -> None:
        raise holdfast.UsageError("no")

    def fail() -> None:
        raise OSError(errno.EMFILE, "no")

    playing.no_strange_error("a refusal", refuse)
    assert not _judged(witness).failed
    playing.no_strange_error("a failure", fail)
    assert _judged(witness).broken == 1
    with pytest.raises(OSError, match="no"):
        playing.attempt("append", fail, labels=["a1"])


def test_what_the_disk_kept_proves_nothing(tmp_path):
    path = tmp_path / "journal.jsonl"
    for content, broken in ((b"good" + bytes(9), 0), (b"good", 0), (b"good, and more", 1)):
        playing, witness = _player(tmp_path / str(len(content)))
        path.write_bytes(content)
        playing.dropped(path, 4)
        assert _judged(witness).broken == broken


class FakeFailingFiles(sync.WatchedFiles):
    """Fails the next sync."""

    failing = False

    def sync(self, descriptor: int) -> None:
        if self.failing:
            self.failing = False
            inode = os.fstat(descriptor).st_ino
            self.calls.append(("sync", inode, OSError(errno.EIO, "lost")))
            raise OSError(errno.EIO, "lost")
        super().sync(descriptor)


@pytest.mark.parametrize("again", ["sync", "write", "truncate"])
def test_a_file_that_is_used_after_its_sync_failed_is_noticed(tmp_path, again):
    files = FakeFailingFiles()
    descriptor = files.open_append(tmp_path / "file", create=True)
    files.write(descriptor, b"one")
    files.failing = True
    with pytest.raises(OSError, match="lost"):
        files.sync(descriptor)
    assert files.used_after_failing() == []
    arguments = {"sync": (), "write": (b"two",), "truncate": (0,)}[again]
    getattr(files, again)(descriptor, *arguments)
    assert [call[0] for call in files.used_after_failing()] == [again]
    files.close(descriptor)


def test_a_number_that_is_given_to_another_file_is_another_file(tmp_path):
    files = FakeFailingFiles()
    files.failing = True
    with pytest.raises(OSError, match="lost"):
        files.publish(tmp_path / "file", b"data")
    files.publish(tmp_path / "file", b"data")  # often gets the same inode
    assert files.used_after_failing() == []


def test_the_journal_is_filled_up_to_the_end_of_a_block(tmp_path):
    playing, _ = _player(tmp_path)
    with playing.create(holdfast.open_store(playing.ground.home)) as session:
        playing.append(session, count=7)
        sync._fill_block(session)
        assert (session.path / "journal.jsonl").stat().st_size % 4096 == 0


def test_descriptors_are_scarce_and_then_are_not(tmp_path):
    with scarce._starved(2):
        first, second = os.dup(0), os.dup(0)
        with pytest.raises(OSError, match="Too many open files"):
            os.dup(0)
        os.close(first)
        os.close(second)
    os.close(os.dup(0))


@contextmanager
def _limited(playing: player.Player, session: holdfast.Session) -> Iterator[None]:
    limit = full.SizeLimit(playing)
    limit.begin(session)
    try:
        yield
    finally:
        limit.end()


def test_a_limit_on_files_fills_the_disk_and_its_end_frees_it(tmp_path):
    playing, witness = _player(tmp_path)
    session = playing.create(holdfast.open_store(playing.ground.home))
    playing.append(session)
    with _limited(playing, session):
        refused, _ = full._append_until_full(playing, session)
        assert isinstance(refused.error, holdfast.DiskFull)
    full._wait_until_written(playing, session)
    session.close()
    assert not _judged(witness).failed


class FakeForgetfulFiles(Files):
    """Takes every byte and keeps none of what comes after the first entry."""

    forgetful = False

    def write(self, descriptor: int, data: bytes) -> int:
        return len(data) if self.forgetful else super().write(descriptor, data)


def test_a_store_that_says_nothing_of_a_full_disk_is_noticed(tmp_path):
    playing, witness = _player(tmp_path)
    files = FakeForgetfulFiles()
    session = playing.create(holdfast.open_store(playing.ground.home, files=files))
    playing.append(session)
    files.forgetful = True
    playing.fails("an append without room is refused", playing.append(session), holdfast.DiskFull)
    assert _judged(witness).broken == 1
    with pytest.raises(holdfast.WriteFailed):
        session.append(holdfast.user("more"))
