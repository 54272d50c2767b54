"""The reconnecting client: every entry once across hang-ups, requests that reach a runner."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import user
from holdfast.errors import HoldfastError, StorageError
from holdfast.runtime.protocol import messages as protocol
from holdfast.runtime.protocol import reconnect
from holdfast.runtime.protocol.client import Connection, RunnerGone, connect, new_request_id
from holdfast.runtime.protocol.reconnect import Connected, Disconnected, ReconnectingClient
from tests.runtime.protocol.in_process_server import STATUS, Desk
from tests.runtime.runner.runner_clients import run


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.setattr(reconnect, "_RETRY_SECONDS", 0.001)
    with Desk(tmp_path) as desk:
        yield desk


class FakeRunners:
    """Connects to the desk as if to another runner each time; counts how often."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.connected = 0

    async def connect(self) -> Connection:
        self.connected += 1
        connection = await connect(self._desk.path, {})
        connection.hello = replace(connection.hello, pid=self.connected)
        return connection


async def until(client: ReconnectingClient, kind: type[Any]) -> Any:
    async for event in client:
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__}")


def test_no_entry_is_missed_or_repeated_when_the_runner_hangs_up(desk):
    async def follow() -> list[Any]:
        found: list[Any] = []
        async with desk.serving() as broadcaster:
            client = ReconnectingClient(lambda: connect(desk.path, {}))
            for number in range(30):
                desk.session.append(user(f"{number}"))
                async for event in client:
                    found.append(event)
                    if isinstance(event, protocol.EntryEvent) and event.seq == number:
                        break
                if number % 10 == 5:
                    for subscriber in list(broadcaster.clients):
                        subscriber.drop()
            await client.close()
        return found

    found = run(follow())
    seqs = [event.seq for event in found if isinstance(event, protocol.EntryEvent)]
    assert seqs == list(range(30))
    assert sum(isinstance(event, Disconnected) for event in found) == 3
    assert sum(isinstance(event, Connected) for event in found) == 4


def test_reading_and_a_request_share_one_connection(desk):
    async def both() -> int:
        async with desk.serving():
            runners = FakeRunners(desk)
            async with ReconnectingClient(runners.connect) as client:
                request = client.request(protocol.Compact(id=new_request_id()))
                await asyncio.gather(until(client, protocol.CaughtUp), request)
                return runners.connected

    assert run(both()) == 1


def test_a_request_is_not_attached_and_reading_attaches(desk):
    async def ask() -> tuple[bool, bool]:
        client = ReconnectingClient(lambda: connect(desk.path, {}))
        async with desk.serving() as broadcaster, client:
            await client.request(protocol.Compact(id=new_request_id()))
            before = any(each.attached for each in broadcaster.clients)
            await client.attach()
            await client.request(protocol.Compact(id=new_request_id()))
            return before, any(each.attached for each in broadcaster.clients)

    assert run(ask()) == (False, True)


def test_a_request_is_sent_again_to_the_next_runner_with_its_id(tmp_path, monkeypatch):
    monkeypatch.setattr(reconnect, "_RETRY_SECONDS", 0.001)
    asked: list[str] = []

    async def answer(request: protocol.Request) -> protocol.Reply:
        asked.append(request.id)
        if len(asked) == 1:  # it dies before it has replied
            for subscriber in list(own.broadcaster.clients):
                subscriber.drop()
            raise StorageError("it is gone")
        return protocol.Scheduled(after_turn=True)

    async def ask() -> protocol.Scheduled:
        async with own.serving(), ReconnectingClient(FakeRunners(own).connect) as client:
            return await client.request(protocol.Compact(id="once"))

    with Desk(tmp_path, answer) as own:
        assert run(ask()).after_turn
    assert asked == ["once", "once"]


def test_a_cancel_is_not_sent_to_the_next_runner(tmp_path):
    asked: list[str] = []

    async def answer(request: protocol.Request) -> protocol.Reply:
        asked.append(request.id)
        raise RunnerGone("it is stopping")

    async def ask() -> None:
        async with own.serving(), ReconnectingClient(FakeRunners(own).connect) as client:
            with pytest.raises(RunnerGone, match="it is stopping"):
                await client.request(protocol.Cancel(id="c"))

    with Desk(tmp_path, answer) as own:
        run(ask())
    assert asked == ["c"]


def test_runners_that_keep_dying_are_given_up(desk, tmp_path):
    async def follow() -> tuple[int, list[Any]]:
        found: list[Any] = []
        async with desk.serving() as broadcaster:
            runners = FakeRunners(desk)
            log = tmp_path / "its.log"
            async with ReconnectingClient(runners.connect, log=log) as client:
                with pytest.raises(RunnerGone, match=r"has ended 5 times within a minute; .*its"):
                    async for event in client:
                        found.append(event)
                        if isinstance(event, protocol.CaughtUp):
                            for subscriber in list(broadcaster.clients):
                                subscriber.drop()
                return runners.connected, found

    connected, found = run(follow())
    assert connected == 5
    assert sum(isinstance(event, Disconnected) for event in found) == 4


def test_one_runner_that_only_hangs_up_is_never_given_up(desk):
    async def follow() -> int:
        connected = 0
        client = ReconnectingClient(lambda: connect(desk.path, {}))
        async with desk.serving() as broadcaster, client:
            async for event in client:
                connected += isinstance(event, Connected)
                if connected == 20:
                    break
                if isinstance(event, protocol.CaughtUp):
                    for subscriber in list(broadcaster.clients):
                        subscriber.drop()
        return connected

    assert run(follow()) == 20


