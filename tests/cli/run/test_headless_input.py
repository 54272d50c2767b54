"""Where headless mode takes its prompt from."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import termios
from typing import IO

import pytest

from tests.cli.program import PROGRAM, said, until


def unread(pipe: IO[bytes] | int) -> int:
    """How many bytes of a pipe nobody has read yet."""
    count = fcntl.ioctl(pipe, termios.FIONREAD, struct.pack("i", 0))
    return int(struct.unpack("i", count)[0])


def prompt_of(program) -> str:
    return said(program.journal(), "user")[0]


def test_a_pipe_is_added_to_the_prompt_in_tags(program):
    assert program.run("-p", "say: look", given="piped ✓\n\n".encode()).code == 0
    assert prompt_of(program) == "say: look\n\n<stdin>\npiped ✓\n</stdin>"


@pytest.mark.parametrize("words", [["-p", "-"], ["-p"]])
def test_a_pipe_is_the_prompt(program, words):
    done = program.run(*words, given=b"say: from a pipe\n")
    assert (done.code, done.out) == (0, "from a pipe\n")
    assert prompt_of(program) == "say: from a pipe\n"


@pytest.mark.parametrize(
    "words",
    [
        ["-p", "--json", "say: hello"],
        ["--json", "-p", "say: hello"],
        ["-p", "say: hello", "--json"],
        ["--json", "--print=say: hello"],
        ["--json", "-p", "--", "say: hello"],
    ],
)
def test_options_stand_anywhere(program, words):
    done = program.run(*words)
    assert done.code == 0
    assert done.object["text"] == "hello"


@pytest.mark.parametrize(
    ("option", "prompt"),
    [("-p", "- say: x"), ("-p", "--fix the thing"), ("-p", "-- what"), ("--print", "-c is what?")],
)
def test_a_prompt_may_begin_with_a_dash(program, option, prompt):
    script = program.script({"say": "understood"})
    done = program.run(
        option, prompt, "--script", script, "--ephemeral", "--output-format=stream-json"
    )
    assert done.code == 0, done.err
    assert said(done.lines, "user") == [prompt]


def test_a_prompt_may_have_the_name_of_a_command(program):
    script = program.script({"say": "understood"})
    assert program.run("-p", "ls", "--script", script).out == "understood\n"
    assert prompt_of(program) == "ls"


@pytest.mark.parametrize("shell", ["</dev/null", "<&-"])
def test_without_input_the_prompt_stands_alone(program, shell):
    assert program.run("-p", "say: hello", shell=shell).out == "hello\n"
    assert prompt_of(program) == "say: hello"


@pytest.mark.parametrize("words", [["-p", "-"], ["-p"]])
@pytest.mark.parametrize("shell", ["</dev/null", "<&-"])
def test_without_input_and_prompt_there_is_nothing_to_do(program, words, shell):
    done = program.run(*words, shell=shell)
    assert done.code == 2
    assert "The prompt is empty" in done.err


def test_a_pipe_that_nobody_closes_is_given_up_if_there_is_a_prompt(program):
    run = program.start("-p", "say: hello")
    assert run.wait() == 0
    assert "nothing came from standard input" in run.err
    assert prompt_of(program) == "say: hello"


def test_input_that_is_no_text_is_refused(program):
    done = program.run("-p", "say: hello", given=b"fine \xff\xfe")
    assert done.code == 2
    assert "not UTF-8 text (byte 5)" in done.err
    assert program.sessions() == []


def test_input_that_never_ends_is_refused(program):
    done = program.run("-p", "say: hello", shell="</dev/zero")
    assert done.code == 2
    assert "longer than" in done.err
    assert program.sessions() == []


def test_input_that_cannot_be_read_is_refused(program):
    done = program.run("-p", "say: hello", shell="0>/dev/null")
    assert done.code == 2
    assert "Cannot read standard input: Bad file descriptor." in done.err


def test_much_input_is_kept_whole(program):
    text = "line of text\n" * 100_000
    assert program.run("-p", "say: hello", given=text.encode()).code == 0
    done = program.run("-c", "-p", "say: again", "--json")
    assert done.code == 0
    (entry,) = [each for each in program.journal() if "line of text" in str(each)][:1]
    assert entry["type"] == "message"
    stored = b"".join(path.read_bytes() for path in program.home.rglob("*") if path.is_file())
    assert stored.count(b"line of text") >= 100_000


def test_input_that_does_not_block_is_waited_for(program):
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    run = subprocess.Popen(
        [*PROGRAM, "-p", "-"],
        cwd=program.folder,
        env=program.environment,
        stdin=reader,
        stdout=subprocess.PIPE,
    )
    os.close(reader)
    os.write(writer, b"say: slow")
    until(lambda: unread(writer) == 0)
    os.write(writer, b"ly\n")
    os.close(writer)
    assert run.communicate(timeout=60)[0] == b"slowly\n"
    assert run.returncode == 0


def test_an_interrupt_while_it_waits_for_input_leaves_nothing(program):
    run = program.start("-p", "-")
    assert run.process.stdin is not None
    run.process.stdin.write(b"say: hel")
    run.process.stdin.flush()
    until(lambda: unread(run.process.stdin) == 0)
    run.send(signal.SIGINT)
    assert run.wait() == 130
    assert program.sessions() == []
