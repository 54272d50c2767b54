"""The laboratory's own machinery: workers that die, runs that go on, reports that say it."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from types import SimpleNamespace

import pytest

from benchmarks.harness import Progress
from tests.crash import __main__ as runner
from tests.crash import mutants
from tests.crash.lab import report, results, workers
from tests.crash.lab.layer import Layer, Plan
from tests.crash.lab.picture import matrix
from tests.crash.lab.results import Caught, Results
from tests.crash.lab.tally import Tally
from tests.crash.lab.workers import try_cases
from tests.crash.layers import LAYERS


class Toy(Layer):
    """Does what the case says."""

    title = "toy"
    least = {"ci": 3_000}  # noqa: RUF012
    plays = ("1", "2")
    missing = None

    def why_not(self):
        return self.missing

    def cases(self):
        return self.plays

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
        if case == "nothing":
            tally.cases = 0
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
    assert done[case].blames_program == (case == "lose")
    assert done[case].errors == int(case != "lose")


def test_workers_end_together_when_nobody_waits_for_them(plan, monkeypatch):
    granted = []

    class Patient(workers.Worker):
        def join(self, seconds):
            granted.append(seconds)
            super().join(seconds)

    monkeypatch.setattr(workers, "_PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(workers, "Worker", Patient)
    with closing(try_cases(Toy, plan, ["1", "hang", "hang"], 3, 30.0)) as tried:
        assert next(tried)[0] == "1"
    assert len(granted) == 3
    assert sum(granted) <= 0.5
    assert not list(plan.scratch.iterdir())


def test_interrupts_come_through_between_cases(plan):
    with closing(try_cases(Toy, plan, ["1", "2", "3"], 2, 30.0)) as tried:
        next(tried)
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, set())


def test_only_the_first_interrupt_counts():
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(KeyboardInterrupt):
            runner._interrupt(signal.SIGINT, None)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def hunted(plan, monkeypatch, **attributes):
    kind = type("Hunter", (Toy,), {"longest_case_seconds": 1.0, **attributes})
    module = SimpleNamespace(__doc__="It dares.", CAUGHT_BY=("A",), apply=lambda: None)
    monkeypatch.setattr(mutants, "load", lambda _name: module)
    monkeypatch.setattr(mutants, "names", lambda: ["bold"])
    monkeypatch.setattr(runner, "LAYERS", {"A": kind})
    run = Results("ci", 1, None)
    runner.Laboratory(plan, run, Progress()).hunt_mutants(None)
    return run


@pytest.mark.parametrize("case", ["die", "raise", "hang"])
def test_an_error_of_the_laboratory_catches_no_mutant(plan, monkeypatch, tmp_path, case):
    run = hunted(plan, monkeypatch, plays=("1", case))
    assert run.survivors == ["bold"]
    assert run.mutants["bold"].errors == 1
    assert "SURVIVED (1 without a verdict: " in report.table(report.finding(run, tmp_path))
    assert run.failed


def test_a_mutant_is_caught_by_a_broken_promise_though_a_case_before_erred(plan, monkeypatch):
    run = hunted(plan, monkeypatch, plays=("raise", "lose"), workers=1)
    caught = run.mutants["bold"]
    assert (caught.layer, caught.case, caught.how) == ("A", "lose", "it is gone")
    assert not run.failed


def test_a_layer_that_only_errs_is_given_up(plan, monkeypatch):
    run = hunted(plan, monkeypatch, plays=tuple(["raise"] * 50))
    assert run.mutants["bold"].cases < 50


def test_a_mutant_that_no_layer_could_hunt_is_not_a_survivor(plan, monkeypatch, tmp_path):
    run = hunted(plan, monkeypatch, missing="there is no disk.")
    assert not run.survivors
    assert not run.failed
    assert run.not_run == ["mutant bold: no layer that should catch it could run"]
    found = report.finding(run, tmp_path)
    assert "mutant bold: not hunted" in report.table(found)
    assert "0 of 1 caught, 1 not hunted" in report.page([found], "")
    assert "| bold | It dares. | not hunted | 0 |  |" in report.page([found], "")


@pytest.fixture
def laboratory(monkeypatch, tmp_path):
    """Runs a laboratory of one toy; returns exit status and whether a report was written."""
    written: list[report.Finding] = []
    monkeypatch.delenv("HOLDFAST_NOTHING_SKIPPED", raising=False)
    monkeypatch.setattr(report, "write", written.append)
    monkeypatch.setattr(results, "_NOTES", tmp_path / "notes")
    monkeypatch.setattr(runner, "LAYERS", {"B": Toy})
    monkeypatch.setattr(mutants, "load", lambda _name: SimpleNamespace(__doc__="-", CAUGHT_BY=()))

    def run(*arguments, plays=("1", "2")):
        monkeypatch.setattr(Toy, "plays", plays)
        options = runner._options([*arguments, "--scratch", str(tmp_path)])
        written.clear()
        before = signal.getsignal(signal.SIGINT)
        try:
            return runner._run(options), bool(written)
        finally:
            signal.signal(signal.SIGINT, before)

    return run


def test_a_complete_run_must_try_enough(laboratory, capsys):
    assert laboratory() == (1, True)
    assert "B tried 2 cases, fewer than 3,000" in capsys.readouterr().out
    assert laboratory("--layer", "B") == (0, False)
    assert laboratory("--minutes", "1") == (0, False)
    assert "fewer" not in capsys.readouterr().out


def test_what_cannot_run_is_not_too_few():
    run = Results("ci", 1, None)
    run.least = {"E": 90, "F": 2}
    run.row("E", "cuts").not_run = "there is no disk."
    partly = Tally(cases=1)
    partly.count("not run: OOM kill")
    run.add(run.row("F", "faults"), "case", partly)
    assert not run.too_few


def test_the_report_is_written_by_whole_runs_only(laboratory):
    assert laboratory("--level", "nightly") == (0, True)
    assert laboratory("--level", "nightly", "--minutes", "1") == (0, True)
    assert laboratory("--level", "nightly", "--hunt", "no_fdatasync") == (0, False)
    assert laboratory("--level", "nightly", "--layer", "B") == (0, False)


def test_only_mutants_can_be_hunted(capsys):
    with pytest.raises(SystemExit):
        runner._options(["--hunt", "no_such_mutant"])
    assert "invalid choice: 'no_such_mutant'" in capsys.readouterr().err


def test_a_replay_says_what_came_of_it(laboratory, capsys):
    assert laboratory("--layer", "B", "--case", "lose") == (1, False)
    _, counts, failure = capsys.readouterr().out.splitlines()
    assert counts == (
        "B lose: cases 1, acknowledged 2, lost 1, twice 0, refused 0, other 0, errors 0"
    )
    assert failure == "lose: it is gone"
    assert laboratory("--layer", "B", "--case", "1") == (0, False)
    capsys.readouterr()
    assert laboratory("--layer", "B", "--case", "nothing") == (1, False)
    assert "the fault did not strike" in capsys.readouterr().out


def test_notes_are_for_runs_that_may_be_continued(laboratory, tmp_path):
    def notes():
        return len(list((tmp_path / "notes").glob("*.jsonl")))

    nightly = ("--level", "nightly")
    assert laboratory(*nightly, "--layer", "B", "--case", "1") == (0, False)
    assert laboratory(*nightly, "--layer", "B", "--seed", "3") == (0, False)
    assert notes() == 0
    laboratory(*nightly)
    laboratory(*nightly)
    assert notes() == 1
    laboratory(*nightly, "--seed", "3")
    laboratory(*nightly, "--seed", "3")
    assert notes() == 3


def test_a_run_with_a_mutant_leaves_no_notes_and_says_so_in_its_commands(
    laboratory, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(mutants, "apply", lambda _name: None)
    options = ("--level", "nightly", "--layer", "B", "--mutant", "no_fdatasync")
    assert laboratory(*options, plays=("lose",)) == (1, False)
    assert not (tmp_path / "notes").exists()
    assert " --mutant no_fdatasync --case lose'" in capsys.readouterr().out


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
    first.add(first.row("B", "toy"), "case 1", Tally(cases=3, acknowledged=4), 1.5)
    with next(tmp_path.glob("*.jsonl")).open("ab") as notes:
        notes.write(b'{"torn')
    second = Results.begin("nightly", 8, again=False)
    assert second.seed == 7
    assert second.rows["B"].done == {"case 1"}
    assert second.rows["B"].tally.acknowledged == 4
    second.add(second.rows["B"], "case 2", Tally(cases=1), 2.0)
    third = Results.begin("nightly", 8, again=False)
    assert third.rows["B"].done == {"case 1", "case 2"}
    assert third.rows["B"].seconds == 3.5
    assert Results.begin("nightly", 8, again=False, keep=False).rows == {}
    assert Results.begin("nightly", 8, again=True).rows == {}
    assert Results.begin("ci", 8, again=False).rows == {}


def test_a_run_on_a_changed_program_begins_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "_NOTES", tmp_path)
    first = Results.begin("nightly", 7, again=False)
    first.add(first.row("B", "toy"), "case 1", Tally(cases=3))
    monkeypatch.setattr(results, "_digest_of_program", lambda: "another")
    assert Results.begin("nightly", 8, again=False).seed == 8


def test_the_digest_covers_what_the_laboratory_uses(monkeypatch):
    before = results._digest_of_program()
    monkeypatch.setattr("sys.version", "4.0")
    assert results._digest_of_program() != before
    assert all((results.ROOT / name).is_file() for name in results._USED)


def test_the_page_tells_which_run_was_of_an_earlier_program(tmp_path):
    old = report.finding(Results("nightly", 1, None, "old"), tmp_path)
    new = report.finding(Results("ci", 2, None, "new"), tmp_path)
    page = report.page([old, new], "new")
    assert "`make crash LEVEL=nightly` of an earlier version of the program, seed 1" in page
    assert "`make crash`, seed 2" in page


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
    page = report.page([found], "")
    assert "| A | every call | 1,000 (11 % of the plan) | 5 | 1 | 0 | 0 | 0 | 0 | 0 |" in page
    assert "| E | power cuts | not run |" in page
    assert "- **E** was not run: there are no loop devices." in page
    assert "- **A** got through 1 of its 9 planned cases." in page
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
        "live_text_shown_twice",
        "no_directory_fsync",
        "no_fdatasync",
        "no_inode_check",
        "no_live_text_for_latecomers",
        "posix_lockf",
        "rename_before_fsync",
        "runner_in_terminal",
        "short_write_ignored",
        "stdout_before_flush",
        "truncate_on_middle_damage",
    } <= set(mutants.names())
