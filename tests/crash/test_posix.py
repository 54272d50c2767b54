"""The model of a disk that layer B goes by: held to small writers whose mistakes are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest

from tests.crash.lab import native, recorder
from tests.crash.lab.layer import Plan
from tests.crash.lab.posix import ROOT, WHOLE, Choice, Epoch, Op, State, changed, epochs, look_at

Files = dict[str, bytes | None]


class Log:
    """Writes logs by hand."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self._files = ROOT

    def _add(self, kind: str, **fields: object) -> None:
        self.ops.append(Op(number=len(self.ops), kind=kind, **fields))  # type: ignore[arg-type]

    def create(self, name: str, folder: int = ROOT) -> int:
        self._files += 1
        self._add("create", file=self._files, folder=folder, name=name)
        return self._files

    def make_folder(self, name: str, folder: int = ROOT) -> int:
        self._files += 1
        self._add("make_folder", file=self._files, folder=folder, name=name)
        return self._files

    def write(self, file: int, offset: int, data: bytes) -> None:
        self._add("write", file=file, offset=offset, data=data)

    def truncate(self, file: int, size: int) -> None:
        self._add("truncate", file=file, offset=size)

    def rename(self, name: str, second: str, folder: int = ROOT, second_folder: int = ROOT) -> None:
        self._add(
            "rename", folder=folder, name=name, second_folder=second_folder, second_name=second
        )

    def link(self, file: int, name: str, folder: int = ROOT) -> None:
        self._add("link", file=file, folder=folder, name=name)

    def unlink(self, name: str, folder: int = ROOT) -> None:
        self._add("unlink", folder=folder, name=name)

    def sync(self, file: int, began: int | None = None) -> None:
        self._add("sync", file=file, began=len(self.ops) if began is None else began)

    def synced_write(self, file: int, offset: int, data: bytes) -> None:
        self.write(file, offset, data)
        self._add("sync", file=file, began=len(self.ops), offset=offset, length=len(data))

    def say(self, data: bytes) -> None:
        self._add("said", data=data)


def files_of(state: State) -> Files:
    return {item.path: item.content.data if item.content else None for item in state.items}


def all_choices(epoch: Epoch) -> Iterator[Choice]:
    """Every choice there is, with tears at every byte."""
    ways = []
    for op in epoch.pending.values():
        parts = [None, WHOLE]
        if op.kind == "write":
            parts += [f"{kind}{cut}" for kind in "tz" for cut in range(len(op.data))]
        ways.append([(op.number, part) for part in parts])
    for picked in product(*ways):
        yield epoch.closed({number: part for number, part in picked if part is not None})


def states_at_end(log: Log) -> list[Files]:
    *_, end = epochs(log.ops)
    found = [files_of(end.state(choice)) for choice in all_choices(end)]
    return [state for number, state in enumerate(found) if state not in found[:number]]


# What lasts, and what does not


def test_synced_bytes_without_their_name_are_lost():
    log = Log()
    file = log.create("a")
    log.write(file, 0, b"x")
    log.sync(file)
    assert states_at_end(log) == [{}, {"a": b"x"}]


def test_a_synced_name_may_be_left_without_its_bytes():
    log = Log()
    file = log.create("a")
    log.write(file, 0, b"x")
    log.sync(ROOT)
    assert states_at_end(log) == [{"a": b""}, {"a": b"x"}, {"a": b"\0"}]


def test_a_name_in_a_folder_whose_own_name_is_lost_is_lost():
    log = Log()
    folder = log.make_folder("d")
    log.create("a", folder)
    log.sync(folder)
    assert states_at_end(log) == [{}, {"d": None, "d/a": b""}]


def test_writes_may_come_in_any_order_and_what_is_missing_reads_as_zeros():
    log = Log()
    file = log.create("a")
    log.sync(ROOT)
    log.write(file, 0, b"x")
    log.write(file, 1, b"y")
    contents = {state["a"] for state in states_at_end(log)}
    assert contents == {b"", b"x", b"\0", b"\0y", b"xy", b"\0\0", b"x\0"}


def test_a_truncation_that_was_not_synced_may_not_have_happened():
    log = Log()
    file = log.create("a")
    log.write(file, 0, b"old")
    log.sync(file)
    log.sync(ROOT)
    log.truncate(file, 0)
    log.write(file, 0, b"n")
    contents = {state["a"] for state in states_at_end(log)}
    assert contents == {b"old", b"", b"n", b"\0", b"nld"}


def test_a_file_whose_removal_was_not_synced_may_come_back():
    log = Log()
    log.create("a")
    log.sync(ROOT)
    log.unlink("a")
    assert states_at_end(log) == [{"a": b""}, {}]


def test_a_rename_across_folders_is_one_effect_and_either_sync_keeps_it():
    for synced in (2, 3):
        log = Log()
        source, target = log.make_folder("s"), log.make_folder("t")
        log.create("a", source)
        log.sync(ROOT)
        log.sync(source)
        log.rename("a", "b", source, target)
        old, new = {"s": None, "s/a": b"", "t": None}, {"s": None, "t": None, "t/b": b""}
        assert states_at_end(log) == [old, new]
        log.sync(synced)
        assert states_at_end(log) == [new]


