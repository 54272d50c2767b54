"""The wrapper's parts, in this process: its whole life is tested in test_bash and test_recover."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.runtime.tools.shell import wrapper
from tests.runtime.tools.desk import descriptors


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A call's folder; signals are as before afterwards, and so are descriptors."""
    numbers = (*wrapper._RESTORED, signal.SIGCHLD)
    before = {number: signal.getsignal(number) for number in numbers}
    yield tmp_path
    for number, handler in before.items():
        signal.signal(number, handler)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def run(folder: Path, command: str, *, timeout: float = 0, grace: float = 1) -> dict[str, object]:
    wrapper.main([str(folder), str(timeout), str(grace), "1000", "/bin/bash", command])
    status: dict[str, object] = json.loads((folder / "status").read_text())
    return status


def test_the_life_of_a_command(folder, capfd):
    status = run(folder, "echo $$; exit 7")
    size = (folder / "output").stat().st_size
    assert status == {"exit": 7, "ended_by": None, "size_bytes": size}
    assert json.loads(capfd.readouterr().out) == json.loads((folder / "status").read_text())
    me, command = json.loads((folder / "pid").read_text())
    assert me == {"pid": os.getpid(), "start": wrapper.start_of(os.getpid())}
    assert command["pid"] == int((folder / "output").read_text())
    assert command["start"] not in ("", me["start"])


def test_a_timeout(folder):
    assert run(folder, "sleep 1000", timeout=0.15)["ended_by"] == "timeout"


def test_a_timeout_of_one_that_does_not_listen(folder):
    command = "trap '' TERM; while :; do sleep 0.01; done"
    status = run(folder, command, timeout=1.5, grace=0.15)  # time to say that it does not
    assert (status["ended_by"], status["exit"]) == ("timeout", -signal.SIGKILL)


def test_others_in_the_group_get_the_same_time(folder):
    command = "(trap '' TERM; while :; do sleep 0.01; done) & sleep 1000"
    status = run(folder, command, timeout=0.15, grace=0.3)
    assert (status["ended_by"], status["exit"]) == ("timeout", -signal.SIGTERM)


def test_too_much_output(folder):
    assert run(folder, "yes")["ended_by"] == "output"


def test_a_cancel_before_the_command_has_begun(folder):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    # To this thread: a process may have others, which do not block it.
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    status = run(folder, "sleep 1000")
    assert (status["ended_by"], status["exit"]) == ("cancelled", -signal.SIGTERM)


def test_a_start_that_was_forbidden(folder):
    (folder / "pid").write_text("[]")
    before = descriptors()
    wrapper.main([str(folder), "0", "1", "1000", "/bin/bash", "touch ran"])
    os.waitpid(-1, 0)
    assert not (folder / "status").exists()
    assert not (folder / "ran").exists()
    assert {path.name for path in folder.iterdir()} == {"pid", "output"}
    assert descriptors() > before  # they end with the process


def test_only_one_can_claim(folder):
    wrapper.claim(str(folder), b"one")
    with pytest.raises(FileExistsError):
        wrapper.claim(str(folder), b"two")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"pid": b"one"}


@pytest.mark.parametrize("call", ["open", "write", "rename"])
def test_without_room_the_parent_is_told_all_the_same(folder, capfd, monkeypatch, call):
    real = getattr(os, call)

    def fail(first: object, *rest: object) -> object:
        if first == 1:
            return real(first, *rest)
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, call, fail)
    wrapper.leave_status(str(folder), b"status\n")
    monkeypatch.undo()
    assert capfd.readouterr().out == "status\n"
    assert not (folder / "status").exists()


def test_without_parent_the_file_is_enough(folder, monkeypatch):
    real = os.write

    def fail(descriptor: int, data: bytes) -> int:
        if descriptor == 1:
            raise BrokenPipeError
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", fail)
    wrapper.leave_status(str(folder), b"status\n")
    assert (folder / "status").read_bytes() == b"status\n"


# Becoming the command


def become(folder: Path, execute: Callable[..., None], *, told: bool = True) -> list[object]:
    """Return what a process does to become the command, without becoming it."""
    held, go = os.pipe()
    spare = os.dup(go)
    if told:
        os.write(spare, b"!")
    os.close(spare)
    output = os.open(folder / "output", os.O_RDWR | os.O_CREAT)
    did: list[object] = []

    def fake_execute(file: str, words: list[str]) -> None:
        did.append((file, words))
        execute(file, words)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "setpgid", lambda *ids: did.append(("group", *ids)))
        patch.setattr(os, "dup2", lambda old, new: did.append(("dup2", new)))
        patch.setattr(os, "_exit", lambda code: did.append(("exit", code)))
        patch.setattr(os, "execv", fake_execute)
        patch.setattr(signal, "signal", lambda number, what: did.append((number, what)))
        patch.setattr(signal, "pthread_sigmask", lambda *what: did.append("unblocked"))
        wrapper.become("/bin/bash", "the command", output, held, go)
    os.close(held)
    os.close(output)
    return did


def test_becoming_the_command(folder):
    defaults = [(number, signal.SIG_DFL) for number in wrapper._RESTORED]
    assert become(folder, lambda *_: None) == [
        ("group", 0, 0),
        ("dup2", 1),
        ("dup2", 2),
        *defaults,
        "unblocked",
        ("/bin/bash", ["bash", "-c", "the command"]),
        ("exit", 126),
    ]


def test_not_becoming_it_when_the_wrapper_died_before_it_said_so(folder):
    did = become(folder, lambda *_: None, told=False)
    assert did == [("group", 0, 0), ("exit", 126)]


def test_becoming_it_without_any_shell(folder):
    def fail(file: str, words: list[str]) -> None:
        raise FileNotFoundError(errno.ENOENT, "none")

    did = become(folder, fail)
    assert did[-2:] == [
        ("/bin/bash", ["bash", "-c", "the command"]),
        ("exit", 126),
    ]
    told = (folder / "output").read_text()
    assert told == "The command could not be started: [Errno 2] none\n"


# Who runs


def test_a_process_is_known_by_its_start():
    with subprocess.Popen(["sleep", "1000"]) as process:
        start = wrapper.start_of(process.pid)
        assert start is not None
        assert start == wrapper.start_of(process.pid)
        assert start != wrapper.start_of(os.getpid())
        process.kill()
        while wrapper.start_of(process.pid) is not None:
            time.sleep(0.001)  # it becomes a zombie, which does not run
    assert wrapper.start_of(process.pid) is None


@pytest.mark.skipif(not os.path.exists("/bin/ps"), reason="needs ps")
def test_where_there_is_no_proc_ps_is_asked(monkeypatch):
    real = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: path != "/proc/self/stat" and real(path))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        # Opening is what fails there.
        monkeypatch.setattr(wrapper, "open", _no_file, raising=False)
        start = wrapper.start_of(process.pid)
        assert start is not None
        assert start == wrapper.start_of(process.pid)
        process.kill()
        while wrapper.start_of(process.pid) is not None:
            time.sleep(0.001)
    assert wrapper.start_of(process.pid) is None


def _no_file(*_: object) -> None:
    raise FileNotFoundError
