"""``holdfast -p`` as one of several clients: it ends what it asked for, and nobody else's turn."""

from __future__ import annotations

import signal
import sys

import pytest

from tests.cli import program as programs
from tests.cli.program import of_type, said, turns, until

BUSY = "run: touch begun; while ! [ -e go ]; do sleep 0.02; done"

HELD_UP = """
import asyncio, pathlib
from holdfast.cli.main import main
from holdfast.runtime.protocol.client import Connection

send = Connection.ask

async def held_up(self, request):
    if type(request).__name__ == "{0}":
        pathlib.Path("reached").touch()
        while not pathlib.Path("released").exists():
            await asyncio.sleep(0.01)
    return await send(self, request)

Connection.ask = held_up
main()
"""


def held_up(program, monkeypatch, request: str, *words: str):
    """Start the program with a slow line to the runner: a request waits for ``released``."""
    with monkeypatch.context() as patch:
        patch.setattr(programs, "PROGRAM", [sys.executable, "-c", HELD_UP.format(request)])
        run = program.start(*words)
    run.end_input()
    until((program.folder / "reached").exists)
    return run


@pytest.fixture
def session(program):
    """A session whose runner is at work on somebody's prompt."""
    done = program.run("-p", BUSY, "--detach", "--allow-all")
    until((program.folder / "begun").exists)
    yield done.out.strip()
    (program.folder / "go").touch()
    program.run("stop", "--all")


def goes_on(program) -> None:
    """See that the turn that ran was left alone."""
    (program.folder / "go").touch()
    until(lambda: turns(program.journal())[-1] != "started")
    assert turns(program.journal()) == ["started", "completed"]


@pytest.mark.parametrize("held", ["StatusOf", "Attach", "Submit"])
def test_a_signal_before_the_prompt_was_taken_cancels_nobody_s_turn(
    program, session, monkeypatch, held
):
    run = held_up(program, monkeypatch, held, "-r", session, "-p", "say: mine")
    run.send(signal.SIGTERM)
    until(lambda: not _pending(run.pid))
    (program.folder / "released").touch()
    assert run.wait() == 143, run.err
    goes_on(program)
    until(lambda: program.run("status", "--json").lines[0]["state"] == "idle")
    assert program.run("status", "--json").lines[0]["queue"] == 0
    assert said(program.journal(), "user") == [BUSY]


def test_a_signal_while_the_prompt_waits_takes_it_back(program, session):
    run = program.start("-r", session, "-p", "say: mine")
    run.end_input()
    until(lambda: len(of_type(program.journal(), "queued")) == 2)
    run.send(signal.SIGTERM)
    assert run.wait() == 143, run.err
    goes_on(program)
    assert program.run("status", "--json").lines[0]["queue"] == 0


def test_a_turn_that_was_cancelled_before_the_prompt_was_taken_is_not_ours(
    program, session, monkeypatch
):
    run = held_up(program, monkeypatch, "Submit", "-r", session, "-p", "say: mine", "--json")
    assert program.run("cancel", session).code == 0
    until(lambda: program.run("status", "--json").lines[0]["state"] == "idle")
    (program.folder / "released").touch()
    assert run.line()["text"] == "mine"
    assert run.wait() == 0, run.err
    assert turns(program.journal()) == ["started", "cancelled", "started", "completed"]


def test_a_turn_that_is_cancelled_before_ours_holds_it(program, session):
    run = program.start("-r", session, "-p", "say: mine", "--json")
    run.end_input()
    until(lambda: len(of_type(program.journal(), "queued")) == 2)
    until(lambda: program.run("status", "--json").lines[0]["clients"] == 1)
    assert program.run("cancel", session).code == 0
    assert (run.line()["state"], run.wait()) == ("cancelled", 1)
    assert program.run("status", "--json").lines[0]["queue"] == 1


def _pending(pid: int) -> bool:
    """Tell whether a signal has not reached a process yet."""
    with open(f"/proc/{pid}/status") as status:
        facts = dict(line.split(":\t", 1) for line in status if ":\t" in line)
    return any(int(facts[name], 16) for name in ("SigPnd", "ShdPnd"))
