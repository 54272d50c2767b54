"""The injector counts what it should and does what it says; layers that use it can fail."""

from __future__ import annotations

import os
import shutil
import signal
import threading

import pytest

from tests.crash.lab import ledger, native
from tests.crash.lab.layer import Plan
from tests.crash.lab.opening import OPENING, options_after
from tests.crash.lab.oracle import Oracle
from tests.crash.lab.stage import Stage
from tests.crash.lab.tally import Tally
from tests.crash.lab.trial import NO_FAULT, Fault, Trial, play_with

KILLED = -signal.SIGKILL


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    why_not = native.why_not()
    if why_not is not None:
        pytest.skip(why_not)
    folder = tmp_path_factory.mktemp("stage")
    with Stage(Plan("ci", 1, folder, folder), native.preloaded()) as stage:
        yield stage


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "a root"
    folder.mkdir()
    return folder


@pytest.fixture
def play(stage, root):
    """Play a function of this module in a folder, with a fault; returns the trial."""

    def play(function, kind="none", number=0, part=500):
        fault = Fault(kind, number, part)
        name = f"tests.crash.test_injector:{function.__name__}"
        return play_with(stage, root, root, fault, play=name)

    return play


def results(trial):
    return [words[1:] for words in trial.said]


# What is played


def attempt(witness, name, do):
    try:
        witness.say("result", name, do())
    except OSError as error:
        witness.say("error", name, error.errno)


def write_three_lines(root, witness):
    """Write and sync three lines; then cut off the last one, and remove the file."""
    path = root / "file"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)  # 1
    for text in (b"aaaaaaaaa\n", b"bbbbbbbbb\n", b"ccccccccc\n"):
        attempt(witness, "write", lambda text=text: os.write(descriptor, text))  # 2 4 6
        attempt(witness, "sync", lambda: os.fdatasync(descriptor))  # 3 5 7
    attempt(witness, "cut", lambda: os.ftruncate(descriptor, 20))  # 8
    attempt(witness, "make", lambda: os.mkdir(root / "folder"))  # 9
    attempt(witness, "rename", lambda: os.rename(path, root / "renamed"))  # 10


def use_every_way(root, witness):
    """Make calls below the root by all kinds of names, and some that must not be counted."""
    inside = os.open(root, os.O_RDONLY)
    os.mkdir("by folder", dir_fd=inside)
    os.chdir(root)
    os.mkdir("by relative name")
    descriptor = os.open("file", os.O_RDWR | os.O_CREAT, dir_fd=inside)
    twin = os.dup(descriptor)
    os.close(descriptor)
    os.writev(twin, [b"one", b"two"])
    os.pwrite(twin, b"three", 3)
    os.pwritev(twin, [b"four"], 0)
    os.posix_fallocate(twin, 0, 10)
    os.fsync(inside)
    os.utime(twin)
    os.link("file", "second name")
    os.symlink("file", "third name")
    os.rename("file", root.parent / "moved away")
    os.unlink("second name", dir_fd=inside)
    os.rmdir("by folder")
    os.truncate(root.parent / "moved away", 1)  # elsewhere
    os.close(os.open("third name", os.O_RDONLY | os.O_NOFOLLOW | os.O_PATH))  # not for writing
    os.mkdir(root.parent / f"{root.name} is only how it begins")  # elsewhere


