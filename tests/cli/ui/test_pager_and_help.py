"""What the keeper's commands share: help, completion, a pager, readers that leave."""

import os
import pty
import select
import subprocess

import pytest

from tests.cli.kept import BUILD, DOCS, put, put_build
from tests.cli.program import PROGRAM, Program

VERBS = (
    "completion export fork gc import ls path rename restore rm show tag tail".split()  # noqa: SIM905
)


@pytest.mark.parametrize("verb", VERBS)
def test_help_teaches_with_an_example(program, verb):
    done = program.run(verb, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"Usage: holdfast {verb} ")
    assert "--json" in done.out
    assert f"holdfast {verb}" in done.out.partition("\n")[2]
    assert max(len(line) for line in done.out.splitlines()) <= 80
    assert not program.home.exists()


@pytest.mark.parametrize(
    "words", [["ls"], ["show", BUILD], ["export", BUILD], ["tail", BUILD], ["tag"]]
)
def test_a_reader_that_has_gone_ends_it_quietly(program, words):
    put_build(program)
    put(program, DOCS, tags=["x"])
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [*PROGRAM, *words],
        cwd=program.folder,
        env=program.environment,
        stdout=write_end,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


def on_terminal(program: Program, *words: str, **environment: str) -> tuple[int, str]:
    """Run it on a terminal of 24 lines of which nobody types anything."""
    master, slave = pty.openpty()
    try:
        process = subprocess.Popen(
            [*PROGRAM, *words],
            cwd=program.folder,
            env={**program.environment, "TERM": "xterm", **environment},
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        shown = b""
        while select.select([master], [], [], 60)[0]:
            try:
                piece = os.read(master, 65536)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        return process.wait(timeout=60), shown.decode()
    finally:
        os.close(master)


@pytest.fixture
def pager(program):
    """A pager that marks what goes through it."""
    path = program.folder / "pager"
    path.write_text("#!/bin/sh\necho PAGED\ncat\n")
    path.chmod(0o700)
    return str(path)


def test_long_output_on_a_terminal_goes_through_the_pager(program, pager):
    put(program, DOCS, text="\n".join(f"line {number}" for number in range(100)))
    code, shown = on_terminal(program, "show", DOCS, PAGER=pager)
    assert code == 0
    assert "PAGED" in shown
    assert "line 99" in shown
    assert "\x1b[1;32myou" in shown
    code, shown = on_terminal(program, "show", DOCS, PAGER=pager, NO_COLOR="1")
    assert (code, "\x1b[" in shown) == (0, False)


def test_short_output_does_not(program, pager):
    put(program, DOCS, text="short")
    code, shown = on_terminal(program, "show", DOCS, PAGER=pager)
    assert (code, "PAGED" in shown, "short" in shown) == (0, False, True)
    assert "PAGED" not in on_terminal(program, "ls", PAGER=pager)[1]


def test_a_pager_that_is_left_early_is_no_failure(program):
    put(program, DOCS, text="\n".join("x" * 60 for _ in range(20_000)))
    code, shown = on_terminal(program, "show", DOCS, PAGER="head -n 3")
    assert code == 0
    assert "Traceback" not in shown


def test_titles_fill_the_width_of_a_terminal_and_no_more(program):
    put(program, DOCS, text="word " * 100)
    _, shown = on_terminal(program, "ls", NO_COLOR="1", COLUMNS="80")
    (line,) = shown.splitlines()
    assert len(line) <= 80
    assert line.endswith("…")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(program, shell):
    done = program.run("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert "_HOLDFAST_COMPLETE" in done.out
    assert program.run("completion", shell, "--json").object["script"] in done.out


def test_bash_takes_the_script(program):
    put(program, BUILD)
    script = program.run("completion", "bash").out
    checked = subprocess.run(["bash", "-n"], input=script.encode(), check=False)
    assert checked.returncode == 0


def test_a_verb_is_offered_for_a_mistake_only(program):
    done = program.run("say: hi")
    assert "Did you mean" not in done.err
    assert program.run("lss", "-p", "say: hi").code == 2
