"""A runner that is stopped, or hangs: given up soon, named, and gone past."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
from contextlib import ExitStack
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.runtime.protocol import client
from holdfast.runtime.protocol.client import RunnerGone, RunnerSilent, connect
from holdfast.runtime.protocol.messages import PROTOCOL, Rename, StatusOf, encode
from holdfast.runtime.protocol.socket_path import socket_path
from tests.cli.program import said, until


@pytest.fixture
def program(program):
    yield program
    program.run("stop", "--all")


@pytest.fixture
def stopped(program):
    """Two sessions with runners, the first of them stopped; gives both and its process."""
    sessions = [program.run("-p", f"say: {n}", "--detach").out.strip() for n in range(2)]
    until(lambda: all(row["state"] == "idle" for row in program.run("status", "--json").lines))
    rows = {row["session"]: row["pid"] for row in program.run("status", "--json").lines}
    pid = rows[sessions[0]]
    os.kill(pid, signal.SIGSTOP)
    yield sessions[0], sessions[1], pid
    os.kill(pid, signal.SIGCONT)


def test_it_is_listed_named_and_gone_past(program, stopped):
    silent, other, pid = stopped
    rows = {row["session"]: row for row in program.run("status", "--json").lines}
    assert rows[other]["state"] == "idle"
    assert (rows[silent]["state"], rows[silent]["pid"]) == ("does not answer", pid)
    listed = program.run("status").out
    assert f"{silent}  does not answer" in listed
    assert f"kill -CONT {pid}" in listed
    done = program.run("stop", "--all")
    assert done.code == 75
    assert done.out == f"{other} stopped\n"
    assert f"The runner of session {silent} (process {pid}) does not answer" in done.err


def test_every_verb_says_so_and_starts_no_second_one(program, stopped):
    silent, _, pid = stopped
    verbs = [
        ["attach", silent],
        ["attach", "--foreground", silent],
        ["send", silent, "say: x"],
        ["cancel", silent],
        ["approve", silent],
        ["stop", silent],
        ["-r", silent, "-p", "say: x"],
        ["-r", silent, "-p", "say: x", "--detach"],
    ]
    runs = [program.start(*words) for words in verbs]
    for run in runs:
        run.end_input()
        assert run.wait() == 75, run.err
        assert f"(process {pid}) does not answer" in run.err
    os.kill(pid, signal.SIGCONT)
    assert program.run("-r", silent, "-p", "say: on").out == "on\n"
    assert "x" not in said(program.journal(silent), "assistant")


def test_one_before_which_too_many_wait_is_silent_too(program, stopped, monkeypatch):
    silent, _, _ = stopped
    path = socket_path(program.home, silent)
    monkeypatch.setattr(client, "HELLO_SECONDS", 0.2)
    with ExitStack() as stack:
        with pytest.raises(BlockingIOError):
            while True:
                waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                waiting.connect(str(path))
        with pytest.raises(RunnerSilent, match=silent):
            asyncio.run(connect(path, {}))


def test_one_that_hangs_later_is_silent_then(program, stopped, monkeypatch):
    _, other, _ = stopped
    monkeypatch.setattr(client, "_REPLY_SECONDS", 0.2)

    async def hang() -> None:
        connection = await connect(socket_path(program.home, other), {})
        pid = connection.hello.pid
        assert pid is not None
        # As the first process of a container knows itself.
        connection.hello = replace(connection.hello, pid=1)
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(RunnerSilent, match=f"process {pid}\\)"):
                await connection.request(StatusOf(id="1"))
        finally:
            os.kill(pid, signal.SIGCONT)
        await connection.close()

    asyncio.run(hang())


def test_one_that_goes_while_it_is_written_to_leaves_no_error_behind(tmp_path):
    """The reply fails as well as the writing, and only one of them is waited for."""
    found: list[dict[str, Any]] = []

    async def hang_up(read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        name = json.loads(await read.readline())["id"]
        write.write(encode({"type": "hello", "to": name, "protocol": PROTOCOL}))
        await read.read(1)  # the rest is more than the socket holds
        write.close()

    async def whole() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: found.append(context))
        server = await asyncio.start_unix_server(hang_up, tmp_path / "s.sock")
        async with server:
            connection = await connect(tmp_path / "s.sock", {})
            with pytest.raises(RunnerGone):
                await connection.request(Rename(id="1", title="x" * 10_000_000))
            await connection.close()
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(whole())
    assert found == []