def write_in_threads(root, witness):
    def write(number):
        descriptor = os.open(root / str(number), os.O_WRONLY | os.O_CREAT, 0o600)
        for _ in range(100):
            os.write(descriptor, b"xx")

    threads = [threading.Thread(target=write, args=[n]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def write_two_files(root, witness):
    first = os.open(root / "first", os.O_WRONLY | os.O_CREAT, 0o600)  # 1
    second = os.open(root / "second", os.O_WRONLY | os.O_CREAT, 0o600)  # 2
    for _ in range(2):
        attempt(witness, "first", lambda: os.write(first, b"1234"))
        attempt(witness, "second", lambda: os.write(second, b"1234"))
    attempt(witness, "rename first", lambda: os.rename(root / "first", root / "third"))
    attempt(witness, "rename second", lambda: os.rename(root / "second", root / "fourth"))


def sync_through_two_descriptors(root, witness):
    """Write by one, and sync by another first, as a follower does."""
    writer = os.open(root / "file", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    reader = os.open(root / "file", os.O_RDONLY)
    os.write(writer, b"aaaaaaaaa\n")
    for descriptor, name in ((reader, "reader"), (writer, "writer"), (writer, "again")):
        attempt(witness, name, lambda descriptor=descriptor: os.fdatasync(descriptor))


def say_not_done(root, witness):
    witness.say("intends", "a", 1, "append", {"labels": ["a1"]})


# Counting


def test_a_run_without_a_fault_is_noted_and_otherwise_left_alone(play, root):
    trial = play(write_three_lines)
    assert trial.status == 0
    assert trial.log.struck is None
    names = [operation.name for operation in trial.log.operations]
    assert names == [
        *["create", *["write", "fdatasync"] * 3],
        *["ftruncate", "mkdir", "rename"],
    ]
    assert [operation.number for operation in trial.log.operations] == list(range(1, 11))
    assert trial.log.operations[0].path == "/file"
    assert (root / "renamed").read_bytes() == b"aaaaaaaaa\nbbbbbbbbb\n"
    assert [value for _, value in results(trial)] == [10, None, 10, None, 10, None, *[None] * 3]


def test_every_way_to_name_a_file_is_counted_and_nothing_elsewhere(play):
    trial = play(use_every_way)
    assert trial.status == 0
    assert [(operation.name, operation.path) for operation in trial.log.operations] == [
        ("mkdir", "/by folder"),
        ("mkdir", "/by relative name"),
        ("create", "/file"),
        ("writev", "/file"),
        ("pwrite", "/file"),
        ("pwritev", "/file"),
        ("fallocate", "/file"),
        ("fsync", ""),
        ("utimens", "/file"),
        ("link", "/file"),
        ("symlink", "/third name"),
        ("rename", "/file"),
        ("unlink", "/second name"),
        ("rmdir", "/by folder"),
    ]


def test_threads_share_one_counter(play):
    trial = play(write_in_threads)
    numbers = sorted(operation.number for operation in trial.log.operations)
    assert numbers == list(range(1, 405))
    # The first that gets there is struck; three others may be on their way with the next numbers.
    assert play(write_in_threads, "before", 200).log.struck.number in range(200, 204)


# Faults


def test_killed_before_and_after(play, root):
    assert play(write_three_lines, "before", 4).status == KILLED
    assert (root / "file").read_bytes() == b"aaaaaaaaa\n"
    (root / "file").unlink()
    assert play(write_three_lines, "after", 4).status == KILLED
    assert (root / "file").read_bytes() == b"aaaaaaaaa\nbbbbbbbbb\n"


@pytest.mark.parametrize(("part", "left"), [(0, b"b"), (500, b"bbbbb"), (999, b"bbbbbbbbb")])
def test_a_torn_write(play, root, part, left):
    trial = play(write_three_lines, "torn", 4, part)
    assert trial.status == KILLED
    assert (root / "file").read_bytes() == b"aaaaaaaaa\n" + left


def test_a_short_write(play, root):
    trial = play(write_three_lines, "short", 4)
    assert trial.status == 0
    assert results(trial)[2] == ["write", 5]
    assert (root / "renamed").read_bytes() == b"aaaaaaaaa\nbbbbbccccc"


def test_a_fault_waits_for_a_call_that_it_can_happen_to(play):
    trial = play(write_three_lines, "torn", 5)
    assert (trial.log.struck.number, trial.log.struck.name) == (6, "write")
    assert play(write_three_lines, "torn", 8).log.struck is None


@pytest.mark.parametrize("kind", ["eio", "enospc"])
def test_an_error_once(play, root, kind):
    trial = play(write_three_lines, kind, 4)
    assert trial.status == 0
    errors = [words for words in trial.said if words[0] == "error"]
    assert errors == [["error", "write", 5 if kind == "eio" else 28]]
    assert (root / "renamed").read_bytes().startswith(b"aaaaaaaaa\nccccccccc\n")


def test_a_dead_disk_fails_everything_and_a_full_one_only_what_takes_room(play, root):
    trial = play(write_three_lines, "eio-stays", 5)
    assert [words[0] for words in trial.said] == [*["result"] * 3, *["error"] * 6]
    shutil.rmtree(root)
    root.mkdir()
    trial = play(write_three_lines, "enospc-stays", 6)
    failed = [words[1] for words in trial.said if words[0] == "error"]
    assert failed == ["write", "make", "rename"]


@pytest.mark.parametrize("kind", native.ONE_FILE)
def test_a_single_file_that_fails(play, kind):
    trial = play(write_two_files, kind, 3)
    assert [(words[0], words[1]) for words in trial.said] == [
        ("error", "first"),
        ("result", "second"),
        ("error", "first"),
        ("result", "second"),
        ("error", "rename first"),
        ("result", "rename second"),
    ]


def test_a_failed_sync_loses_what_was_not_synced_and_then_reports_success(play, root):
    trial = play(write_three_lines, "lostsync", 5)
    assert [words[:2] for words in trial.said if words[0] == "error"] == [["error", "sync"]]
    assert (root / "renamed").read_bytes() == b"aaaaaaaaa\n" + bytes(10)


def test_a_lost_page_is_told_once_to_whoever_had_the_file_open(play, root):
    operations = play(sync_through_two_descriptors).log.operations
    (root / "file").unlink()
    first = next(each.number for each in operations if each.may_meet("lostsync"))
    trial = play(sync_through_two_descriptors, "lostsync", first)
    told = [(kind, name) for kind, name, _ in trial.said]
    assert told == [("error", "reader"), ("error", "writer"), ("result", "again")]
    assert (root / "file").read_bytes() == bytes(10)


def test_every_fault_strikes_where_the_log_says_that_it_can(play, root):
    operations = play(write_three_lines).log.operations
    for kind in native.ALL:
        possible = [operation.number for operation in operations if operation.may_meet(kind)]
        assert possible, kind
        for number in (possible[0], possible[-1]):
            shutil.rmtree(root)
            root.mkdir()
            assert play(write_three_lines, kind, number).log.struck.number == number


# What layers make of it


def test_a_process_that_outlives_its_fault_must_come_to_its_end(play):
    def broken(trial):
        tally = Tally()
        trial.judge_ending(tally)
        return tally.broken + tally.errors

    trial = play(say_not_done)
    assert broken(trial) == 1
    assert broken(Trial(NO_FAULT, [["done", "a"]], 0, trial.log)) == 0
    assert broken(Trial(NO_FAULT, [["done", "a"]], 1, trial.log)) == 1
    struck = native.Log([], native.Operation(1, "write", "b", "/file"))
    assert broken(Trial(Fault("before", 1), [], KILLED, struck)) == 0
    assert broken(Trial(Fault("before", 1), [], 0, struck)) == 1


def test_a_fork_may_have_what_was_attempted_before_what_was_promised():
    said = [
        ["intends", "a", 1, "fork", {}],
        ["promised", "a", 1, {"session": "f"}],
        ["intends", "a", 2, "fork-append", {"labels": ["a1"], "session": "f"}],
        ["intends", "a", 3, "fork-append", {"labels": ["a2"], "session": "f"}],
        ["promised", "a", 3, {"seq": 9}],
    ]
    assert ledger.read(said)["a"].forks["f"].branches == {("a1", "a2"), ("a2",)}


def killed_once_forked(stage, root, home):
    """Kill the scenario at the first write-side call after its fork was acknowledged."""
    whole = play_with(stage, root, home, NO_FAULT, options={"variant": "one"})
    # The fork's own journal is the second that gets its name.
    journals = [
        each.number
        for each in whole.log.operations
        if each.name == "create" and each.path.endswith("/journal.jsonl")
    ]
    for number in range(journals[1], len(whole.log.operations)):
        shutil.rmtree(home, ignore_errors=True)
        trial = play_with(stage, root, home, Fault("before", number), options={"variant": "one"})
        assert trial.status == KILLED
        if options_after(trial.said, 1)["forks"]:
            return trial
    raise AssertionError("the scenario makes no fork")


def test_an_opening_goes_on_with_the_lives_that_it_finds(stage, root):
    home = root / "home"
    # Killed when both the session and its fork are there, and text was never finished.
    first = killed_once_forked(stage, root, home)
    options = options_after(first.said, 1)
    assert list(options["sessions"].values()) == ["a"]
    assert list(options["forks"].values()) == ["a"]
    opened = play_with(stage, root, home, NO_FAULT, play=OPENING, options=options)
    assert opened.status == 0
    said = first.said + opened.said
    kept = shutil.copytree(home, root / "kept")
    tally = Oracle(home, said).judge()
    assert not tally.failed, tally.failures
    assert tally.acknowledged == Oracle(kept, first.said).judge().acknowledged + 1
    # What the opening was promised is held to as well.
    (journal,) = kept.glob(f"sessions/*/{next(iter(options['sessions']))}/journal.jsonl")
    lines = journal.read_bytes().split(b"\n")
    cut = next(n for n, line in enumerate(lines) if b"a1001: " in line or b"a1002: " in line)
    journal.write_bytes(b"\n".join(lines[:cut]) + b"\n")
    assert Oracle(kept, said).judge().lost
