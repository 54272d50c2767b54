"""What headless mode prints, and how it ends when nobody takes it."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from tests.cli.program import PROGRAM, alive, entries, results, said, turns, until


def test_text_prints_only_the_last_answer(program):
    script = program.script(
        {"think": "hm"},
        {"say": "First I look."},
        {"call": "bash", "arguments": {"command": "echo output"}},
        {"say": "That is\nall.\n\n"},
    )
    done = program.run("-p", "anything", "--script", script, "--allow-all")
    assert (done.code, done.out) == (0, "That is\nall.\n")


def test_json_prints_one_object(program):
    done = program.run("-p", "say: hello", "--json")
    assert done.code == 0
    assert done.out.count("\n") == 1
    (session,) = program.sessions()
    result = done.object
    assert result.pop("duration_seconds") >= 0
    assert result == {
        "type": "result",
        "session_id": session.name,
        "ok": True,
        "state": "completed",
        "cause": None,
        "exit_code": 0,
        "text": "hello",
        "provider": "rehearsal",
        "model": "rehearsal",
        "requests": 1,
        "usage": {"input": 2, "output": 1, "cache_read": 0, "cache_write": 0},
        "cost_usd": 0.0,
        "total_cost_usd": 0.0,
        "denied": [],
        "queued": 0,
        "resume": f"holdfast -r {session.name}",
    }


def test_stream_json_is_the_journal_between_a_first_and_a_last_line(program):
    words = ["-p", "run: echo hi\nsay: done", "--allow-all", "--output-format", "stream-json"]
    done = program.run(*words)
    assert done.code == 0
    first, *between, last = done.out.encode().splitlines(keepends=True)
    (session,) = program.sessions()
    told = json.loads(first)
    assert told["type"] == "session"
    assert told["session_id"] == session.name
    assert (told["provider"], told["model"], told["resumed"]) == ("rehearsal", "rehearsal", False)
    assert b"".join(between) == (session / "journal.jsonl").read_bytes()
    result = json.loads(last)
    assert result["type"] == "result"
    assert result["resume"] == f"holdfast -r {session.name}"
    assert result["usage"]["output"] > 0
    assert result["cost_usd"] == 0.0


def test_stream_json_of_a_resumed_session_has_only_what_is_new(program):
    assert program.run("-p", "say: one").code == 0
    (session,) = program.sessions()
    before = (session / "journal.jsonl").read_bytes()
    done = program.run("-c", "-p", "say: two", "--output-format", "stream-json")
    first, *between, _ = done.out.encode().splitlines(keepends=True)
    assert json.loads(first)["resumed"] is True
    assert before + b"".join(between) == (session / "journal.jsonl").read_bytes()


def test_every_line_of_stream_json_is_in_the_journal_when_it_arrives(program):
    """Listeners are told after the write is durable: 1.1, defect 18."""
    prompt = "run: echo hi\nparallel:\nrun: echo a\nrun: echo b\n\nsay: done"
    run = program.start("-p", prompt, "--allow-all", "--output-format", "stream-json")
    run.end_input()
    session = run.line()["session_id"]
    kinds = set()
    while (line := run.line())["type"] != "result":
        assert line in program.journal(session)
        kinds.add(line.get("role", line["type"]))
    assert {"user", "assistant", "tool", "system", "usage", "turn", "approval"} <= kinds
    assert run.wait() == 0


def test_a_failing_provider_exits_1_and_says_why(program):
    done = program.run("-p", "fail: 400", "--json")
    assert done.code == done.object["exit_code"] == 1
    assert (done.object["ok"], done.object["state"]) == (False, "failed")
    assert "400" in done.object["cause"]
    assert turns(program.journal()) == ["started", "failed"]


def test_a_damaged_session_exits_65_and_is_left_as_it_is(program):
    assert program.run("-p", "say: hello").code == 0
    journal = program.sessions()[0] / "journal.jsonl"
    journal.write_bytes(b"\0" * 4096)
    done = program.run("-r", journal.parent.name, "-p", "say: more")
    assert done.code == 65
    assert journal.read_bytes() == b"\0" * 4096


def test_half_characters_are_survived(program):
    done = program.run("-p", os.fsdecode(b"say: a\xff"))
    assert (done.code, done.out) == (0, "a?\n")
    done = program.run("-p", os.fsdecode(b"say: a\xff"), "--json")
    assert done.object["text"] == "a\udcff"


def test_a_terminal_is_not_sent_control_sequences(program):
    script = program.script({"say": "\x1b]0;owned\x07red \x1b[31malert"})
    words = ["-p", "x", "--script", str(script)]
    reader, terminal = os.openpty()
    run = subprocess.Popen(
        [*PROGRAM, *words],
        cwd=program.folder,
        env=program.environment,
        stdin=terminal,  # and is not read: nothing ever comes from there
        stdout=terminal,
        stderr=subprocess.DEVNULL,
    )
    os.close(terminal)
    shown = b""
    try:
        while piece := os.read(reader, 4096):
            shown += piece
    except OSError:
        pass  # the other end is closed
    os.close(reader)
    assert run.wait(timeout=60) == 0
    assert shown == b"red alert\r\n"


# Nobody takes it


def test_a_reader_who_leaves_in_the_middle_ends_the_turn_with_141_and_all_is_saved(program):
    prompt = "run: echo one; touch begun; while ! [ -e go ]; do sleep 0.02; done\nrun: touch never"
    run = program.start("-p", prompt, "--allow-all", "--output-format", "stream-json")
    run.end_input()
    until((program.folder / "begun").exists)
    run.leave()
    (program.folder / "go").touch()
    assert run.wait() == 141
    assert turns(program.journal())[-1] == "cancelled"
    assert results(program.journal())[0] == ("completed", "one\n")
    assert not (program.folder / "never").exists()
    assert program.run("-c", "-p", "say: on").code == 0


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_reader_who_has_gone_before_the_answer_is_141(program, output):
    run = program.start("-p", "run: true", "--allow-all", "--output-format", output)
    run.leave()
    run.end_input()
    assert run.wait() == 141
    assert turns(program.journal()) == ["started", "completed"]


def test_a_full_output_is_said_and_exits_1(program):
    done = program.run("-p", "say: hello", shell=">/dev/full")
    assert done.code == 1
    assert "Cannot write to standard output: No space left on device." in done.err
    assert said(program.journal(), "assistant") == ["hello"]


def test_a_full_output_ends_a_streamed_turn(program):
    words = ["-p", "run: sleep 1000", "--allow-all", "--output-format", "stream-json"]
    done = program.run(*words, shell=">/dev/full")
    assert done.code == 1
    assert "No space left on device" in done.err
    assert all(turns(program.journal(session))[-1] == "cancelled" for session in program.sessions())


@pytest.mark.parametrize("shell", [">&-", "2>&-", ">&- 2>&- <&-", "2>/dev/full"])
def test_a_stream_that_is_closed_is_one_that_nobody_asked_for(program, shell):
    """And no file of the session gets its number: what is printed there is not in the journal."""
    program_itself = "$(cut -d' ' -f4 /proc/$PPID/stat)"  # the wrapper's parent
    prompt = f"run: echo out; echo err >&2; readlink /proc/{program_itself}/fd/[012]"
    assert program.run("-p", "say: first").code == 0
    (session,) = program.sessions()
    words = ["-r", session.name, "-p", prompt]  # opened before anything else takes the places
    done = program.run(*words, "--allow-all", "--output-format", "stream-json", shell=shell)
    assert done.code == 0
    assert turns(program.journal()) == ["started", "completed"] * 2
    out, err, *places = results(program.journal())[0][1].splitlines()
    assert (out, err, len(places)) == ("out", "err", 3)
    assert not any(place.startswith(str(program.home)) for place in places)
    assert program.run("verify", session.name).code == 0


def test_an_error_keeps_its_exit_code_when_it_cannot_be_said(program):
    assert program.run("-p", "fix my code", shell="2>/dev/full").code == 4
    assert program.run("-p", "fix my code", shell="2>&-").code == 4


def test_an_output_that_does_not_block_is_waited_for(program):
    """A program that shares the pipe may have made it so; it loses nothing."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    text = "word " * 40_000  # more than a pipe holds
    script = program.script({"say": text})
    run = subprocess.Popen(
        [*PROGRAM, "-p", "x", "--script", str(script), "--output-format", "stream-json"],
        cwd=program.folder,
        env=program.environment,
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=subprocess.DEVNULL,
    )
    os.close(writer)
    until(lambda: program.sessions() and "completed" in turns(program.journal()))
    with os.fdopen(reader, "rb") as pipe:
        lines = entries(pipe.read())
    assert run.wait(timeout=60) == 0
    assert lines[-1]["text"] == text


def test_a_reader_who_has_stopped_reading_cannot_keep_it_from_ending(program):
    script = program.script({"say": "word " * 40_000})
    run = program.start("-p", "x", "--script", script, "--output-format", "stream-json")
    run.end_input()
    until(lambda: program.sessions() and "completed" in turns(program.journal()))
    run.send(signal.SIGTERM)
    assert run.wait() == 128 + signal.SIGTERM
    assert not alive(run.pid)
