"""An agent dies while its command runs: what the spool says afterwards."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.runtime.tools.base import Done
from holdfast.runtime.tools.shell import wrapper
from holdfast.runtime.tools.shell.bash import answer, attach
from holdfast.runtime.tools.shell.spool import end, folder_of, forget, prepare, recover
from tests.runtime.tools.desk import Desk, alive, text_of

AGENT = """
import asyncio, sys
from pathlib import Path
from holdfast.runtime.tools.shell.bash import Bash
from holdfast.runtime.tools.base import Call

def show(text):
    print(text, end="", flush=True)

workspace, spool, command = sys.argv[1:]
call = Call("call", {"command": command}, Path(workspace), Path(spool), show, lambda data: "blob")
asyncio.run(Bash().run(call))
"""
UNTIL_GO = "while [ ! -e go ]; do sleep 0.01; done"


@contextmanager
def agent(desk: Desk, command: str, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run an agent that runs ``command``; it has shown the first line when the block begins."""
    process = subprocess.Popen(  # type: ignore[call-overload]
        [sys.executable, "-c", AGENT, str(desk.root), str(desk.spool), command],
        stdout=subprocess.PIPE,
        **options,
    )
    try:
        process.first = process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        desk.file("go")


Eventually = Callable[[Callable[[], object]], None]


def test_a_command_outlives_its_agent_and_is_recovered_as_completed(desk, eventually):
    with agent(desk, f"echo ready; {UNTIL_GO}; echo end; exit 3") as process:
        process.kill()
        process.wait()
        found = recover(desk.spool, "call")
        assert found.state == "running"
        running = f"[the command is still running as process {found.processes[-1].pid}]"
        assert text_of(answer(found, desk.keep)) == f"ready\n{running}"
        assert answer(found, desk.keep).outcome == "unknown"
    eventually(lambda: recover(desk.spool, "call").state != "running")
    found = recover(desk.spool, "call")
    assert found.state == "completed"
    assert found.status is not None
    assert found.status.exit == 3
    done = answer(found, desk.keep)
    assert (text_of(done), done.outcome) == ("ready\nend\n[exit status 3]", "failed")


def test_a_terminal_that_hangs_up_does_not_end_the_command(desk, eventually):
    ours, theirs = os.openpty()

    def take_terminal() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may ignore it
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    with agent(
        desk,
        f"echo ready; {UNTIL_GO}; echo end",
        start_new_session=True,
        preexec_fn=take_terminal,
        stdin=theirs,
        pass_fds=(theirs,),
    ) as process:
        os.close(theirs)
        os.close(ours)
        assert process.wait() == -signal.SIGHUP
        found = recover(desk.spool, "call")
        assert found.state == "running"
        wrapping, command = found.processes
        assert os.getsid(command.pid) == os.getsid(wrapping.pid) == wrapping.pid
        assert os.getpgid(command.pid) == command.pid
        os.kill(found.processes[0].pid, signal.SIGHUP)
        os.kill(found.processes[0].pid, signal.SIGINT)
        assert recover(desk.spool, "call").state == "running"
    eventually(lambda: recover(desk.spool, "call").state != "running")
    assert text_of(answer(recover(desk.spool, "call"), desk.keep)) == "ready\nend\n"


def test_without_wrapper_a_command_runs_and_then_is_gone(desk, eventually):
    with agent(desk, f"echo ready; {UNTIL_GO}; echo end") as process:
        process.kill()
        process.wait()
        os.kill(recover(desk.spool, "call").processes[0].pid, signal.SIGKILL)
        found = recover(desk.spool, "call")
        assert found.state == "running"
        eventually(lambda: not found.processes[0].runs)
        assert recover(desk.spool, "call").state == "running"
    eventually(lambda: recover(desk.spool, "call").state != "running")
    found = recover(desk.spool, "call")
    assert (found.state, found.status) == ("vanished", None)
    done = answer(found, desk.keep)
    assert done.outcome == "unknown"
    assert text_of(done).startswith("ready\nend\n[the command is gone and left no status")


def test_when_everything_is_killed_nobody_knows(desk, eventually):
    with agent(desk, "echo ready; sleep 1000") as process:
        process.kill()
        process.wait()
        wrapping, command = recover(desk.spool, "call").processes
        os.kill(wrapping.pid, signal.SIGKILL)
        os.killpg(command.pid, signal.SIGKILL)
        eventually(lambda: recover(desk.spool, "call").state == "vanished")


def test_an_orphan_is_waited_for(desk):
    def show(text: str) -> None:
        desk.shown.append(text)
        desk.file("go")

    with agent(desk, f"echo ready; {UNTIL_GO}; echo end; exit 4") as process:
        process.kill()
        process.wait()
        done = asyncio.run(attach(desk.spool, "call", show, desk.keep))
    assert (text_of(done), done.outcome) == ("ready\nend\n[exit status 4]", "failed")
    assert "".join(desk.shown) == "ready\nend\n"


@pytest.mark.parametrize("without_wrapper", [False, True])
def test_an_orphan_can_be_cancelled(desk, eventually, without_wrapper):
    async def main() -> Done:
        ready = asyncio.Event()
        task = asyncio.ensure_future(
            attach(desk.spool, "call", lambda text: ready.set(), desk.keep, grace_seconds=0.2)
        )
        await ready.wait()
        task.cancel()
        return await task

    with agent(desk, "echo $$; exec sleep 1000") as process:
        process.kill()
        process.wait()
        wrapping, command = recover(desk.spool, "call").processes
        if without_wrapper:
            os.kill(wrapping.pid, signal.SIGKILL)
            eventually(lambda: not wrapping.runs)
        done = asyncio.run(main())
    assert (text_of(done), done.outcome) == (f"{command.pid}\n[cancelled]", "cancelled")
    assert not alive(command.pid)


