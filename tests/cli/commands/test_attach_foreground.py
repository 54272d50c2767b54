"""``attach --foreground``: one process, whose end saves the turn and lets go of the session."""

from __future__ import annotations

import signal
import subprocess

import pytest

import holdfast
from holdfast.runtime.protocol.socket_path import run_folder
from tests.cli.program import PROGRAM, alive, of_type, said, turns, until
from tests.cli.run.test_headless_full_disk import fill, small_disk
from tests.cli.terminal import terminal

__all__ = ["small_disk"]
BUSY = "run: echo $$ > command; echo started; while ! [ -e go ]; do sleep 0.02; done; echo over"


def command_of(program) -> int:
    """Wait for a command to leave its process id; return it."""
    place = program.folder / "command"
    until(lambda: place.exists() and place.read_text().endswith("\n"))
    return int(place.read_text())


def let_go(program) -> None:
    """See that nothing is left: no lock, no socket, no damage, nothing to recover."""
    (folder,) = program.sessions()
    with holdfast.open_store(program.home) as store, store.open(folder.name) as session:
        assert session.recovery.clean
    assert list(run_folder(program.home).glob("*.sock")) == []


def cause_of_end(program) -> tuple[str, str | None]:
    last = of_type(program.journal(), "turn")[-1]
    return last["state"], last["cause"]


def test_a_prompt_is_answered_in_this_very_process(program, session):
    with terminal(program, "attach", "--foreground", session) as seen:
        seen.type("run: echo $PPID > parent; echo out\n")
        seen.shows("out")
        (row,) = program.run("status", "--json").lines
        assert (row["session"], row["pid"]) == (session, seen.pid)
        seen.type("/quit\n")
        assert seen.wait() == 0
        assert f"holdfast attach {session}" in seen.screen
    assert turns(program.journal()) == ["started", "completed"] * 2
    let_go(program)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_signal_saves_the_turn_and_lets_go(program, session, number):
    with terminal(program, "attach", "--foreground", session) as seen:
        seen.type(f"{BUSY}\n")
        seen.shows("started")
        command = command_of(program)
        seen.send(number)
        assert seen.wait() == 128 + number
    until(lambda: not alive(command), "the end of the command")
    assert cause_of_end(program) == ("cancelled", number.name)
    let_go(program)
    assert program.run("-c", "-p", "say: and on").out == "and on\n"


def test_a_terminal_that_is_closed_saves_the_turn_and_lets_go(program, session):
    with terminal(program, "attach", "--foreground", session) as seen:
        seen.type(f"{BUSY}\n")
        seen.shows("started")
        command = command_of(program)
        seen.hang_up()
        assert seen.wait() == 129
    until(lambda: not alive(command), "the end of the command")
    assert cause_of_end(program) == ("cancelled", "SIGHUP")
    let_go(program)


SLOW = (
    "trap 'touch told; sleep 1; touch tidied; exit' TERM; echo $$ > command; "
    "while :; do sleep 0.02; done"
)


def test_a_terminal_that_is_closed_insists_on_nothing(program, session):
    """It is noticed as a signal, at the input and at the output: that is one wish to end."""
    with terminal(program, "attach", "--foreground", session) as seen:
        seen.type(f"run: {SLOW}\n")
        command_of(program)
        seen.hang_up()
        assert seen.wait() == 129
    assert (program.folder / "tidied").exists()
    let_go(program)


def test_hang_ups_that_a_shell_hands_on_insist_on_nothing(program, session):
    with terminal(program, "attach", "--foreground", session) as seen:
        seen.type(f"run: {SLOW}\n")
        command_of(program)
        seen.send(signal.SIGHUP)
        until((program.folder / "told").exists)
        seen.send(signal.SIGHUP)
        assert seen.wait() == 129
    assert (program.folder / "tidied").exists()


def test_a_second_signal_insists(program, session):
    with terminal(program, "attach", "--foreground", session) as seen:
        seen.type("run: trap 'touch told' TERM; echo $$ > command; while :; do sleep 0.02; done\n")
        command = command_of(program)
        seen.send(signal.SIGTERM)
        until((program.folder / "told").exists)
        seen.send(signal.SIGTERM)
        assert seen.wait() == 143
    until(lambda: not alive(command), "the end of the command")
    let_go(program)


def test_a_prompt_that_waits_for_room_outlives_its_terminal(program, small_disk):
    program.home = small_disk / "state"
    program.environment["HOLDFAST_HOME"] = str(program.home)
    assert program.run("-p", "say: hi").code == 0
    (folder,) = program.sessions()
    with terminal(program, "attach", "--foreground", folder.name) as seen:
        until(lambda: program.run("status", "--json").lines)
        ballast = fill(small_disk)
        long = b"say: " + b"x" * 400_000
        until(lambda: program.run("send", folder.name, given=long).code == 75)
        seen.hang_up()
        until(lambda: "stopping" in program.run("send", folder.name, "say: too late").err)
        ballast.unlink()
        assert seen.wait() == 129
    with holdfast.open_store(program.home) as store, store.open(folder.name) as session:
        assert long in [blob.read_bytes() for blob in session.path.rglob("*") if blob.is_file()]
        assert len(session.state.queue) == 1


