"""``holdfast -p`` with a runner: handing a prompt over, and being the client of one that runs."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.cli.program import PROGRAM, Program, alive, results, said, turns, until


@pytest.fixture
def program(program):
    yield program
    program.run("stop", "--all")


def detached(program: Program, prompt: str, *words: str) -> str:
    """Hand a prompt over; return the session's id."""
    done = program.run("-p", prompt, "--detach", *words)
    assert (done.code, len(done.out.split())) == (0, 1), done.err
    assert f"attach with: holdfast attach {done.out.strip()}" in done.err
    return done.out.strip()


def status(program: Program) -> list[dict[str, object]]:
    return program.run("status", "--json").lines


def process_of_command(program: Program) -> int:
    """Wait for a command to leave its process id; return it."""
    place = program.folder / "command"
    until(lambda: place.exists() and place.read_text().endswith("\n"))
    return int(place.read_text())


def test_a_prompt_is_handed_over_and_goes_on_without_its_client(program):
    session = detached(
        program, "run: until [ -e go ]; do sleep 0.01; done; echo done", "--allow-all"
    )
    (row,) = status(program)
    assert (row["session"], row["state"]) == (session, "running")
    (program.folder / "go").touch()
    until(lambda: turns(program.journal()) == ["started", "completed"])
    assert [outcome for outcome, _ in results(program.journal())] == ["completed"]


def test_the_id_is_printed_as_an_object_too(program):
    done = program.run("-p", "say: hi", "--detach", "--json", "-n", "greeting")
    assert done.object["attach"] == f"holdfast attach {done.object['session_id']}"
    until(lambda: turns(program.journal()) == ["started", "completed"])
    assert program.run("ls").out.count("greeting") == 1


def test_nobody_to_answer_is_told_before_anything_is_started(program):
    done = program.run("-p", "fix my code", "--detach")
    assert done.code == 4
    assert "ANTHROPIC_API_KEY" in done.err
    assert not (program.home / "run").exists()
    assert program.sessions() == []


def test_a_prompt_for_a_session_that_runs_is_answered_by_its_runner(program):
    session = detached(program, "say: first", "--allow-all")
    done = program.run("-c", "-p", "say: second")
    assert (done.code, done.out) == (0, "second\n")
    assert "the model of the running session" in done.err
    done = program.run("-r", session, "-p", "run: touch made", "--output-format", "stream-json")
    first, *entries, last = done.lines
    assert (first["type"], first["session_id"]) == ("session", session)
    assert (last["type"], last["ok"], last["requests"]) == ("result", True, 2)
    journal = (program.sessions()[0] / "journal.jsonl").read_bytes().splitlines()
    raw = done.out.encode().splitlines()[1:-1]
    assert [line for line in journal if line in raw] == raw
    assert entries[0]["type"] == "queued"
    assert (program.folder / "made").exists()
    assert len(status(program)) == 1


def test_what_needs_an_approval_is_refused_as_in_any_run_without_a_screen(program):
    detached(program, "say: first")
    done = program.run("-c", "-p", "run: touch made", "--json")
    assert done.code == 0
    assert [each["subject"] for each in done.object["denied"]] == ["touch made"]
    assert not (program.folder / "made").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_cancels_the_turn_and_leaves_the_runner(program, number):
    detached(program, "say: first", "--allow-all")
    run = program.start("-c", "-p", "run: echo $$ > command; exec sleep 1000")
    run.end_input()
    until(
        lambda: (program.folder / "command").exists() and (program.folder / "command").read_text()
    )
    pid = int((program.folder / "command").read_text())
    run.send(number)
    assert run.wait() == 128 + number
    until(lambda: not alive(pid))
    assert turns(program.journal())[-1] == "cancelled"
    assert [row["state"] for row in status(program)] == ["idle"]


def test_limits_hold_for_a_turn_that_is_handed_over(program):
    path = program.script(*[{"call": "glob", "arguments": {"pattern": "*"}}] * 9)
    session = detached(program, "go", "--script", str(path), "--max-turns", "3")
    until(lambda: turns(program.journal()) == ["started", "cancelled"])
    assert len(said(program.journal(), "assistant")) == 3
    done = program.run("-r", session, "-p", "go", "--max-turns", "1")
    assert done.code == 3
    assert "--max-turns" in done.err


def test_a_turn_that_its_runner_did_not_survive_is_gone_on_with(program):
    session = detached(
        program, "run: echo once >> log; echo $$ > command; sleep 1000", "--allow-all"
    )
    until(
        lambda: (program.folder / "command").exists() and (program.folder / "command").read_text()
    )
    (row,) = status(program)
    os.kill(int(str(row["pid"])), signal.SIGKILL)
    done = program.run("-r", session, "-p", "--kill-running", "--continue-turn", "--allow-all")
    assert done.code == 0
    assert "is still running" in done.err
    assert (program.folder / "log").read_text() == "once\n"
    assert turns(program.journal()) == ["started", "completed"]


def test_what_cannot_be_changed_while_it_runs_is_said(program):
    detached(program, "say: first")
    done = program.run("-c", "-p", "say: second", "--allow-all")
    assert done.code == 2
    assert "holdfast stop" in done.err


@pytest.mark.parametrize("words", [["--ephemeral"], ["--input-format", "stream-json"]])
def test_what_does_not_go_with_handing_over_is_said(program, words):
    assert program.run("-p", "say: x", "--detach", *words).code == 2


def test_as_the_first_process_of_a_container_it_stays_in_the_foreground(program):
    if subprocess.run(["unshare", "--pid", "--fork", "true"], check=False).returncode:
        pytest.skip("no namespaces may be made here")
    command = ["unshare", "--pid", "--fork", "--mount-proc", *PROGRAM]
    done = subprocess.run(
        [*command, "-p", "say: hi", "--detach"],
        cwd=program.folder,
        env=program.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "hi\n"
    assert "turns run in the foreground" in done.stderr
    assert not (program.home / "run").exists()
