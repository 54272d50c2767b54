"""Death at any moment: what was finished is on disk, what was streamed is kept, no call runs twice.

The program is killed with signal 9, so nothing that it does at its end can help.
"""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.cli.program import alive, entries, of_type, results, said, turns, until
from tests.cli.vendor import streamed
from tests.runtime.providers.wire import call, call_block, chat_reply, messages_reply

# Leaves a mark for each time that it runs, and its number; goes on until it is let go.
COMMAND = "echo x >> ran; echo $$ > command; echo working; {}; echo finished".format(
    "while ! [ -e go ]; do sleep 0.02; done"
)


def killed_in_mid_tool(program, *words: str) -> int:
    """Kill the program while its command runs; return the command's number."""
    run = program.start("-p", f"say: I begin.\nrun: {COMMAND}", "--allow-all", *words)
    run.end_input()
    until(lambda: "working" in live_text(program))
    run.kill()
    return int((program.folder / "command").read_text())


def live_text(program) -> str:
    """What the live file of the only session holds."""
    files = [session / "live.jsonl" for session in program.sessions()]
    found = [e for file in files if file.exists() for e in entries(file.read_bytes())]
    return "".join(e.get("text", "") for e in found if e.get("kind") != "tool_call")


def let_go(program, command: int) -> None:
    (program.folder / "go").touch()
    until(lambda: not alive(command))


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_every_finished_message_is_on_disk_in_mid_turn_in_every_format(program, output):
    """Not at a clean exit: 1.1, 1.7, defects 9 and 17."""
    command = killed_in_mid_tool(program, "--output-format", output)
    journal = program.journal()
    assert said(journal, "user") == [f"say: I begin.\nrun: {COMMAND}"]
    assert said(journal, "assistant") == ["I begin."]
    assert len(of_type(journal, "usage")) == 1
    assert len(of_type(journal, "approval")) == 1
    assert [entry["state"] for entry in of_type(journal, "tool")] == ["started"]
    assert turns(journal) == ["started"]
    let_go(program, command)


def test_the_prompt_is_on_disk_before_the_provider_is_asked(program, vendor):
    """Defect 17 in full: not even a first byte has come."""
    server = vendor(streamed("openai", "never seen", pause=0))
    run = program.start("-p", "think hard", *server.options("openai"))
    run.end_input()
    server.asked()
    run.kill()
    assert said(program.journal(), "user") == ["think hard"]
    assert turns(program.journal()) == ["started"]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_streamed_text_is_in_the_live_file_at_once_and_in_the_session_after_a_kill(
    program, vendor, provider
):
    """1.3; and whoever goes on is told that it broke off (3.2)."""
    server = vendor(
        streamed(provider, "As far as ", "this", " and on", pause=2),
        streamed(provider, "The rest."),
    )
    run = program.start("-p", "tell me", *server.options(provider))
    run.end_input()
    until(lambda: live_text(program) == "As far as this")
    run.kill()
    done = program.run("-c", "-p", "--continue-turn", "--json")
    assert (done.code, done.object["text"]) == (0, "The rest.")
    assert "an answer was interrupted; the received part is saved" in done.err
    answers = [e for e in of_type(program.journal(), "message") if e["role"] == "assistant"]
    assert said(answers, "assistant") == ["As far as this", "The rest."]
    assert [answer["stop"] for answer in answers] == ["interrupted", "end"]
    assert "As far as this" in str(server.received[-1].body)
    assert live_text(program) == ""


def test_a_command_that_ended_after_the_program_had_died_is_completed_and_not_run_again(program):
    let_go(program, killed_in_mid_tool(program))
    done = program.run("-c", "-p", "--continue-turn", "--allow-all", "--output-format=stream-json")
    assert done.code == 0
    (report,) = [line for line in done.lines if line["type"] == "recovery" and line["calls"]]
    assert [found["state"] for found in report["calls"]] == ["completed"]
    assert results(program.journal())[-1] == ("completed", "working\nfinished\n")
    assert (program.folder / "ran").read_text() == "x\n"
    assert turns(program.journal()) == ["started", "completed"]


def test_a_command_that_still_runs_is_named_and_waited_for(program):
    killed_in_mid_tool(program)
    run = program.start("-c", "-p", "--continue-turn", "--allow-all")
    run.says("is still running (process ")
    run.says("Waiting")
    (program.folder / "go").touch()
    assert run.wait() == 0
    assert results(program.journal())[-1] == ("completed", "working\nfinished\n")
    assert (program.folder / "ran").read_text() == "x\n"


def test_another_prompt_closes_the_interrupted_turn_and_runs_nothing_again(program):
    command = killed_in_mid_tool(program)
    done = program.run("-c", "-p", "say: something else", "--allow-all")
    assert (done.code, done.out) == (0, "something else\n")
    assert "was interrupted" in done.err
    assert "is still running (process " in done.err
    let_go(program, command)
    assert turns(program.journal()) == ["started", "failed", "started", "completed"]
    assert (program.folder / "ran").read_text() == "x\n"
    assert program.run("-c", "-p", "say: more").code == 0
    assert (program.folder / "ran").read_text() == "x\n"


@pytest.mark.parametrize(("before", "after"), [("anthropic", "openai"), ("openai", "anthropic")])
def test_what_a_kill_left_makes_a_request_that_the_other_vendor_accepts(
    program, vendor, before, after
):
    """A call without a result gets one that tells the truth: 3.2."""
    arguments = '{"command": "echo $$ > command; echo working; exec sleep 1000"}'
    asked = {
        "anthropic": lambda: messages_reply(
            call_block(0, "toolu_1", "bash", arguments), stop="tool_use"
        ),
        "openai": lambda: chat_reply([call(0, "call_1", "bash", arguments)], "tool_calls"),
    }
    server = vendor(asked[before](), streamed(after, "I see."))
    run = program.start("-p", "do it", "--allow-all", *server.options(before))
    run.end_input()
    until(lambda: "working" in live_text(program))
    run.kill()
    words = server.options(after, "another-model")
    done = program.run("-c", "-p", "what happened?", *words)
    assert (done.code, done.out) == (0, "I see.\n")
    pid = int((program.folder / "command").read_text())
    (*_, (outcome, told)) = results(program.journal())
    running = f"[the command is still running as process {pid}]"
    assert (outcome, told) == ("unknown", f"working\n{running}")
    sent = json.dumps(server.received[-1].body)  # held against the vendor's rules when it closes
    assert running in sent
    os.kill(pid, signal.SIGKILL)