def test_ctrl_c_cancels_the_turn_and_leaves_when_there_is_none(program, session):
    with terminal(program, "attach", "--foreground", session) as seen:
        seen.type(f"{BUSY}\n")
        seen.shows("started")
        command_of(program)
        seen.type("\x03")
        seen.shows("turn cancelled")
        seen.type("say: and on\n")
        until(lambda: said(program.journal(), "assistant")[-1] == "and on")
        until(lambda: turns(program.journal())[-1] == "completed")
        seen.shows("and on\n")
        until(lambda: program.run("status", "--json").lines[0]["state"] == "idle")
        seen.type("\x03")
        assert seen.wait() == 130
    let_go(program)


def test_the_end_of_input_at_a_terminal_ends_the_turn(program, session):
    with terminal(program, "attach", "--foreground", session) as seen:
        seen.type(f"{BUSY}\n")
        seen.shows("started")
        seen.type("\x04")
        assert seen.wait() == 0
    assert cause_of_end(program) == ("cancelled", "its terminal was closed")
    let_go(program)


def test_the_end_of_a_pipe_does_not(program, session):
    given = b"run: sleep 0.3; echo one\nsay: {result}\nsay: two"
    done = program.run("attach", "--foreground", session, given=given)
    assert done.code == 0, done.err
    assert said(program.journal(), "assistant")[-1] == "two"
    assert turns(program.journal()) == ["started", "completed"] * 4
    let_go(program)


def test_the_end_of_a_pipe_is_no_hang_up_either(program, session):
    program.configure('mode = "allow-all"\non_hangup = "stop"')
    given = b"run: sleep 1; echo one\nsay: two"
    done = program.run("attach", "--foreground", session, given=given)
    assert done.code == 0, done.err
    assert turns(program.journal()) == ["started", "completed"] * 3
    let_go(program)


def test_a_question_that_nobody_here_can_answer_can_be_answered_from_elsewhere(program, session):
    program.configure('mode = "ask"')
    run = program.start("attach", "--foreground", session)
    run.process.stdin.write(b"run: echo yes > answered\n")
    run.end_input()
    until(lambda: program.run("status", "--json").lines)  # before, approve would start a runner
    until(lambda: program.run("approve", session, "--show").out)
    assert program.run("approve", session).code == 0
    assert run.wait() == 0, run.err
    assert (program.folder / "answered").exists()
    let_go(program)


def test_others_attach_to_it_and_hear_its_end(program, session):
    with terminal(program, "attach", "--foreground", session) as seen:
        seen.type("say: first\n")
        seen.shows("first\n")
        with terminal(program, "attach", session) as other:
            other.shows("first\n")
            other.type(f"{BUSY}\n")
            seen.shows("started")
            seen.send(signal.SIGTERM)
            assert seen.wait() == 143
            assert other.wait() == 0
            assert "turn cancelled: SIGTERM" in other.screen
    let_go(program)


def test_where_a_runner_has_the_session_it_is_a_client(program, session):
    assert program.run("send", session, BUSY).code == 0
    command = command_of(program)
    with terminal(program, "attach", "--foreground", session) as seen:
        seen.shows("another process already runs this session")
        seen.shows("started")
        seen.send(signal.SIGHUP)
        assert seen.wait() == 129
    assert alive(command)
    (program.folder / "go").touch()
    until(lambda: turns(program.journal())[-1] == "completed")


def test_a_signal_before_it_has_begun_is_not_lost(program, session):
    """Every moment from the first line on: it ends, with the signal's code or by the signal."""
    for _ in range(4):
        with terminal(program, "attach", "--foreground", session) as seen:
            until(lambda: list(run_folder(program.home).glob("*")) or seen.screen)
            seen.send(signal.SIGTERM)
            assert seen.wait() in (143, -signal.SIGTERM)
        let_go(program)
    assert turns(program.journal()) == ["started", "completed"]


def test_a_killed_one_is_recovered_as_any_runner_is(program, session):
    with terminal(program, "attach", "--foreground", session) as seen:
        seen.type("run: echo begun; echo x >> log; sleep 1000\n")
        seen.shows("begun")
        until((program.folder / "log").exists)
        seen.send(signal.SIGKILL)
        assert seen.wait() == -signal.SIGKILL
    with terminal(program, "attach", "--foreground", session) as seen:
        seen.shows("/continue continues this turn")
        seen.type("/quit\n")
        assert seen.wait() == 0
    done = program.run("-r", session, "-p", "--kill-running", "--continue-turn", "--allow-all")
    assert done.code == 0, done.err
    assert (program.folder / "log").read_text() == "x\n"


@pytest.mark.parametrize("verb", ["attach", "send"])
def test_the_first_process_of_a_container_runs_everything_in_the_foreground(program, session, verb):
    if subprocess.run(["unshare", "--pid", "--fork", "true"], check=False).returncode:
        pytest.skip("no namespaces may be made here")
    command = ["unshare", "--pid", "--fork", "--mount-proc", *PROGRAM]
    words = ["send", session, "run: sleep 0.2; echo in"] if verb == "send" else ["attach", session]
    given = "run: sleep 0.2; echo in\n"
    done = subprocess.run(
        [*command, *words],
        cwd=program.folder,
        env=program.environment,
        input=given if verb == "attach" else "",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "turns run in the foreground" in done.stderr
    assert "still running" not in done.stderr
    assert turns(program.journal()) == ["started", "completed"] * 2
    let_go(program)
