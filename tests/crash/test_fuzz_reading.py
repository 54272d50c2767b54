"""What is read from a fuzzer's output: executions that took place, and failures that show again."""

from __future__ import annotations

from subprocess import CompletedProcess

from tests.crash.layers.j_fuzz import _read

STATISTICS = "#9\tDONE   cov: 228 ft: 329\nDone 9 runs\nstat::number_of_executed_units: 9\n"
CRASH = """
 === Uncaught Python exception: ===
AssertionError: numbers do not rise
INFO: Seed: 1
artifact_prefix='x'; Test unit written to /somewhere/fuzz-lines-crash-1234
stat::number_of_executed_units: 7
"""


def read(status: int, output: str):
    return _read("lines", CompletedProcess([], status, "", output))


def test_executions_are_counted():
    tally = read(0, STATISTICS)
    assert not tally.failed
    assert (tally.cases, tally.facts["executions: lines"]) == (9, 9)


def test_a_crash_is_a_failure_that_names_its_input():
    tally = read(77, CRASH)
    assert tally.failed
    assert tally.cases == 7
    assert tally.failures[0].case == "input lines /somewhere/fuzz-lines-crash-1234"
    assert "numbers do not rise" in tally.failures[0].what


def test_a_fuzzer_that_did_not_run_did_not_pass():
    assert read(0, "").failed
    assert read(1, "ModuleNotFoundError").failed