def test_after_a_good_bye_the_next_runner_comes_only_when_it_is_wanted(desk):
    async def follow() -> None:
        runners = FakeRunners(desk)
        client = ReconnectingClient(runners.connect)
        async with desk.serving() as broadcaster:
            await until(client, protocol.CaughtUp)
            await client.request(protocol.Compact(id=new_request_id()))  # attached by then
            broadcaster.broadcast(protocol.RunnerExited(why="it was idle"))
            closing = asyncio.ensure_future(desk.server.close())
            events = [event async for event in client]
            assert events == [protocol.RunnerExited(why="it was idle")]
            await closing
        wanted = asyncio.ensure_future(client.wait_wanted())
        await asyncio.sleep(0)
        assert not wanted.done()
        assert (client.is_connected, await client.status()) == (False, None)
        async with desk.serving():
            await client.request(protocol.Compact(id=new_request_id()))
            await wanted
            assert isinstance(await anext(aiter(client)), Connected)
            await client.close()
        assert runners.connected == 2

    run(follow())


def test_a_cancellation_that_meets_the_good_bye_of_the_runner_is_not_dropped(desk, monkeypatch):
    """A chat whose terminal closed while its runner exited was never seen to end."""

    async def follow() -> None:
        async with desk.serving() as broadcaster:
            client = ReconnectingClient(lambda: connect(desk.path, {}))
            await until(client, protocol.CaughtUp)
            waiting, hung_up = asyncio.Event(), asyncio.Event()

            async def wait_hung_up(_: Connection) -> None:
                waiting.set()
                await hung_up.wait()

            monkeypatch.setattr(Connection, "wait_hung_up", wait_hung_up)
            broadcaster.broadcast(protocol.RunnerExited(why="it was idle"))
            reading = asyncio.ensure_future(until(client, protocol.TurnEnded))
            await waiting.wait()
            hung_up.set()
            await asyncio.sleep(0)  # the wait for the end is over, the reader not yet resumed
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            await client.close()

    run(follow())


def test_a_failure_to_connect_reaches_the_reader_and_every_request(desk):
    tries: list[None] = []

    async def connect_() -> Connection:
        tries.append(None)
        await asyncio.sleep(0)
        raise StorageError("no runner can be started")

    async def ask() -> None:
        client = ReconnectingClient(connect_)
        request = client.request(protocol.Compact(id=new_request_id()))
        both = await asyncio.gather(until(client, Connected), request, return_exceptions=True)
        assert [str(each) for each in both] == ["no runner can be started"] * 2
        assert len(tries) == 1
        wanted = asyncio.ensure_future(client.wait_wanted())
        await asyncio.sleep(0)
        assert not wanted.done(), "it was told already, and must not be tried again by itself"
        client.want()
        await wanted
        await client.close()

    run(ask())


def test_a_refused_attach_is_told_and_can_be_tried_again(desk):
    async def follow() -> None:
        async with desk.serving():
            runners = FakeRunners(desk)
            async with ReconnectingClient(runners.connect) as client:
                desk.server.why_not_attach = lambda: StorageError("no room")
                with pytest.raises(HoldfastError, match="no room"):
                    await until(client, Connected)
                desk.server.why_not_attach = lambda: None
                await until(client, Connected)
                assert runners.connected == 1

    run(follow())


def test_closing_detaches_only_on_purpose(desk):
    async def close() -> list[bool]:
        found: list[bool] = []
        gone: asyncio.Queue[bool] = asyncio.Queue()
        async with desk.serving() as broadcaster:
            broadcaster.on_disconnect(lambda subscriber: gone.put_nowait(not subscriber.answers))
            for detaches in (False, True):
                client = ReconnectingClient(lambda: connect(desk.path, {}), answers=True)
                client.detaches = detaches
                await until(client, protocol.CaughtUp)
                await client.close()
                found.append(await gone.get())
        return found

    assert run(close()) == [False, True]


def test_a_client_over_one_connection_never_makes_another(desk):
    async def follow() -> None:
        async with desk.serving() as broadcaster:
            connection = await connect(desk.path, {})
            client = ReconnectingClient.over(connection, after=reconnect.NO_HISTORY)
            await until(client, protocol.CaughtUp)
            for subscriber in list(broadcaster.clients):
                subscriber.drop()
            assert await until(client, Disconnected)
            with pytest.raises(RunnerGone, match="closed the connection"):
                await until(client, Connected)
            await client.close()

    run(follow())


def test_until_idle_yields_all_that_came_before_the_runner_was_idle(tmp_path):
    states = ["running", "idle"]

    async def answer(_: protocol.Request) -> protocol.Reply:
        return protocol.StatusReply(status=replace(STATUS, state=states.pop(0)))

    async def follow() -> list[str]:
        async with own.serving() as broadcaster:
            idle = protocol.StateChanged(state="idle")

            def greet(_: object) -> None:
                for event in (idle, protocol.Notice(text="a"), idle, protocol.Notice(text="b")):
                    broadcaster.broadcast(event)

            broadcaster.on_attach(greet)
            async with ReconnectingClient(lambda: connect(own.path, {})) as client:
                events = [event async for event in client.until_idle()]
                return [event.text for event in events if isinstance(event, protocol.Notice)]

    with Desk(tmp_path, answer) as own:
        assert run(follow()) == ["a", "b"]
    assert states == []


def test_a_reply_of_another_shape_is_an_error_and_no_traceback(tmp_path):
    async def answer(_: protocol.Request) -> protocol.Reply:
        return protocol.Reply()

    async def ask() -> None:
        async with own.serving(), ReconnectingClient(FakeRunners(own).connect) as client:
            await client.request(protocol.Submit(id="1", content=[]))

    with Desk(tmp_path, answer) as own, pytest.raises(StorageError, match="reply that this"):
        run(ask())
