"""What one client, or many, can make a runner hold: no more than it can bear."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from contextlib import suppress
from typing import Any

import pytest

from holdfast.runtime.protocol import messages as protocol
from holdfast.runtime.protocol import server
from holdfast.runtime.protocol import socket_path as address
from tests.runtime.protocol.in_process_server import Desk, no_work
from tests.runtime.runner.runner_clients import run

_HELLO = b'{"type":"hello","id":"h","protocol":1,"version":"1"}\n'


async def _write_all(write: asyncio.StreamWriter, lines: list[bytes], sent: list[int]) -> None:
    for line in lines:
        write.write(line)
        await write.drain()
        sent.append(len(line))


def test_requests_of_a_client_that_takes_no_replies_wait_and_all_are_done(tmp_path):
    """It is not dropped: it gets its replies when it takes them, and others do not notice."""
    done: list[str] = []

    async def answer(request: Any) -> protocol.Reply:
        done.append(request.id)
        if isinstance(request, protocol.StatusOf):
            return await no_work(request)
        return protocol.TagsEdited(tags=["x" * 20_000])

    async def pipeline() -> None:
        with Desk(tmp_path, answer) as desk:
            async with desk.serving():
                read, write = await desk.raw()
                transport: Any = write.transport
                transport.pause_reading()
                asked = [b'{"type":"edit_tags","id":"%d"}\n' % number for number in range(2000)]
                sending = asyncio.ensure_future(_write_all(write, [_HELLO, *asked], []))
                other = await desk.call()
                for _ in range(300):
                    await other.ask(protocol.StatusOf)
                assert len(done) < 1500, "replies are piled up for whoever does not take them"
                transport.resume_reading()
                heard = [json.loads(await read.readline()) for _ in range(2001)]
                await sending
                assert [each["to"] for each in heard[1:]] == [str(n) for n in range(2000)]
                write.close()
                await other.close()

    run(pipeline())


def test_what_a_client_sends_while_it_is_busy_is_left_in_its_socket(tmp_path):
    go = asyncio.Event()

    async def answer(request: Any) -> protocol.Reply:
        if isinstance(request, protocol.Compact):
            await go.wait()
        return await no_work(request)

    async def flood() -> None:
        with Desk(tmp_path, answer) as desk:
            async with desk.serving():
                read, write = await desk.raw()
                sent: list[int] = []
                padding = b"x" * 100_000
                lines = [b'{"type":"status","id":"s","x":"' + padding + b'"}\n'] * 400
                first = b'{"type":"compact","id":"c"}\n'
                sending = asyncio.ensure_future(_write_all(write, [_HELLO, first, *lines], sent))
                other = await desk.call()
                for _ in range(300):
                    await other.ask(protocol.StatusOf)
                assert sum(sent) < 10_000_000, "everything is read at once"
                go.set()
                await sending
                for _ in range(402):
                    assert json.loads(await read.readline()).get("ok", True)
                write.close()
                await other.close()

    run(flood())


def test_there_is_a_cap_on_clients(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "_MOST_CLIENTS", 2)

    async def come() -> None:
        with Desk(tmp_path) as desk:
            async with desk.serving() as broadcaster:
                first, second = await desk.call(), await desk.call()
                read, write = await desk.raw()
                refused = json.loads(await read.readline())
                assert refused["error"] == "2 clients are already connected. Close some of them."
                assert await read.read() == b""
                write.close()
                await first.close()
                while len(broadcaster.clients) == 2:
                    await second.ask(protocol.StatusOf)
                third = await desk.call()
                for caller in (second, third):
                    await caller.close()

    run(come())


def test_nonsense_does_not_put_off_the_hello(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "HELLO_SECONDS", 0.05)

    async def babble() -> None:
        with Desk(tmp_path) as desk:
            async with desk.serving():
                read, write = await desk.raw()
                last = b""
                with suppress(OSError):  # it may be hung up on in mid-sentence
                    for _ in range(20_000):  # for much longer than there is time
                        write.write(b"nonsense\n")
                        await write.drain()
                        last = await read.readline() or last
                        if read.at_eof():
                            break
                assert (
                    json.loads(last)["error"] == "The first request must be hello, without delay."
                )
                write.close()

    run(babble())


def test_status_that_is_asked_for_often_has_nothing_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "_MOST_REMEMBERED", 2)
    done: list[str] = []

    async def answer(request: Any) -> protocol.Reply:
        done.append(request.id)
        return await no_work(request)

    async def ask() -> None:
        with Desk(tmp_path, answer) as desk:
            async with desk.serving():
                caller = await desk.call()
                await caller.ask(protocol.Cancel, id="once")
                for number in range(5):
                    await caller.ask(protocol.StatusOf, id=str(number))
                await caller.ask(protocol.StatusOf, id="0")  # as things stand now
                await caller.ask(protocol.Cancel, id="once")
                await caller.close()

    run(ask())
    assert done == ["once", "0", "1", "2", "3", "4", "0"]


def test_what_is_under_way_is_not_forgotten_for_what_comes_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "_MOST_REMEMBERED", 1)
    go, done = asyncio.Event(), []

    async def answer(request: Any) -> protocol.Reply:
        done.append(request.id)
        if request.id == "slow":
            await go.wait()
        return await no_work(request)

    async def ask() -> None:
        with Desk(tmp_path, answer) as desk:
            async with desk.serving():
                first, second = await desk.call(), await desk.call()
                slow = asyncio.ensure_future(first.ask(protocol.Compact, id="slow"))
                for name in ("a", "b", "c"):
                    await second.ask(protocol.Compact, id=name)
                again = asyncio.ensure_future(second.ask(protocol.Compact, id="slow"))
                await asyncio.sleep(0)
                await (await desk.call()).ask(protocol.StatusOf)
                go.set()
                await asyncio.gather(slow, again)
                for caller in (first, second):
                    await caller.close()

    run(ask())
    assert done.count("slow") == 1


# The socket


def test_the_socket_stands_until_the_session_has_been_let_go_of(tmp_path, monkeypatch):
    """From 3.13 on, asyncio removes it when nobody listens any more, unless it is told not to."""
    given: dict[str, Any] = {}
    really = asyncio.start_unix_server

    async def started(*words: Any, **options: Any) -> Any:
        given.update(options)
        return await really(*words, **options)

    monkeypatch.setattr(asyncio, "start_unix_server", started)

    async def leave() -> None:
        with Desk(tmp_path) as desk:
            async with desk.serving():
                desk.server.stop_listening()
                await asyncio.sleep(0)
                assert desk.path.exists()
                assert not address.listens(desk.path)
            assert not desk.path.exists()

    run(leave())
    assert given.get("cleanup_socket", True) is (sys.version_info < (3, 13))
    (tmp_path / "again").mkdir()
    monkeypatch.setattr(server, "_keeping_the_socket", lambda: {"backlog": 7})

    async def begin() -> None:
        with Desk(tmp_path / "again") as desk:
            async with desk.serving():
                assert given["backlog"] == 7, "nobody asks what this version has to be told"

    run(begin())


@pytest.mark.parametrize(
    ("version", "expected"),
    [((3, 11), {}), ((3, 12, 9), {}), ((3, 13), {"cleanup_socket": False})],
)
def test_every_version_is_told_what_it_understands(monkeypatch, version, expected):
    class FakeSys:
        version_info = version

    monkeypatch.setattr(server, "sys", FakeSys)
    assert server._keeping_the_socket() == expected


# Who is at the other end


def _gone(_: socket.socket) -> int:
    raise OSError("it is gone")


@pytest.mark.parametrize(
    ("uid", "sentence"),
    [
        (lambda _: None, "This system cannot tell which user is at the other end of a socket."),
        (_gone, "This system cannot tell which user is at the other end of a socket."),
        (lambda _: 4_000_000, "This session belongs to another user."),
    ],
)
def test_whoever_may_be_somebody_else_is_refused(tmp_path, monkeypatch, uid, sentence):
    async def come() -> None:
        with Desk(tmp_path) as desk:
            async with desk.serving():
                monkeypatch.setattr(address, "peer_uid", uid)
                read, write = await desk.raw()
                write.write(_HELLO)
                assert json.loads(await read.readline())["error"] == sentence
                assert address.is_foreign(write.get_extra_info("socket"))
                write.close()

    run(come())
