"""Signals in mid-turn: what is in flight is saved, the exit code says which signal (2.3)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cli.program import alive, entries, of_type, results, said, turns, until
from tests.cli.vendor import streamed

ALL = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
# Leaves its own number and that of a child behind.
BUSY = "run: sleep 1000 & echo $! > child; echo $$ > command; echo started; wait"


def numbers(program) -> list[int]:
    """The processes of the command, once they are there."""
    files = [program.folder / "command", program.folder / "child"]
    until(lambda: all(file.exists() and file.read_text().strip() for file in files))
    return [int(file.read_text()) for file in files]


def live_text(session: Path) -> str:
    try:
        found = entries((session / "live.jsonl").read_bytes())
    except FileNotFoundError:
        return ""
    return "".join(event.get("text", "") for event in found)


def cancelled(program, number: signal.Signals) -> None:
    last = of_type(program.journal(), "turn")[-1]
    assert (last["state"], last["cause"]) == ("cancelled", number.name)


@pytest.mark.parametrize("number", ALL)
def test_a_signal_in_mid_tool_saves_the_turn_and_leaves_no_process(program, number):
    run = program.start("-p", BUSY, "--allow-all")
    run.end_input()
    processes = numbers(program)
    (session,) = program.sessions()
    until(lambda: "started" in live_text(session))
    run.send(number)
    assert run.wait() == 128 + number
    cancelled(program, number)
    ((outcome, text),) = results(program.journal())
    assert outcome == "cancelled"
    assert text.startswith("started\n")
    until(lambda: not any(map(alive, processes)), "the end of the command")
    assert f"cancelled: {number.name}" in run.err
    assert not list((session / "spool").rglob("*"))
    assert program.run("-c", "-p", "say: and on").out == "and on\n"
    assert turns(program.journal()) == ["started", "cancelled", "started", "completed"]


@pytest.mark.parametrize(
    ("number", "provider"),
    [(signal.SIGINT, "openai"), (signal.SIGTERM, "anthropic"), (signal.SIGHUP, "openai")],
)
def test_a_signal_in_mid_stream_keeps_what_had_arrived(program, vendor, number, provider):
    server = vendor(streamed(provider, "As far as ", "this", " and on", pause=2))
    words = [*server.options(provider), "--output-format", "stream-json"]
    run = program.start("-p", "tell me", *words)
    run.end_input()
    until(program.sessions)
    (session,) = program.sessions()
    until(lambda: live_text(session) == "As far as this", "the text in the live file")
    run.send(number)
    result = run.lines_until(type="result")[-1]
    assert run.wait() == result["exit_code"] == 128 + number
    assert (result["state"], result["cause"]) == ("cancelled", number.name)
    cancelled(program, number)
    (answer,) = [e for e in of_type(program.journal(), "message") if e["role"] == "assistant"]
    assert answer["stop"] == "interrupted"
    assert said([answer], "assistant") == ["As far as this"]


@pytest.mark.parametrize("number", ALL)
def test_a_signal_while_a_retry_is_waited_for_ends_the_wait(program, number):
    run = program.start("-p", "fail: 529")
    run.end_input()
    run.says("Trying again in")
    run.send(number)
    assert run.wait() == 128 + number
    cancelled(program, number)
    assert said(program.journal(), "user") == ["fail: 529"]


def test_a_signal_in_mid_turn_after_a_model_switch_saves_the_turn_of_the_new_model(program, vendor):
    """Not what was there before the switch: defect 6."""
    server = vendor(streamed("openai", "By the ", "second", " model", pause=2))
    assert program.run("-p", "say: by the first model").code == 0
    run = program.start("-c", "-p", "go on", *server.options("openai", "second-model"))
    run.end_input()
    (session,) = program.sessions()
    until(lambda: live_text(session) == "By the second")
    run.send(signal.SIGHUP)
    assert run.wait() == 129
    journal = program.journal()
    assert said(journal, "user") == ["say: by the first model", "go on"]
    assert said(journal, "assistant") == ["by the first model", "By the second"]
    assert of_type(journal, "meta")[-1]["model"] == "second-model"
    cancelled(program, signal.SIGHUP)
    sums = [entry["seq"] for entry in journal]
    assert sums == sorted(set(sums))


def test_a_hangup_that_is_ignored_stays_ignored(program):
    wait = "run: touch begun; while ! [ -e go ]; do sleep 0.02; done; echo done"
    run = program.start("-p", wait, "--allow-all", before="trap '' HUP")
    run.end_input()
    until((program.folder / "begun").exists)
    run.send(signal.SIGHUP)
    (program.folder / "go").touch()
    assert run.wait() == 0
    assert turns(program.journal()) == ["started", "completed"]
    assert results(program.journal()) == [("completed", "done\n")]


def test_a_command_that_does_not_listen_is_killed_at_the_second_signal(program):
    busy = "trap 'touch told' TERM; echo $$ > command; echo $$ > child; while :; do sleep 0.1; done"
    run = program.start("-p", f"run: {busy}", "--allow-all")
    run.end_input()
    (command, _) = numbers(program)
    run.send(signal.SIGTERM)
    until((program.folder / "told").exists)
    run.send(signal.SIGTERM)
    assert run.wait() == 143
    cancelled(program, signal.SIGTERM)
    until(lambda: not alive(command))


def test_the_first_of_several_signals_counts(program):
    run = program.start("-p", BUSY, "--allow-all")
    run.end_input()
    processes = numbers(program)
    run.send(signal.SIGTERM)
    until(lambda: "cancelled" in turns(program.journal()))
    while run.process.poll() is None:  # down to its very end
        run.send(signal.SIGHUP)
    assert run.wait() == 143
    cancelled(program, signal.SIGTERM)
    until(lambda: not any(map(alive, processes)))
