"""The first words: who may speak to a runner, which version, and what is no request at all."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.protocol import messages as protocol
from holdfast.runtime.protocol import server
from holdfast.runtime.protocol.messages import PROTOCOL
from holdfast.version import __version__
from tests.runtime.protocol.in_process_server import Desk
from tests.runtime.runner.runner_clients import Office, gate, office_on_disk, run

HELLO = {"type": "hello", "id": "h", "protocol": PROTOCOL, "version": "x"}


class Line:
    """A bare connection, for what no client of ours would say."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(60)
        self._socket.connect(str(path))
        self._file = self._socket.makefile("rb")

    def say(self, *messages: dict[str, Any] | bytes) -> None:
        for each in messages:
            data = each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n"
            self._socket.sendall(data)

    def hear(self) -> dict[str, Any]:
        line = self._file.readline()
        assert line, "it hung up"
        found: dict[str, Any] = json.loads(line)
        return found

    def hear_reply(self, to: str) -> dict[str, Any]:
        while (found := self.hear()).get("to") != to:
            pass
        return found

    def ended(self) -> bool:
        return self._file.readline() == b""

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@pytest.fixture
def line(office: Office):
    """A bare connection to a runner."""
    run(office.begin())
    line = Line(office.socket())
    yield line
    line.close()


def test_a_runner_says_who_it_is(office, line):
    line.say(HELLO)
    (pid,) = office.pids
    assert line.hear() == {
        "type": "hello",
        "to": "h",
        "protocol": PROTOCOL,
        "version": __version__,
        "session": office.id,
        "pid": pid,
    }


def test_nothing_is_done_before_hello(line):
    line.say({"type": "submit", "id": "1", "content": [{"type": "text", "text": "say: hi"}]})
    refused = line.hear()
    assert (refused["to"], refused["ok"], refused["error"]) == (
        "1",
        False,
        "The first request must be hello.",
    )
    line.say(HELLO, {"type": "status", "id": "2"})
    assert line.hear_reply("2")["status"]["seq"] == -1


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\n",
        b"hello\n",
        b"\xff\xfe\n",
        b"[]\n",
        b"null\n",
        b'{"type":"status"}\n',
        b'{"type":"status","id":""}\n',
        b'{"type":"nothing","id":"1"}\n',
        b'{"type":"submit","id":"1","content":"text"}\n',
        b'{"type":"submit","id":"1","content":[{"type":"tool_result","call_id":"x"}]}\n',
        b'{"type":"attach","id":"1","after":"first"}\n',
        b'{"type":"status","id":"' + b"x" * 201 + b'"}\n',
        b'{"type":"status","id":"1","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    ],
    ids=lambda nonsense: nonsense[:30].decode("latin-1").strip(),
)
def test_nonsense_is_refused_with_a_sentence_and_the_line_stays_good(nonsense, runner_line):
    runner_line.say(nonsense)
    refused = runner_line.hear()
    assert refused["ok"] is False
    assert refused["kind"] == "UsageError"
    assert refused["error"].endswith(".")
    assert refused["to"] in ("", "1", "x" * 201)
    runner_line.say({"type": "status", "id": "good"})
    assert runner_line.hear_reply("good")["ok"] is True


@pytest.fixture(scope="module")
def runner_line():
    """One connection for all nonsense: each must leave it as it was."""
    for office in office_on_disk():
        run(office.begin())
        line = Line(office.socket())
        line.say(HELLO)
        line.hear()
        yield line
        line.close()


