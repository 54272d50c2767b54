"""The laboratory's own machinery: workers that die, runs that go on, reports that say it."""

from __future__ import annotations

import os
import time

import pytest

from tests.crash import mutants
from tests.crash.lab import report, results
from tests.crash.lab.layer import Layer, Plan
from tests.crash.lab.picture import matrix
from tests.crash.lab.results import Caught, Results
from tests.crash.lab.tally import Tally
from tests.crash.lab.workers import try_cases
from tests.crash.layers import LAYERS


class Toy(Layer):
    """Does what the case says."""

    def run(self, case):
        tally = Tally(cases=1, acknowledged=2)
        if case == "die":
            os._exit(1)
        if case == "hang":
            time.sleep(60)
        if case == "raise":
            raise ValueError("an accident")
        if case == "lose":
            tally.lose("it is gone")
        if case == "look":
            assert self.plan.scratch.is_dir()
            assert self.plan.memory.is_dir()
        return tally


@pytest.fixture
def plan(tmp_path):
    return Plan("ci", 1, tmp_path / "on disk", tmp_path / "in memory")


def outcomes(plan, cases, *, seconds=30.0):
    return dict(try_cases(Toy, plan, cases, 2, seconds))


def test_every_case_is_tried_once(plan):
    done = outcomes(plan, ["look", *map(str, range(20))])
    assert len(done) == 21
    assert not any(tally.failed for tally in done.values())
    assert not plan.scratch.exists() or not list(plan.scratch.iterdir())


@pytest.mark.parametrize(
    ("case", "what"),
    [("die", "died"), ("raise", "an accident"), ("lose", "gone"), ("hang", "not come to an end")],
)
def test_a_case_that_goes_wrong_fails_and_the_others_are_tried(plan, case, what):
    done = outcomes(plan, ["1", case, "2", "3"], seconds=1.0 if case == "hang" else 30.0)
    assert sorted(done) == sorted(["1", case, "2", "3"])
    assert [name for name, tally in done.items() if tally.failed] == [case]
    (failure,) = done[case].failures
    assert failure.case == case
    assert what in failure.what


def test_tallies_add_up():
    one, two = Tally(cases=1, acknowledged=5), Tally(cases=2)
    two.repeat("again")
    two.count("torn", 3)
    one.add(two)
    one.add(two)
    assert (one.cases, one.acknowledged, one.duplicates, one.facts) == (5, 5, 2, {"torn": 6})
    assert one.failed


def test_an_interrupted_nightly_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "_NOTES", tmp_path)
    first = Results.begin("nightly", 7, again=False)
    first.add(first.row("B", "toy"), "case 1", Tally(cases=3, acknowledged=4))
    with next(tmp_path.glob("*.jsonl")).open("ab") as notes:
        notes.write(b'{"torn')
    second = Results.begin("nightly", 8, again=False)
    assert second.seed == 7
    assert second.rows["B"].done == {"case 1"}
    assert second.rows["B"].tally.acknowledged == 4
    assert Results.begin("nightly", 8, again=True).rows == {}
    assert Results.begin("ci", 8, again=False).rows == {}


def test_a_run_on_a_changed_program_begins_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "_NOTES", tmp_path)
    first = Results.begin("nightly", 7, again=False)
    first.add(first.row("B", "toy"), "case 1", Tally(cases=3))
    monkeypatch.setattr(results, "_digest_of_program", lambda: "another")
    assert Results.begin("nightly", 8, again=False).seed == 8


def test_the_report_tells_what_failed_survived_and_did_not_run(tmp_path):
    run = Results("ci", 42, None)
    bad = Tally(cases=1000, acknowledged=5)
    bad.lose("a7 was acknowledged and is not there")
    run.add(run.row("A", "every call"), "one 17 torn", bad.named("one 17 torn"))
    run.row("A", "every call").planned = 9
    run.row("E", "power cuts").not_run = "there are no loop devices."
    run.mutants = {
        "no_sync": Caught("It never syncs.", "B", "one 3", "a | b", 12, ["B"]),
        "bold": Caught("It dares.", tried=["B"]),
    }
    assert run.failed
    found = report.finding(run, tmp_path)
    page = report.page([found])
    assert "| A | every call | 1,000 | 5 | 1 | 0 | 0 | 0 | 0 |" in page
    assert "| E | power cuts | not run |" in page
    assert "E was not run: there are no loop devices." in page
    assert "A got through 1 of its 9 planned cases." in page
    assert "1 of 2 caught" in page
    assert "| no sync | It never syncs. | B | 12 | `one 3`: a \\| b |" in page
    assert "| bold | It dares. | **nobody** |" in page
    assert "SURVIVED" in report.table(found)
    (_, command, survivor) = report.failures(run)
    assert command.strip() == (
        "make crash LEVEL=ci ARGS='--layer A --seed 42 --case '\"'\"'one 17 torn'\"'\"''"
    )
    assert "bold survived" in survivor
    picture = matrix(found)
    assert "1,000 faults, 5 acknowledged entries, 1 lost" in picture
    assert "not run here" in picture


def test_what_did_not_run_is_named():
    run = Results("ci", 42, None)
    run.row("E", "power cuts").not_run = "there are no loop devices."
    partly = Tally(cases=1)
    partly.count("not run: OOM kill")
    run.add(run.row("F", "faults"), "case", partly)
    run.add(run.row("A", "calls"), "case", Tally(cases=1))
    assert run.not_run == ["E: there are no loop devices.", "F: OOM kill"]
    assert not run.failed


def test_every_mutant_names_layers_that_exist():
    for name in mutants.names():
        module = mutants.load(name)
        assert module.__doc__
        assert callable(module.apply)
        assert set(module.CAUGHT_BY) <= set(LAYERS), name


def test_the_mutants_that_must_be_there():
    assert {
        "acknowledge_before_fsync",
        "checksum_ignored",
        "fsync_retried",
        "index_ahead",
        "no_directory_fsync",
        "no_fdatasync",
        "no_inode_check",
        "posix_lockf",
        "rename_before_fsync",
        "short_write_ignored",
        "stdout_before_flush",
        "truncate_on_middle_damage",
    } <= set(mutants.names())