def test_an_orphan_can_be_killed(desk, eventually):
    with agent(desk, "trap '' TERM; echo ready; while :; do sleep 0.01; done") as process:
        process.kill()
        process.wait()
        end(recover(desk.spool, "call"), kill=True)
        eventually(lambda: recover(desk.spool, "call").state == "completed")
    status = recover(desk.spool, "call").status
    assert status is not None
    assert (status.exit, status.ended_by) == (-signal.SIGKILL, None)
    end(recover(desk.spool, "call"), kill=True)  # nobody is there any more


def test_an_orphans_timeout_counts_without_its_agent(desk, eventually):
    source = AGENT.replace('{"command": command}', '{"command": command, "timeout": 0.5}')
    process = subprocess.Popen(
        [sys.executable, "-c", source, str(desk.root), str(desk.spool), "echo x; sleep 1000"],
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    eventually(lambda: recover(desk.spool, "call").state == "completed")
    done = answer(recover(desk.spool, "call"), desk.keep)
    assert text_of(done) == "x\n[stopped: it did not end in time]"


# What never ran


def start_wrapper(desk: Desk, call_id: str, command: str) -> subprocess.Popen[bytes]:
    folder = folder_of(desk.spool, call_id)
    words = [sys.executable, "-I", "-S", wrapper.__file__, str(folder), "0", "1", "999"]
    words += ["/bin/sh", command]
    return subprocess.Popen(words, cwd=desk.root, stdout=subprocess.PIPE)


def test_a_command_that_was_never_started_never_will_be(desk):
    prepare(desk.spool, "call")
    assert recover(desk.spool, "call").state == "never_ran"
    # The wrapper was on its way when its parent was killed.
    with start_wrapper(desk, "call", "touch ran") as process:
        assert process.communicate()[0] == b""
    assert not (desk.root / "ran").exists()
    found = recover(desk.spool, "call")
    assert found.state == "never_ran"
    done = answer(found, desk.keep)
    assert (text_of(done), done.outcome) == ("[the command was never started]", "never_ran")


def test_a_reader_changes_nothing(desk):
    assert recover(desk.spool, "call", claim=False).state == "never_ran"
    assert not desk.spool.exists()
    prepare(desk.spool, "call")
    with start_wrapper(desk, "call", "touch ran") as process:
        assert b'"exit":0' in process.communicate()[0]
    assert (desk.root / "ran").exists()


def test_a_wrapper_that_is_faster_than_recovery_wins(desk, monkeypatch):
    prepare(desk.spool, "call")
    real = wrapper.claim

    def late(folder: str, content: bytes) -> None:
        with start_wrapper(desk, "call", "echo x") as process:
            process.communicate()
        real(folder, content)

    monkeypatch.setattr(wrapper, "claim", late)
    assert recover(desk.spool, "call").state == "completed"


# What is left, and what was tampered with


def completed(desk: Desk) -> Path:
    desk.calls = 0
    desk.run("bash", command="echo x")
    return folder_of(desk.spool, "call-1")


def test_a_number_that_another_process_has_now_is_not_the_command(desk):
    folder = completed(desk)
    (folder / "status").unlink()
    me = os.getpid()
    (folder / "pid").write_text(f'[{{"pid":{me},"start":"x"}},{{"pid":{me},"start":"y"}}]')
    found = recover(desk.spool, "call-1")
    assert found.state == "vanished"
    end(found)
    end(found, kill=True)  # and we are still here


@pytest.mark.parametrize("content", ["", "[", "[]x", '{"exit":', "\0" * 50])
def test_files_that_cannot_be_read_are_no_answer(desk, content):
    folder = completed(desk)
    (folder / "status").write_text(content)
    assert recover(desk.spool, "call-1").state == "vanished"
    (folder / "pid").write_text(content)
    assert recover(desk.spool, "call-1").state == "vanished"


def test_output_that_a_power_cut_took_is_missed(desk):
    folder = completed(desk)
    os.truncate(folder / "output", 1)
    done = answer(recover(desk.spool, "call-1"), desk.keep)
    assert text_of(done) == "x\n[a part of its output is lost]"
    (folder / "output").unlink()
    done = answer(recover(desk.spool, "call-1"), desk.keep)
    assert text_of(done) == "[a part of its output is lost]"


def test_what_is_done_can_be_forgotten(desk):
    folder = completed(desk)
    forget(desk.spool, "call-1")
    assert not folder.exists()
    forget(desk.spool, "call-1")


@pytest.mark.parametrize("call_id", ["", "..", "a/b", "../../x", "a" * 65, "\ud800", "ä", "a\0"])
def test_no_id_leads_out_of_the_spool(desk, call_id):
    folder = prepare(desk.spool, call_id)
    assert folder.parent == desk.spool
    assert folder.name.startswith("id-")
    assert folder_of(desk.spool, call_id + "x") != folder


def test_everything_is_for_the_user_alone(desk):
    folder = completed(desk)
    assert folder.stat().st_mode & 0o777 == 0o700
    for name in ("pid", "output", "status"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
    assert {path.name for path in folder.iterdir()} == {"pid", "output", "status"}
