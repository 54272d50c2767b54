"""``--input-format stream-json``: prompts that arrive one after the other, also in mid-turn."""

from __future__ import annotations

import json
import signal

from tests.cli.program import of_type, results, said, turns, until

STREAMS = ["-p", "--input-format", "stream-json", "--output-format", "stream-json"]
WAIT = "run: touch begun; while ! [ -e go ]; do sleep 0.02; done"


def lines(*prompts: object) -> bytes:
    return "".join(json.dumps(prompt) + "\n" for prompt in prompts).encode()


def test_prompts_are_run_in_turn(program):
    given = lines(
        {"type": "user", "text": "say: one"},
        {"type": "user", "content": "say: two"},
        {"type": "user", "message": {"role": "user", "content": "say: three"}},
        {"content": [{"type": "text", "text": "say: four"}]},
    )
    done = program.run(*STREAMS, given=b"\n" + given.rstrip(b"\n"))  # no newline at the end
    assert done.code == 0
    assert said(program.journal(), "assistant") == ["one", "two", "three", "four"]
    assert turns(program.journal()) == ["started", "completed"] * 4
    assert done.lines[-1]["text"] == "four"
    assert done.lines[-1]["queued"] == 0


def test_no_prompt_at_all_leaves_nothing(program):
    done = program.run(*STREAMS, given=b"")
    assert done.code == 0
    assert done.lines[-1]["resume"] is None
    assert program.sessions() == []
    assert program.run(*STREAMS, shell="<&-").code == 0


def test_a_prompt_that_arrives_in_mid_turn_is_durable_at_once_and_runs_next(program):
    run = program.start(*STREAMS, "--allow-all")
    run.write(WAIT)
    until((program.folder / "begun").exists)
    run.write("say: later")
    until(lambda: len(of_type(program.journal(), "queued")) == 2)
    assert turns(program.journal()) == ["started"]
    (program.folder / "go").touch()
    run.end_input()
    run.lines_until(type="result")
    assert run.wait() == 0
    journal = program.journal()
    assert turns(journal) == ["started", "completed"] * 2
    queued = [entry["seq"] for entry in of_type(journal, "queued")]
    asked = [e.get("queued") for e in of_type(journal, "message") if e["role"] == "user"]
    assert asked == queued


def test_a_prompt_that_arrives_while_the_first_one_runs_is_durable_at_once(program):
    """The prompt of the command line is being answered; the input is read all the same."""
    words = ["--input-format", "stream-json", "--output-format", "stream-json", "--allow-all"]
    run = program.start("-p", WAIT, *words)
    until((program.folder / "begun").exists)
    run.write("say: later")
    until(lambda: of_type(program.journal(), "queued"))
    assert turns(program.journal()) == ["started"]
    (program.folder / "go").touch()
    run.end_input()
    run.lines_until(type="result")
    assert run.wait() == 0
    assert said(program.journal(), "assistant")[-1] == "later"


def test_the_input_may_end_in_mid_turn(program):
    run = program.start(*STREAMS, "--allow-all")
    run.write(WAIT)
    run.end_input()
    until((program.folder / "begun").exists)
    (program.folder / "go").touch()
    run.lines_until(type="result")
    assert run.wait() == 0
    assert turns(program.journal()) == ["started", "completed"]


def test_a_bad_line_is_named_and_the_prompts_before_it_are_answered(program):
    good = lines({"text": "say: one"})
    for number, (bad, why) in enumerate(
        [
            (b"not json\n", "not a prompt"),
            (b'{"type": "system", "text": "x"}\n', "not an object of type user"),
            (b'{"text": " "}\n', "it is empty"),
            (b'{"content": [{"type": "tool_result", "call_id": "x"}]}\n', "not a prompt"),
            (b'{"text": "\xff"}\n', "not a prompt"),
            (b"[" * 100_000 + b"\n", "not a prompt"),
        ],
        start=1,
    ):
        done = program.run(*STREAMS, given=good + b"\n" + bad + good)
        assert done.code == 2
        result = done.lines[-1]
        assert result["cause"].startswith("Line 3 of the input"), result
        assert why in result["cause"]
        assert result["text"] == "one"
        assert len(program.sessions()) == number
        assert said(program.journal(result["session_id"]), "assistant") == ["one"]


def test_a_prompt_that_nobody_can_answer_ends_it_with_4(program):
    done = program.run(*STREAMS, given=lines({"text": "say: one"}, {"text": "fix my code"}))
    assert done.code == 4
    assert "ANTHROPIC_API_KEY" in done.lines[-1]["cause"]
    assert said(program.journal(), "user") == ["say: one"]


def test_sigterm_ends_it_while_it_waits_for_input(program):
    run = program.start(*STREAMS)
    run.write("say: one")
    run.lines_until(type="turn", state="completed")
    run.send(signal.SIGTERM)
    result = run.lines_until(type="result")[-1]
    assert run.wait() == result["exit_code"] == 128 + signal.SIGTERM
    assert turns(program.journal()) == ["started", "completed"]
    assert program.run("-c", "-p", "say: on").code == 0


def test_a_failure_holds_the_queue_and_run_queue_runs_it_once(program):
    run = program.start(*STREAMS, "--allow-all")
    run.write("run: touch begun; while ! [ -e go ]; do sleep 0.02; done\nfail: 400")
    until((program.folder / "begun").exists)
    run.write("run: echo x >> ran", "say: last")
    until(lambda: len(of_type(program.journal(), "queued")) == 3)
    (program.folder / "go").touch()
    result = run.lines_until(type="result")[-1]
    assert run.wait() == 1
    assert (result["state"], result["queued"]) == ("failed", 2)
    assert not (program.folder / "ran").exists()

    done = program.run("-c", "-p", "say: hello")  # asked for something else: it stays held
    assert done.code == 0
    assert "2 prompt(s) are queued" in done.err
    for _ in range(2):
        done = program.run("-c", "-p", "--run-queue", "--allow-all")
        assert done.code == 0
    assert (program.folder / "ran").read_text() == "x\n"
    assert said(program.journal(), "assistant").count("last") == 1


def test_a_killed_program_leaves_its_queue_to_be_run_once(program):
    run = program.start(*STREAMS, "--allow-all")
    run.write(WAIT, "run: echo x >> ran")
    until((program.folder / "begun").exists)
    until(lambda: len(of_type(program.journal(), "queued")) == 2)
    run.kill()
    (program.folder / "go").touch()
    done = program.run("-c", "-p", "--run-queue", "--allow-all", "--json")
    assert done.code == 0
    assert done.object["queued"] == 0
    assert (program.folder / "ran").read_text() == "x\n"
    assert results(program.journal())[-1][0] == "completed"


def test_a_line_that_never_ends_is_refused(program):
    done = program.run(*STREAMS, shell="</dev/zero")
    assert done.code == 2
    assert "longer than" in done.lines[-1]["cause"]
    assert program.sessions() == []
