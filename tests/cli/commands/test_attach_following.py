"""Following a session: to its end and no longer, whatever happens to the output or the runner."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.program import said, turns, until
from tests.cli.terminal import terminal

BUSY = "run: touch {0}.begun; while ! [ -e {0}.go ]; do sleep 0.02; done; echo {0}"


def runner(program) -> int:
    (row,) = program.run("status", "--json").lines
    return int(row["pid"])


def test_it_does_not_leave_between_two_prompts_that_are_queued(program, session):
    for name in ("a", "b", "c"):
        assert program.run("send", session, BUSY.format(name)).code == 0
    until((program.folder / "a.begun").exists)
    run = program.start("attach", session, "--no-input")
    until(lambda: program.run("status", "--json").lines[0]["clients"] == 1)
    for name in ("a", "b", "c"):
        until((program.folder / f"{name}.begun").exists)
        assert run.process.poll() is None, "it has left"
        (program.folder / f"{name}.go").touch()
    assert run.wait() == 0
    shown = run.process.stdout.read().decode()
    assert [shown.count(f"\n{name}\n") for name in ("a", "b", "c")] == [1, 1, 1]
    assert turns(program.journal()) == ["started", "completed"] * 4


def test_it_leaves_when_all_that_waits_is_held(program, session):
    assert program.run("send", session, BUSY.format("a")).code == 0
    until((program.folder / "a.begun").exists)
    assert program.run("send", session, "say: held").code == 0
    run = program.start("attach", session, "--no-input")
    until(lambda: program.run("status", "--json").lines[0]["clients"] == 1)
    assert program.run("cancel", session).code == 0
    assert run.wait() == 0
    assert said(program.journal(), "assistant").count("held") == 0


def test_an_output_that_is_full_is_a_failure_and_says_so(program, session):
    done = program.run("attach", session, "--no-input", shell="> /dev/full")
    assert done.code == 1
    assert "Cannot write to standard output: No space left on device." in done.err


def test_a_question_does_not_keep_commands_from_being_heard(program, session):
    program.configure('mode = "ask"')
    with terminal(program, "attach", session) as seen:
        seen.type("run: touch made\n")
        seen.shows("[y/n]")
        seen.type("/cancel\n")
        seen.shows("turn cancelled")
        seen.type("run: touch made\n")
        until(lambda: seen.screen.count("[y/n]") == 2)
        seen.type("neither\n")
        seen.shows("Answer y or n first")
        seen.type("/quit\n")
        assert seen.wait() == 0
    assert program.run("status", "--json").lines[0]["state"] == "waiting"
    assert not (program.folder / "made").exists()


# A runner that says it is ready, takes a client, and dies of it.
_DYING = """
import os, sys
from holdfast.runtime.protocol import server
async def dies(*_):
    with open({log!r}, "a") as log:
        log.write(f"{{os.getpid()}}\\n")
    os._exit(9)
server.Server._reply = dies
"""


def test_a_runner_that_dies_at_once_is_not_started_for_ever(program, session, tmp_path):
    log = tmp_path / "deaths"
    (tmp_path / "sitecustomize.py").write_text(_DYING.format(log=str(log)))
    paths = [str(tmp_path), *filter(None, [program.environment.get("PYTHONPATH")])]
    program.environment["PYTHONPATH"] = os.pathsep.join(paths)
    with terminal(program, "attach", session) as seen:
        assert seen.wait() == 75
    assert "has ended 5 times within a minute" in seen.screen
    assert len(set(log.read_text().split())) <= 10


def test_a_runner_that_is_killed_now_and_then_is_followed_by_the_next(program, session):
    with terminal(program, "attach", session) as seen:
        for number in range(3):
            seen.type(f"say: number {number}\n")
            seen.shows(f"\nnumber {number}\n")
            os.kill(runner(program), signal.SIGKILL)
        seen.type("say: at last\n")
        seen.shows("\nat last\n")
        seen.type("/quit\n")
        assert seen.wait() == 0
    assert said(program.journal(), "assistant")[1:] == [
        "number 0",
        "number 1",
        "number 2",
        "at last",
    ]


def memory_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="memory as Linux tells it")
def test_a_client_that_nobody_reads_reads_nothing_and_shows_everything_in_the_end(program, session):
    """It stays small, the runner drops it, and it catches up by number."""
    texts = [f"{number:04} {('x' * 4095 + ' ') * 49}." for number in range(120)]
    wait = {"call": "bash", "arguments": {"command": BUSY.format("z").removeprefix("run: ")}}
    look = {"call": "glob", "arguments": {"pattern": "*"}}
    said_before = [{"say": "hello"}, {"stop": "end"}]
    rounds = [step for text in texts for step in ({"say": text}, look)]
    script = program.script(*said_before, wait, *rounds, {"stop": "end"})
    words = ["--detach", "--script", str(script), "--allow-all"]
    assert program.run("-c", "-p", "go", *words).code == 0
    until((program.folder / "z.begun").exists)
    attached = program.start("attach", session, "--last", "0")
    until(lambda: program.run("status", "--json").lines[0]["clients"] == 1)
    before = memory_bytes(attached.pid)
    (program.folder / "z.go").touch()
    until(lambda: turns(program.journal()) == ["started", "completed"] * 2)
    until(lambda: program.run("status", "--json").lines[0]["clients"] == 0, "it is dropped")
    assert memory_bytes(attached.pid) - before < 24e6, "it has read on"
    shown = bytearray()
    while texts[-1].encode() not in shown[-400_000:]:
        shown += os.read(attached.process.stdout.fileno(), 1 << 20)
    attached.end_input()
    assert attached.wait() == 0
    assert [shown.count(text.encode()) for text in texts] == [1] * len(texts)


@pytest.mark.parametrize("foreground", [False, True])
def test_a_session_that_is_removed_in_mid_turn_is_a_failure(program, session, foreground):
    words = ["attach", *["--foreground"] * foreground, session]
    with terminal(program, *words) as seen:
        seen.type(f"{BUSY.format('a')}\n")
        until((program.folder / "a.begun").exists)
        shutil.rmtree(program.home)
        assert seen.wait() == 74
        assert "Nothing more can be saved" in seen.screen
