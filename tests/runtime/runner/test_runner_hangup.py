"""``on_hangup = "stop"``: the last terminal that goes ends the turn, and nobody else does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import open_store, user
from holdfast.runtime.protocol import messages as protocol
from tests.cli.program import of_type, until
from tests.runtime.runner.in_process_runner import FakeHeldFiles, runner_inside
from tests.runtime.runner.runner_clients import Office, gate, run

_HELLO = b'{"type":"hello","id":"h","protocol":1,"version":"1"}\n'


@pytest.fixture(autouse=True)
def stop_on_hangup(office: Office) -> None:
    folder = office.home.parent / "config"
    folder.mkdir()
    (folder / "config.toml").write_text('on_hangup = "stop"\n')


def _end(office: Office) -> tuple[str, str | None]:
    """How the turn ended, and why."""
    (ended,) = [e for e in of_type(office.journal(), "turn") if e["state"] != "started"]
    return ended["state"], ended.get("cause")


HUNG_UP = ("cancelled", "the last terminal was closed")
WENT_ON = ("completed", None)


async def _is_running(office: Office) -> bool:
    asking = await office.call_again()
    state = (await asking.ask_status())["state"]
    await asking.close()
    return bool(state == "running")


def test_only_the_last_terminal_counts_and_holds_what_waits(office):
    async def hang_up():
        one, two = await office.call(), await office.call_again()
        for terminal in (one, two):
            await terminal.attach(answers=True)
        follows = await office.call_again()
        await follows.attach()
        await one.submit(f"run: {gate('x')}")
        until(office.file("x.begun").exists)
        waiting = await one.submit("run: echo later >> done")
        await one.close()
        await follows.hears(type="state", queue=[waiting])
        for _ in range(3):  # others come and go
            other = await office.call_again()
            await other.attach(live=False)
            await other.close()
            assert await _is_running(office)
        await two.close()
        ended = await follows.hears(type="turn")
        assert ended["state"] == "cancelled"
        held = await follows.hears(type="state", state="idle", held=True)
        assert held["queue"] == [waiting]

    run(hang_up())
    assert _end(office) == HUNG_UP
    assert office.lines("done") == []


def test_who_is_no_terminal_ends_nothing(office):
    """A run without a screen, an approval from elsewhere, a cancel that comes too late."""

    async def come_and_go():
        await office.begin(allow_all=False)
        submits = await office.call_again()
        await submits.attach(live=False)
        await submits.submit(f"run: {gate('x')}")
        question = await submits.hears(type="question")
        await submits.close()
        approves = await office.call_again()
        await approves.attach(after=2**62, live=False)
        fields = {name: question[name] for name in ("call_id", "arguments_sha256")}
        await approves.ask(protocol.Approve, **fields, allow=True)
        await approves.close()
        until(office.file("x.begun").exists)
        for _ in range(5):
            assert await _is_running(office)
        office.file("x.go").touch()
        await (await office.call_again()).rests()

    run(come_and_go())
    assert _end(office) == WENT_ON


def test_a_terminal_that_says_good_bye_has_not_hung_up(office):
    async def leave():
        terminal = await office.call()
        await terminal.attach(answers=True)
        await terminal.submit(f"run: {gate('x')}")
        until(office.file("x.begun").exists)
        await terminal.ask(protocol.Detach)
        heard = len(terminal.heard)
        other = await office.call_again()
        await other.attach()
        await other.ask(protocol.Rename, title="heard by others")
        await other.hears(type="state", title="heard by others")
        await terminal.ask_status()
        assert len(terminal.heard) == heard, "who has detached is still told"
        await terminal.close()
        for _ in range(5):
            assert await _is_running(office)
        office.file("x.go").touch()
        await other.hears(type="turn", state="completed")

    run(leave())
    assert _end(office) == WENT_ON


def test_a_terminal_that_attaches_again_as_none_has_not_hung_up(office):
    async def leave():
        terminal = await office.call()
        await terminal.attach(answers=True)
        await terminal.submit(f"run: {gate('x')}")
        until(office.file("x.begun").exists)
        await terminal.ask(protocol.Attach, after=2**62)
        await terminal.close()
        for _ in range(5):
            assert await _is_running(office)
        office.file("x.go").touch()
        await (await office.call_again()).rests()

    run(leave())
    assert _end(office) == WENT_ON


def test_a_terminal_that_stalls_and_is_dropped_has_hung_up(office):
    much = {"call": "bash", "arguments": {"command": "yes 0123456789 | head -c 1000000; sleep 0.1"}}
    last = {"call": "bash", "arguments": {"command": gate("x")}}
    script = office.script({"calls": [much] * 8}, {"calls": [much] * 8}, last, {"say": "end"})

    async def stall():
        follows = await office.call(script=script)
        await follows.attach(live=False)
        _, write = await asyncio.open_unix_connection(office.socket(), limit=1)
        write.write(_HELLO + b'{"type":"attach","id":"a","answers":true}\n')
        while (await follows.ask_status())["clients"] < 2:
            pass  # until it has caught up
        await follows.submit("go")
        ended = await follows.hears(type="turn")
        assert ended["state"] == "cancelled"
        write.close()

    run(stall())
    assert _end(office) == HUNG_UP


def test_a_terminal_that_catches_up_is_there(office):
    """The other one may go meanwhile: somebody is on the way."""
    with open_store(office.home) as store, store.create(session_id=office.id) as session:
        session.append([user("x" * 50_000) for _ in range(200)])

    async def catch_up():
        first = await office.call()
        await first.attach(after=2**62, answers=True)
        await first.submit(f"run: {gate('x')}")
        until(office.file("x.begun").exists)
        read, write = await asyncio.open_unix_connection(office.socket(), limit=1 << 26)
        write.write(_HELLO + b'{"type":"attach","id":"a","answers":true}\n')
        heard = b""
        while b'"reply"' not in heard:
            heard = await read.readline()
        transport: Any = write.transport
        transport.pause_reading()  # more than fits into any buffer is still to come
        await first.close()
        for _ in range(5):
            assert await _is_running(office)
        office.file("x.go").touch()
        transport.resume_reading()
        while b'"state":"idle"' not in heard:
            heard = await read.readline()
        write.close()

    run(catch_up())
    assert _end(office) == WENT_ON


def test_what_has_not_begun_when_the_last_terminal_goes_does_not_begin(office, monkeypatch):
    async def hang_up():
        async with runner_inside(office, monkeypatch, FakeHeldFiles()) as inside:
            terminal = await inside.call(answers=True)
            follows = await inside.call(live=False)
            with inside.runner.queue.at_rest():  # as between two turns
                await terminal.submit("run: echo later >> done")
                await follows.hears(type="entry")
                assert follows.all(type="state", held=True) == []
                await terminal.close()
                await follows.hears(type="state", held=True)
            for _ in range(10):
                assert (await follows.ask_status())["state"] == "idle"

    run(hang_up())
    assert office.lines("done") == []
