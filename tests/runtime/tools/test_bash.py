"""Real commands under the real wrapper."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.tools.base import Call, Done
from holdfast.runtime.tools.shell import bash as bash_module
from holdfast.runtime.tools.shell import output
from holdfast.runtime.tools.shell import process as running
from holdfast.runtime.tools.shell.bash import Bash
from holdfast.runtime.tools.shell.spool import folder_of, recover
from tests.runtime.tools.desk import Desk, alive, descriptors, text_of

UNTIL_GO = "while [ ! -e go ]; do sleep 0.01; done"


@pytest.mark.parametrize(
    ("command", "printed", "note", "outcome"),
    [
        ("echo out; echo err >&2", "out\nerr\n", "", "completed"),
        ("true", "", "[no output]", "completed"),
        ("printf 'no line end'", "no line end", "", "completed"),
        ("printf x; exit 3", "x", "\n[exit status 3]", "failed"),
        ("echo x; exit 3", "x\n", "[exit status 3]", "failed"),
        ("kill -9 $$", "", "[killed by signal 9]", "failed"),
        ("cat; echo end", "end\n", "", "completed"),
        ("echo 'a;b' | tr ';' '\\n'", "a\nb\n", "", "completed"),
        ("printf 'a\\377b'", "a\ufffdb", "", "completed"),
        ("nonsense-command 2>/dev/null", "", "[exit status 127]", "failed"),
        ("[[ a == a ]] && echo ${BASH:+bash}", "bash\n", "", "completed"),
    ],
)
def test_what_a_command_prints_and_how_it_ends(desk, command, printed, note, outcome):
    done = desk.run("bash", command=command)
    assert (text_of(done), done.outcome) == (printed + note, outcome)
    assert done.changes == []
    assert "".join(desk.shown) == printed


def test_it_runs_in_the_workspace_without_input_terminal_or_signals_of_ours(desk):
    done = desk.run("bash", command="pwd; test -t 0 || echo no; (echo > /dev/tty) 2>&1; trap; true")
    lines = text_of(done).splitlines()
    assert lines[:2] == [str(desk.root), "no"]
    assert "/dev/tty" in lines[2]
    # Python ignores SIGPIPE; a command must not.
    ignored = text_of(desk.run("bash", command="grep SigIgn /proc/self/status"))
    assert int(ignored.split()[1], 16) % 2**31 == 0  # from 32 on they are not Python's


def test_output_is_shown_while_the_command_runs(desk):
    def show(text: str) -> None:
        desk.shown.append(text)
        desk.file("go")

    call = desk.call({"command": f"echo ready; {UNTIL_GO}; echo end"}, show)
    done = asyncio.run(desk.tools["bash"].run(call))
    assert text_of(done) == "ready\nend\n"
    assert desk.shown[0] == "ready\n"


def test_a_character_is_never_split(desk):
    command = r"for i in 1 2 3; do printf 'a\303'; sleep 0.1; printf '\244'; done; printf '\303'"
    done = desk.run("bash", command=command)
    assert text_of(done) == "aäaäaä\ufffd"
    assert "".join(desk.shown) == "aäaäaä\ufffd"
    assert len(desk.shown) > 1
    assert "\ufffd" not in "".join(desk.shown[:-1])


def test_bytes_that_are_no_text_are_replaced(desk):
    done = desk.run("bash", command="head -c 20000 /dev/urandom | tee noise")
    noise = (desk.root / "noise").read_bytes().decode("utf-8", "replace")
    assert text_of(done) == noise
    assert "".join(desk.shown) == noise


def test_long_output_is_cut_in_the_middle_and_kept_whole(desk):
    done = desk.run("bash", command="seq 1 1000000")
    text = text_of(done)
    whole = "".join(f"{number}\n" for number in range(1, 1_000_001))
    (name,) = desk.blobs
    assert desk.blobs[name] == whole.encode()
    head, note, tail = text.partition("\n[most of ")
    assert whole.startswith(head)
    assert len(head) == output.HEAD_CHARACTERS
    assert whole.endswith(tail.partition("]\n")[2])
    assert name in note + tail
    assert len(text) < 30_200
    shown = "".join(desk.shown)
    assert whole.startswith(shown.partition("\n[more output")[0])
    assert shown.endswith("[more output is not shown while it runs]\n")


def test_output_a_little_too_long_says_how_much_is_left_out(desk):
    done = desk.run("bash", command="printf 'ä%.0s' {1..30007}")
    assert "[7 characters of 60,014 bytes left out here; all of it is in blob " in text_of(done)
    assert desk.blobs.popitem()[1] == "ä".encode() * 30_007
    assert "".join(desk.shown) == "ä" * 30_007


def test_long_output_is_cut_between_characters(desk):
    done = desk.run("bash", command="printf 'a'; printf '😀%.0s' {1..60000}; printf 'b'")
    head, _, tail = text_of(done).partition("\n[most of 240,002 bytes")
    assert head == "a" + "😀" * (output.HEAD_CHARACTERS - 1)
    assert tail.partition("]\n")[2] == "😀" * (output.TAIL_CHARACTERS - 1) + "b"


def test_too_much_output_ends_the_command(desk):
    done = desk.run(Bash(largest_output_bytes=100_000, grace_seconds=0.2), command="yes")
    assert text_of(done).endswith("[stopped: it printed too much; send output to a file]")
    assert done.outcome == "failed"


def test_a_timeout_ends_the_command_and_what_it_started(desk):
    command = "sleep 1000 & echo $!; sleep 1000"
    done = desk.run("bash", command=command, timeout=1.5)
    pid, note = text_of(done).split("\n")
    assert note == "[stopped: it did not end in time after 1.5 seconds]"
    assert done.outcome == "failed"
    assert not alive(int(pid))


def test_a_timeout_kills_what_does_not_listen(desk):
    tool = Bash(timeout_seconds=1.5, grace_seconds=0.2)
    done = desk.run(tool, command="trap '' TERM; echo $$; while :; do sleep 0.05; done")
    assert "in time after 1.5 seconds" in text_of(done)
    assert not alive(int(text_of(done).split("\n")[0]))


async def _cancelled(desk: Desk, tool: Bash, command: str, times: int = 1) -> tuple[Done, Call]:
    """Cancel a call when the command has printed something."""
    ready = asyncio.Event()

    def show(text: str) -> None:
        desk.shown.append(text)
        ready.set()

    call = desk.call({"command": command}, show)
    task = asyncio.ensure_future(tool.run(call))
    await ready.wait()
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    return await task, call


def test_cancelling_ends_the_command(desk):
    done, call = asyncio.run(_cancelled(desk, Bash(), "echo $$; exec sleep 1000"))
    pid = int(desk.shown[0])
    assert (text_of(done), done.outcome) == (f"{pid}\n[cancelled]", "cancelled")
    assert not alive(pid)
    status = recover(desk.spool, call.id).status
    assert status is not None
    assert (status.exit, status.ended_by) == (-signal.SIGTERM, "cancelled")


def test_cancelling_waits_for_a_command_that_cleans_up(desk):
    command = "trap 'echo bye; exit 0' TERM; echo hi; while :; do sleep 0.01; done"
    done, _ = asyncio.run(_cancelled(desk, Bash(), command))
    assert text_of(done).startswith("hi\n")  # bash itself may speak of its child between
    assert text_of(done).endswith("bye\n[cancelled]")
    assert done.outcome == "cancelled"


def test_cancelling_kills_a_command_that_ignores_it(desk):
    command = "trap '' TERM; echo $$; while :; do sleep 0.05; done"
    done, call = asyncio.run(_cancelled(desk, Bash(grace_seconds=0.3), command))
    assert done.outcome == "cancelled"
    assert not alive(int(desk.shown[0]))
    status = recover(desk.spool, call.id).status
    assert status is not None
    assert status.exit == -signal.SIGKILL


def test_cancelling_twice_does_not_wait(desk):
    command = "trap '' TERM; echo $$; while :; do sleep 0.05; done"
    done, _ = asyncio.run(_cancelled(desk, Bash(grace_seconds=1000), command, times=2))
    assert done.outcome == "cancelled"
    assert not alive(int(desk.shown[0]))


def test_a_background_process_that_ignores_it_is_killed_too(desk):
    command = "(trap '' TERM; echo $BASHPID; while :; do sleep 0.05; done) & sleep 1000"
    done, _ = asyncio.run(_cancelled(desk, Bash(grace_seconds=0.3), command))
    assert done.outcome == "cancelled"
    assert not alive(int(desk.shown[0]))


def test_a_wrapper_that_does_not_react_is_killed_with_its_command(desk, monkeypatch):
    monkeypatch.setattr(running, "_SLACK_SECONDS", 0.1)
    command = "kill -STOP $PPID; echo $$; sleep 1000"
    done, _ = asyncio.run(_cancelled(desk, Bash(grace_seconds=0.1), command))
    assert (text_of(done), done.outcome) == (f"{desk.shown[0]}[cancelled]", "cancelled")
    assert not alive(int(desk.shown[0]))


def test_a_call_cancelled_at_once_does_not_start(desk: Desk):
    async def main() -> Done:
        task = asyncio.ensure_future(desk.tools["bash"].run(desk.call({"command": "touch ran"})))
        await asyncio.sleep(0)
        task.cancel()
        return await task

    done = asyncio.run(main())
    assert (text_of(done), done.outcome) == ("[cancelled before it was started]", "cancelled")
    assert not (desk.root / "ran").exists()


def test_a_call_cancelled_while_it_starts_does_not_go_on(desk: Desk, monkeypatch):
    begun, held = threading.Event(), threading.Event()
    real = Bash._start

    def slow(*args: Any) -> Any:
        begun.set()
        held.wait(30)
        return real(*args)

    monkeypatch.setattr(Bash, "_start", slow)

    async def main() -> Done:
        call = desk.call({"command": "sleep 1000; touch ran"})
        task = asyncio.ensure_future(desk.tools["bash"].run(call))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.sleep(0)
        held.set()
        return await task

    done = asyncio.run(main())
    # The wrapper may not have come to the point where it listens.
    assert text_of(done) in ("[cancelled]", "[cancelled before it was started]")
    assert done.outcome == "cancelled"
    assert recover(desk.spool, "call-1").state in ("completed", "never_ran")


def test_a_wrapper_that_is_told_to_end_before_it_listens_just_ends(desk: Desk, monkeypatch):
    begun, held = threading.Event(), threading.Event()
    real = Bash._start

    def killed(*args: Any) -> Any:
        begun.set()
        held.wait(30)
        process = real(*args)
        process.kill()  # long before it can have come so far
        return process

    monkeypatch.setattr(Bash, "_start", killed)

    async def main() -> Done:
        task = asyncio.ensure_future(desk.tools["bash"].run(desk.call({"command": "touch ran"})))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.sleep(0)
        held.set()
        return await task

    done = asyncio.run(main())
    assert (text_of(done), done.outcome) == ("[cancelled before it was started]", "cancelled")
    assert recover(desk.spool, "call-1").state == "never_ran"
    assert not (desk.root / "ran").exists()


def test_a_wrapper_that_cannot_work_is_a_failure(desk, monkeypatch):
    monkeypatch.setattr(bash_module._WRAPPER, "source", b"raise SystemExit(1)")
    done = desk.run("bash", command="touch ran")
    assert done.outcome == "failed"
    assert text_of(done) == "The command could not be started: its wrapper ended before it."
    assert not (desk.root / "ran").exists()


def test_a_spool_that_cannot_be_made_is_a_failure(desk):
    desk.spool = desk.file("no folder") / "spool"
    done = desk.run("bash", command="touch ran")
    assert done.outcome == "failed"
    assert text_of(done).startswith("The command could not be started: Not a directory")


def test_closing_the_event_loop_ends_the_command(desk):
    results: list[Done] = []

    async def main() -> None:
        ready = asyncio.Event()
        call = desk.call({"command": "echo $$; sleep 1000"}, lambda text: ready.set())

        async def run() -> None:
            results.append(await desk.tools["bash"].run(call))

        task = asyncio.ensure_future(run())
        await ready.wait()
        assert not task.done()

    asyncio.run(main())
    (done,) = results
    assert done.outcome == "cancelled"
    assert not alive(int(text_of(done).split("\n")[0]))


def test_a_background_process_does_not_hold_up_the_end(desk):
    done = desk.run("bash", command="sleep 1000 & echo $!")
    pid = int(text_of(done))
    assert alive(pid)
    os.kill(pid, signal.SIGKILL)


def test_output_that_comes_after_the_end_does_not_count(desk, eventually):
    done = desk.run("bash", command=f"({UNTIL_GO}; echo late) & echo early")
    assert text_of(done) == "early\n"
    folder = folder_of(desk.spool, "call-1")
    desk.file("go")
    eventually(lambda: (folder / "output").read_text() == "early\nlate\n")
    status = recover(desk.spool, "call-1").status
    assert status is not None
    assert status.size_bytes == len("early\n")


def test_when_the_wrapper_is_killed_the_command_is_waited_for(desk):
    def show(text: str) -> None:
        desk.shown.append(text)
        desk.file("go")

    command = f"kill -9 $PPID; echo alone; {UNTIL_GO}; echo end"
    done = asyncio.run(desk.tools["bash"].run(desk.call({"command": command}, show)))
    assert text_of(done).startswith("alone\nend\n[the command is gone and left no status")
    assert done.outcome == "unknown"
    assert "".join(desk.shown) == "alone\nend\n"


def test_a_command_whose_wrapper_was_killed_can_be_cancelled(desk):
    command = "kill -9 $PPID; echo $$; sleep 1000"
    done, _ = asyncio.run(_cancelled(desk, Bash(), command))
    assert done.outcome == "cancelled"
    assert not alive(int(desk.shown[0]))


def test_what_show_raises_ends_the_command_and_is_raised(desk):
    def show(text: str) -> None:
        desk.shown.append(text)
        raise RuntimeError("no room")

    call = desk.call({"command": "echo $$; while :; do echo more; sleep 0.01; done"}, show)
    with pytest.raises(RuntimeError, match="no room"):
        asyncio.run(desk.tools["bash"].run(call))
    assert len(desk.shown) == 1
    assert not alive(int(desk.shown[0].split("\n")[0]))


def test_provider_keys_are_taken_out_of_the_environment(desk, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret-a")
    monkeypatch.setenv("OPENAI_API_KEY", "secret-b")
    monkeypatch.setenv("MINE", "seen")
    command = "env; tr '\\0' '\\n' < /proc/$PPID/environ"
    assert "secret" not in text_of(desk.run("bash", command=command))
    assert "MINE=seen" in text_of(desk.run("bash", command=command))
    done = desk.run(Bash(hidden=["MINE"]), command=command)
    assert "secret" not in text_of(done)
    assert "MINE" not in text_of(done)


@pytest.mark.parametrize("shells", [["sh"], []])
def test_without_bash_there_is_sh(desk, tmp_path, monkeypatch, shells):
    tools = tmp_path / "bin"
    tools.mkdir()
    for shell in shells:
        (tools / shell).symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tools))
    done = desk.run("bash", command="echo $0")
    if shells:
        assert text_of(done) == "sh\n"
    else:
        assert text_of(done) == "There is neither bash nor sh on PATH outside the workspace."


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "missing required field `command`"),
        ({"command": 7}, "Expected `str`"),
        ({"command": " \n"}, "There is no command"),
        ({"command": "a\0b"}, "characters that no command can have"),
        ({"command": "echo \ud800"}, "characters that no command can have"),
        ({"command": "x" * 200_000}, "write it to a file"),
        ({"command": "true", "timeout": 0}, "timeout"),
        ({"command": "true", "timeout": 1e9}, "timeout"),
        ({"command": "true", "cwd": "/"}, "unknown field `cwd`"),
    ],
)
def test_what_cannot_be_run_is_refused(desk, arguments, sentence):
    done = desk.run("bash", **arguments)
    assert done.outcome == "failed"
    assert sentence in text_of(done)
    assert not desk.spool.exists()


def test_the_longest_command_that_is_taken_runs(desk):
    command = "true " + "x" * (128 * 1024 - 1 - len("true "))
    assert desk.run("bash", command=command).outcome == "completed"


def test_a_workspace_that_is_gone_is_a_failure(desk):
    desk.root.rmdir()
    done = desk.run("bash", command="true")
    assert done.outcome == "failed"
    assert (
        text_of(done) == f"The command could not be started: No such file or directory: {desk.root}"
    )


def test_an_id_that_is_used_again_starts_afresh(desk):
    desk.run("bash", command="echo one")
    desk.calls = 0
    assert text_of(desk.run("bash", command="echo two")) == "two\n"


def test_nothing_is_left_open(desk):
    desk.run("bash", command="true")
    before = descriptors()
    desk.run("bash", command="echo x")
    desk.run("bash", command="sleep 1000", timeout=0.1)
    assert descriptors() == before


def test_the_subject_is_the_command():
    assert Bash().subject({"command": "ls -l"}) == "ls -l"
    assert Bash().subject({}) == ""


def test_a_relative_spool_is_meant_from_here(desk, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    desk.spool = Path("relative")
    assert text_of(desk.run("bash", command="echo x")) == "x\n"
    assert (tmp_path / "relative" / "call-1" / "status").exists()


def test_the_wrapper_needs_nothing_but_the_standard_library(desk):
    imported = text_of(desk.run("bash", command="tr '\\0' ' ' < /proc/$PPID/cmdline"))
    assert imported.startswith(f"{sys.executable} -I -S ")