def test_changes_of_one_name_keep_their_order_others_do_not():
    log = Log()
    log.create("a")
    log.rename("a", "b")
    log.create("c")
    orders = [{}, {"a": b""}, {"b": b""}]
    assert states_at_end(log) == [{**state, **c} for state in orders for c in ({}, {"c": b""})]


def test_a_folder_sync_keeps_what_a_rename_stands_on():
    log = Log()
    source, target = log.make_folder("s"), log.make_folder("t")
    log.sync(ROOT)
    log.create("a", source)
    log.rename("a", "b", source, target)
    log.sync(target)
    assert states_at_end(log) == [{"s": None, "t": None, "t/b": b""}]


def test_bytes_of_a_second_name_outlive_the_first():
    log = Log()
    folder = log.make_folder("d")
    file = log.create("a")
    log.write(file, 0, b"x")
    log.sync(file)
    log.link(file, "b", folder)
    log.sync(folder)
    lasting = [{}, {"a": b"x"}, {"d": None, "d/b": b"x"}, {"d": None, "d/b": b"x", "a": b"x"}]
    assert sorted(map(str, states_at_end(log))) == sorted(map(str, lasting))


def test_a_sync_keeps_only_what_came_before_its_call():
    log = Log()
    file = log.create("a")
    log.sync(ROOT)
    log.write(file, 0, b"x")
    called = len(log.ops)
    log.write(file, 1, b"y")
    log.sync(file, began=called)
    assert {state["a"] for state in states_at_end(log)} == {b"x", b"x\0", b"xy"}


def test_a_write_that_syncs_keeps_nothing_else_of_its_file():
    log = Log()
    file = log.create("a")
    log.sync(ROOT)
    log.write(file, 0, b"x")
    log.synced_write(file, 1, b"y")
    assert {state["a"] for state in states_at_end(log)} == {b"\0y", b"xy"}


def test_nothing_comes_back_over_a_write_that_synced():
    log = Log()
    file = log.create("a")
    log.sync(ROOT)
    log.write(file, 0, b"torn")
    log.truncate(file, 0)
    log.synced_write(file, 0, b"new")
    assert {state["a"] for state in states_at_end(log)} == {b"new"}


def test_sectors_of_one_write_may_come_in_any_order():
    op = Op(0, "write", offset=500, data=b"a" * 12 + b"b" * 512 + b"c" * 4)
    old = b"." * 600
    assert changed(old, op, "s2") == b"." * 512 + b"b" * 512 + b"\0" * 4
    assert changed(old, op, "s5") == b"." * 500 + b"a" * 12 + b"." * 88 + b"\0" * 424 + b"c" * 4
    assert changed(old, op, "s7") == changed(old, op, WHOLE)


def test_a_choice_can_be_told_and_understood():
    log = Log()
    file = log.create("a")
    log.write(file, 0, b"abc")
    log.rename("a", "b")
    *_, end = epochs(log.ops)
    for choice in all_choices(end):
        assert end.chosen(end.told(choice)) == choice
    with pytest.raises(ValueError, match="no power cut leaves this"):
        end.chosen("none 2+")


# Writers. Each appends lines, acknowledging them, and replaces a small file.


def correct(log: Log) -> None:
    _write(log)


def without_fdatasync(log: Log) -> None:
    _write(log, sync_line=False)


def acknowledging_first(log: Log) -> None:
    _write(log, acknowledge_first=True)


def without_fsync_before_rename(log: Log) -> None:
    _write(log, sync_new=False)


def without_folder_fsync(log: Log) -> None:
    _write(log, sync_folder=False)


def _write(
    log: Log,
    *,
    sync_line: bool = True,
    sync_new: bool = True,
    sync_folder: bool = True,
    acknowledge_first: bool = False,
) -> None:
    new = log.create("tmp")
    log.write(new, 0, b"head\n")
    if sync_new:
        log.sync(new)
    log.rename("tmp", "journal")
    if sync_folder:
        log.sync(ROOT)
    log.say(b"0")
    for number in range(1, 4):
        log.write(new, 5 * number, b"ln %d\n" % number)
        if acknowledge_first:
            log.say(b"%d" % number)
        if sync_line:
            log.sync(new)
        if not acknowledge_first:
            log.say(b"%d" % number)


def keeps_its_promises(files: Files, acknowledged: int) -> bool:
    """Tell whether all acknowledged lines are there; what follows may be torn."""
    if not acknowledged:
        return True
    promised = b"head\n" + b"".join(b"ln %d\n" % number for number in range(1, acknowledged))
    return (files.get("journal") or b"").startswith(promised)


def violations(writer: Callable[[Log], None]) -> tuple[int, int]:
    """Return how many distinct states a writer may leave, and in how many a promise is broken."""
    log = Log()
    writer(log)
    found: dict[str, tuple[Files, int]] = {}
    for epoch in epochs(log.ops):
        acknowledged = sum(op.kind == "said" for op in log.ops[: epoch.number])
        for choice in all_choices(epoch):
            files = files_of(epoch.state(choice))
            _, before = found.get(str(files), (files, 0))
            found[str(files)] = files, max(before, acknowledged)
    broken = [files for files, said in found.values() if not keeps_its_promises(files, said)]
    return len(found), len(broken)


