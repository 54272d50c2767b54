"""Terminals that die, and keys that are pressed, under every way to run a turn (2.1 to 2.4).

What the foreground does is in ``test_foreground``; what tmux and ssh do, in the crash laboratory.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from holdfast.runtime.protocol.socket_path import run_folder
from tests.cli.program import alive, of_type, said, turns, until
from tests.cli.terminal import Terminal, terminal

BUSY = "run: echo $$ > command; echo started; while ! [ -e go ]; do sleep 0.02; done; echo over"
DEATHS: dict[str, tuple[Callable[[Terminal], None], int]] = {
    "closed": (Terminal.hang_up, 129),
    "SIGHUP": (lambda seen: seen.send(signal.SIGHUP), 129),
    "SIGTERM": (lambda seen: seen.send(signal.SIGTERM), 143),
}


@pytest.fixture
def program(program):
    program.configure('mode = "allow-all"')
    yield program
    program.run("stop", "--all")


@pytest.fixture
def session(program):
    assert program.run("-p", "say: hello").code == 0
    (folder,) = program.sessions()
    return folder.name


def command_of(program) -> int:
    """Wait for a command to leave its process id; return it."""
    place = program.folder / "command"
    until(lambda: place.exists() and place.read_text().endswith("\n"))
    return int(place.read_text())


def ended(program) -> tuple[str, str | None]:
    until(lambda: turns(program.journal())[-1] != "started")
    last = of_type(program.journal(), "turn")[-1]
    return last["state"], last.get("cause")


@pytest.mark.parametrize("death", DEATHS)
def test_attached_the_turn_goes_on_and_another_terminal_comes_back_to_it(program, session, death):
    strike, code = DEATHS[death]
    with terminal(program, "attach", session) as seen:
        seen.type(f"{BUSY}\n")
        seen.shows("started")
        command = command_of(program)
        strike(seen)
        assert seen.wait() == code
    assert alive(command)
    with terminal(program, "attach", session, "--no-input") as seen:
        seen.shows("started")
        (program.folder / "go").touch()
        assert seen.wait() == 0
        assert seen.screen.count("\nstarted\nover\n") == seen.screen.count("started\n") == 1
    assert ended(program) == ("completed", None)


@pytest.mark.parametrize("death", DEATHS)
def test_headless_the_turn_is_saved_and_the_code_says_why(program, death):
    strike, code = DEATHS[death]
    with terminal(program, "-p", BUSY) as seen:
        command = command_of(program)
        strike(seen)
        assert seen.wait() == code
    until(lambda: not alive(command), "the end of the command")
    assert ended(program) == ("cancelled", signal.Signals(code - 128).name)


@pytest.mark.parametrize("death", DEATHS)
def test_handed_over_the_turn_does_not_know_of_the_terminal(program, death):
    strike, _ = DEATHS[death]
    with terminal(program, "-p", BUSY, "--detach") as seen:
        command = command_of(program)
        strike(seen)  # it is about to leave anyway, or has left
        seen.wait()
    assert alive(command)
    (program.folder / "go").touch()
    assert ended(program) == ("completed", None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_a_prompt_is_handed_over_leaves_all_of_it_or_nothing(program, number):
    run = program.start("-p", "say: whole", "--detach")
    run.end_input()
    until(run_folder(program.home).exists)
    run.send(number)
    assert run.wait() in (128 + number, 0)
    if program.sessions():
        until(lambda: said(program.journal(), "assistant") == ["whole"])


def test_ctrl_c_is_a_key_where_somebody_is_attached(program, session):
    with terminal(program, "attach", session) as seen:
        seen.type(f"{BUSY}\n")
        seen.shows("started")
        seen.type("\x03")
        seen.shows("turn cancelled")
        seen.type("say: and on\n")
        seen.shows("\nand on\n")
        until(lambda: program.run("status", "--json").lines[0]["state"] == "idle")
        seen.type("\x03")
        assert seen.wait() == 130
    assert [row["state"] for row in program.run("status", "--json").lines] == ["idle"]


def test_ctrl_c_ends_a_run_without_a_screen(program):
    with terminal(program, "-p", BUSY) as seen:
        command_of(program)
        seen.type("\x03")
        assert seen.wait() == 130
    assert ended(program) == ("cancelled", "SIGINT")


def test_the_end_of_input_leaves_the_turn_running(program, session):
    with terminal(program, "attach", session) as seen:
        seen.type(f"{BUSY}\n")
        seen.shows("started")
        seen.type("\x04")
        assert seen.wait() == 0
        assert f"still running; attach with: holdfast attach {session}" in seen.screen
    (program.folder / "go").touch()
    assert ended(program) == ("completed", None)


def test_where_a_hang_up_ends_turns_leaving_on_purpose_does_not(program, session):
    program.configure('mode = "allow-all"\non_hangup = "stop"')
    with terminal(program, "attach", session) as seen:
        seen.type(f"{BUSY}\n")
        seen.shows("started")
        seen.type("/quit\n")
        assert seen.wait() == 0
    assert program.run("status", "--json").lines[0]["state"] == "running"
    with terminal(program, "attach", session) as seen:
        seen.shows("started")
        until(lambda: program.run("status", "--json").lines[0]["clients"] == 1)
        seen.hang_up()
        assert seen.wait() == 129
    assert ended(program) == ("cancelled", "the last terminal was closed")