def test_a_line_without_end_is_given_up_and_the_runner_lives_on(office, line):
    line.say(HELLO)
    line.hear()
    try:
        for _ in range(protocol.LONGEST_LINE_BYTES // (1 << 20) + 2):
            line.say(b"x" * (1 << 20))
    except (BrokenPipeError, ConnectionResetError):
        pass  # it has hung up already
    else:
        refused = line.hear()
        assert "A line may have at most" in refused["error"]
        assert line.ended()

    async def still_there() -> None:
        caller = await office.call_again()
        await caller.ask(protocol.StatusOf)
        await caller.close()

    run(still_there())


def test_who_hangs_up_in_the_middle_of_a_line_has_said_nothing(office, line):
    line.say(HELLO, b'{"type":"submit","id":"1","content":[{"type":"text","text":"say: hi"}]}')
    line.close()

    async def nothing_came() -> None:
        caller = await office.call_again()
        assert (await caller.ask(protocol.StatusOf))["status"]["seq"] == -1
        await caller.close()

    run(nothing_came())


@pytest.mark.parametrize("theirs", [0, PROTOCOL + 1])
def test_a_client_of_another_version_may_follow_cancel_and_stop_after_the_turn(office, theirs):
    async def begin() -> None:
        caller = await office.call()
        await caller.attach()
        await caller.submit(f"run: {gate('x')}")
        await caller.hears(type="state", state="running")
        await caller.close()

    run(begin())
    line = Line(office.socket())
    line.say({**HELLO, "protocol": theirs, "more": {"to": "come"}})
    assert line.hear()["protocol"] == PROTOCOL
    text = [{"type": "text", "text": "say: no"}]
    requests: list[dict[str, Any]] = [
        {"type": "submit", "content": text},
        {"type": "run_queue"},
        {"type": "edit_queue", "entry": 1, "content": text},
        {"type": "continue_turn"},
        {"type": "approve", "call_id": "x", "arguments_sha256": "y", "allow": True},
        {"type": "set_model", "model": "x"},
        {"type": "rename", "title": "x"},
        {"type": "compact"},
        {"type": "rewind", "to": None},
        {"type": "hand_over"},
    ]
    for number, request in enumerate(requests):
        line.say({**request, "id": str(number)})
        refused = line.hear()
        assert (refused["to"], refused["ok"]) == (str(number), False)
        assert "version" in refused["error"]
        assert "stop it after the turn" in refused["error"]
    line.say({"type": "status", "id": "s"}, {"type": "attach", "id": "a", "after": -1})
    assert line.hear_reply("s")["status"]["state"] == "running"
    line.hear_reply("a")
    seen = [line.hear()]
    while seen[-1]["type"] != "state":
        seen.append(line.hear())
    assert [each for each in seen if each["type"] == "entry"]
    line.say({"type": "stop", "id": "later", "after_turn": True})
    assert line.hear_reply("later")["running"] is True
    line.say({"type": "cancel", "id": "c"})
    assert line.hear_reply("c")["running"] is True
    while (last := line.hear())["type"] != "bye":
        seen.append(last)
    assert [each["state"] for each in seen if each["type"] == "turn"] == ["cancelled"]
    assert line.ended()
    line.close()


def test_socket_and_folder_are_for_the_user_alone(office, line):
    path = office.socket()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.with_suffix(".log").stat().st_mode) == 0o600


_AS_NOBODY = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
try:
    line.connect(sys.argv[1])
except OSError as error:
    print(type(error).__name__)
else:
    try:
        line.sendall(b'{"type":"hello","id":"1","protocol":1,"version":"1"}\\n')
    except OSError:
        pass
    print(line.recv(65536).decode())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="Another user was NOT tried: this needs root")
def test_another_user_is_refused_by_the_folder_by_the_socket_and_by_the_runner(office, line):
    path = office.socket()

    def as_nobody() -> str:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _AS_NOBODY, str(path)],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    for each in path.parents:  # pytest's own folders are closed as well
        if each.stat().st_uid == 0 and each != path.parent and not each.stat().st_mode & 0o001:
            each.chmod(0o711)
    assert as_nobody() == "PermissionError"
    path.parent.chmod(0o711)
    assert as_nobody() == "PermissionError"
    path.chmod(0o666)
    refused = json.loads(as_nobody())
    assert refused["ok"] is False
    assert refused["error"] == "This session belongs to another user."
    line.say(HELLO)
    assert line.hear()["type"] == "hello"


def test_whoever_connects_and_says_nothing_is_let_go(monkeypatch, tmp_path):
    monkeypatch.setattr(server, "HELLO_SECONDS", 0.01)
    with Desk(tmp_path) as desk:

        async def silent() -> None:
            async with desk.serving():
                read, write = await desk.raw()
                refused = json.loads(await read.readline())
                assert refused["error"] == "The first request must be hello, without delay."
                assert await read.read() == b""
                write.close()

        run(silent())
