"""``holdfast stop``: everybody is told first, and what keeps a runner is said."""

from __future__ import annotations

import pytest

from tests.cli.program import alive, turns, until
from tests.cli.run.test_headless_full_disk import fill, small_disk

__all__ = ["small_disk"]
STUBBORN = "trap 'touch {0}.told' TERM; touch {0}.begun; while ! [ -e {0}.go ]; do sleep 0.02; done"
NAMES = ("a", "b", "c")


@pytest.fixture
def program(program):
    yield program
    program.run("stop", "--all")


def test_all_are_told_before_any_is_waited_for(program):
    for name in NAMES:
        done = program.run("-p", f"run: {STUBBORN.format(name)}", "--detach", "--allow-all")
        assert done.code == 0, done.err
        until((program.folder / f"{name}.begun").exists)
    run = program.start("stop", "--all")
    for name in NAMES:
        until((program.folder / f"{name}.told").exists)
    assert run.process.poll() is None
    for name in NAMES:
        (program.folder / f"{name}.go").touch()
    assert run.wait() == 0, run.err
    for folder in program.sessions():
        assert turns(program.journal(folder)) == ["started", "cancelled"]


def test_what_keeps_a_runner_is_said(program, small_disk):
    program.home = small_disk / "state"
    program.environment["HOLDFAST_HOME"] = str(program.home)
    session = program.run("-p", "say: hi", "--detach").out.strip()
    until(lambda: turns(program.journal()) == ["started", "completed"])
    (row,) = program.run("status", "--json").lines
    ballast = fill(small_disk)
    long = b"say: " + b"x" * 400_000
    until(lambda: program.run("send", session, given=long).code == 75)
    run = program.start("stop", session)
    run.says("Disk full")
    assert f"holdfast: {session}: " in run.err
    assert run.process.poll() is None
    assert alive(row["pid"])
    ballast.unlink()
    assert run.wait() == 0
    assert program.run("verify", session).code == 0