def test_a_correct_writer_breaks_no_promise_in_any_state():
    states, broken = violations(correct)
    assert states > 20
    assert broken == 0


@pytest.mark.parametrize(
    "writer",
    [without_fdatasync, acknowledging_first, without_fsync_before_rename, without_folder_fsync],
)
def test_a_writer_with_a_mistake_breaks_promises(writer: Callable[[Log], None]):
    _, broken = violations(writer)
    assert broken > 0


def test_without_fdatasync_nearly_every_state_is_broken():
    states, broken = violations(without_fdatasync)
    assert broken > states * 0.9


# Which states are looked at


def small_log() -> Log:
    log = Log()
    correct(log)
    log.truncate(2, 5)
    log.unlink("journal")
    return log


def test_no_two_states_are_alike_and_each_is_legal_when_it_is_judged():
    log = small_log()
    found = look_at(log.ops, 10_000, seed=1)
    keys = [str(sorted(files_of(one.state()).items())) for one in found]
    assert len(set(keys)) == len(keys)
    legal = {
        epoch.number: {
            str(sorted(files_of(epoch.state(choice)).items())) for choice in all_choices(epoch)
        }
        for epoch in epochs(log.ops)
    }
    for one, key in zip(found, keys, strict=True):
        assert key in legal[one.epoch.number]
        # The largest set of promises that goes with it.
        assert not any(key in legal[number] for number in legal if number > one.epoch.number)


def test_a_small_log_is_looked_at_almost_whole():
    log = small_log()
    everything = {
        str(sorted(files_of(epoch.state(choice)).items()))
        for epoch in epochs(log.ops)
        for choice in all_choices(epoch)
    }
    found = {str(sorted(files_of(one.state()).items())) for one in look_at(log.ops, 10_000, seed=1)}
    assert found <= everything
    assert len(found) > 0.95 * len(everything)


def test_the_same_seed_looks_at_the_same_states():
    log = small_log()
    log.write(2, 5, b"line\n" * 1000)
    ops = log.ops
    first, again = look_at(ops, 100, seed=5), look_at(ops, 100, seed=5)
    assert [one.told for one in first] == [one.told for one in again]
    assert [one.told for one in first] != [one.told for one in look_at(ops, 100, seed=6)]


def test_mistakes_are_found_among_the_first_states():
    for writer in (without_fdatasync, acknowledging_first, without_fsync_before_rename):
        log = Log()
        writer(log)
        broken = [
            one
            for one in look_at(log.ops, 15, seed=1)
            if not keeps_its_promises(
                files_of(one.state()),
                sum(op.kind == "said" for op in log.ops[: one.epoch.number]),
            )
        ]
        assert broken, writer


def test_what_is_aside_makes_no_state_of_its_own():
    log = small_log()
    cache = log.create("cache")
    log.write(cache, 0, b"c" * 100)
    found = look_at(log.ops, 10_000, 1, lambda name: name == "cache", whole_share=0.0)
    assert not any("cache" in files_of(one.state()) for one in found)
    whole = look_at(log.ops, 300, 1, lambda name: name == "cache", whole_share=1.0)
    assert any("cache" in files_of(one.state()) for one in whole)


def test_a_state_is_written_as_it_is(tmp_path: Path):
    log = Log()
    folder = log.make_folder("a folder")
    file = log.create("a", folder)
    log.write(file, 0, b"x" * 70_000)
    log.link(file, "b")
    *_, end = epochs(log.ops)
    state = end.state(dict.fromkeys(end.pending, WHOLE))
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    (tmp_path / "large").mkdir()
    state.write_to(tmp_path / "first")
    state.write_to(tmp_path / "second", tmp_path / "large")
    for name in ("first", "second"):
        assert (tmp_path / name / "a folder" / "a").read_bytes() == b"x" * 70_000
        assert (tmp_path / name / "b").samefile(tmp_path / name / "a folder" / "a")


# The recorder


@pytest.mark.skipif(native.why_not() is not None, reason="there is no C compiler")
def test_a_recording_comes_to_what_is_on_the_disk(tmp_path: Path):
    plan = Plan("ci", 1, tmp_path / "scratch", tmp_path / "memory")
    plan.scratch.mkdir()
    # It raises if it has missed anything.
    recorder.record(plan, "one", tmp_path / "log")
    ops = recorder.read(tmp_path / "log")
    kinds = {op.kind for op in ops}
    assert kinds >= {"create", "make_folder", "link", "unlink", "rename", "write", "sync", "said"}
    assert next(recorder.promises(ops))[3] == "create"


def test_a_recording_that_misses_something_is_refused(tmp_path: Path):
    log = Log()
    log.create("a")
    (tmp_path / "a").write_bytes(b"x")
    with pytest.raises(AssertionError, match="does not come to what is on the disk"):
        recorder._check(log.ops, tmp_path, [])
