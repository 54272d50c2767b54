"""What clients hear: every entry once, every character once, each at its own pace."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from typing import Any

import pytest

from holdfast import user
from holdfast.model.entry import Entry
from holdfast.model.event import Event
from holdfast.runtime.protocol import broadcast as broadcast_module
from holdfast.runtime.protocol import messages as protocol
from holdfast.runtime.protocol import subscriber as subscriber_module
from holdfast.runtime.protocol.client import Refused
from tests.runtime.bench import entries_of
from tests.runtime.protocol.in_process_server import Desk
from tests.runtime.runner.runner_clients import run


@pytest.fixture
def desk(tmp_path):
    with Desk(tmp_path) as desk:
        yield desk


def _texts(heard: list[dict[str, Any]]) -> dict[str, str]:
    """What a client has of each stream, as ``docs/protocol.md`` has it put together.

    Text that comes again, or leaves a hole, does not fit where it says that it belongs.
    """
    texts: dict[str, str] = {}
    done: set[str] = set()
    for each in heard:
        if each["type"] == "live":
            stream = each["stream"]
            assert stream not in done, "live text behind the entry that has all of it"
            assert each["at"] == len(texts.get(stream, "")), "a hole, or something twice"
            texts[stream] = texts.get(stream, "") + each["text"]
        elif each["type"] == "entry" and (stream := each["entry"].get("stream")):
            whole = "".join(part["text"] for part in each["entry"]["content"])
            assert whole.startswith(texts.get(stream, ""))
            texts[stream] = whole
            done.add(stream)
    return texts


@pytest.mark.parametrize("seed", range(6))
def test_who_attaches_while_others_write_misses_nothing_and_gets_nothing_twice(desk, seed):
    """Writers append and stream from threads while clients come, go, and come back by number."""
    chance = random.Random(seed)
    said: dict[str, str] = {}

    def write(number: int) -> None:
        own = random.Random(seed * 100 + number)
        for turn in range(12):
            if own.random() < 0.5:
                desk.session.append(user(f"{number}.{turn}"))
                continue
            with desk.session.stream() as live:
                for piece in range(own.randint(1, 6)):
                    live.write(f"{number}.{turn}.{piece} ")
                    if own.random() < 0.3:
                        threading.Event().wait(own.random() * 0.08)  # over the edge of a batch
                said[live.name] = "".join(event.text for event in live.events)

    async def one_client(writers: list[asyncio.Task[None]]) -> None:
        after, heard = -1, []
        while True:
            last = all(writer.done() for writer in writers)
            caller = await desk.call()
            await caller.attach_to_broadcaster(after)
            if last:
                known = {desk.session.state.seq}
                await caller.until(lambda a=after, c=caller, k=known: k & {a, *c.seqs})
            else:
                await asyncio.sleep(chance.random() * 0.1)
            await caller.close()
            entries = caller.all(type="entry")
            _texts(caller.heard)  # of this connection: a stream comes from its beginning
            heard += entries
            after = entries[-1]["entry"]["seq"] if entries else after
            if last:
                break
        expected = [json.loads(entry.line) for entry in entries_of(desk.session)]
        assert [each["entry"] for each in heard] == expected
        assert _texts(heard) == said

    async def all_of_it() -> None:
        async with desk.serving():
            writers = [
                asyncio.ensure_future(asyncio.to_thread(write, number)) for number in range(3)
            ]
            await asyncio.gather(*writers, *(one_client(writers) for _ in range(4)))

    run(all_of_it())


def test_who_attaches_in_mid_stream_hears_it_from_its_beginning(desk):
    async def attach() -> None:
        async with desk.serving():
            early = await desk.call()
            await early.attach_to_broadcaster()
            live = desk.session.stream()
            live.write("one ")
            await early.hears(type="live")
            late = await desk.call()
            await late.attach_to_broadcaster()
            assert _texts(late.heard) == {live.name: "one "}
            live.write("two ")
            for caller in (early, late):
                await caller.until(lambda c=caller: _texts(c.heard) == {live.name: "one two "})
            await asyncio.to_thread(live.finish)
            for caller in (early, late):
                await caller.until(lambda c=caller: c.all(type="entry")[-1]["entry"].get("stream"))
                assert _texts(caller.heard) == {live.name: "one two "}
                await caller.close()
            nothing_live = await desk.call()
            await nothing_live.attach_to_broadcaster()
            assert nothing_live.all(type="live") == []
            await nothing_live.close()

    run(attach())


def test_a_client_that_does_not_want_live_text_gets_entries_only(desk):
    async def attach() -> None:
        async with desk.serving():
            caller = await desk.call()
            await caller.attach_to_broadcaster(live=False)
            with desk.session.stream() as live:
                live.write("text")
            await caller.hears(type="entry")
            assert caller.all(type="live") == []
            await caller.close()

    run(attach())


def test_an_entry_that_is_durable_but_not_yet_told_brings_no_text_twice(desk, monkeypatch):
    """The journal may be read before the listeners hear of what is in it."""

    async def attach() -> None:
        async with desk.serving() as broadcaster:
            live = desk.session.stream()
            live.write("all of it")
            before = await desk.call()
            await before.attach_to_broadcaster()
            await before.until(lambda: before.live("text") == "all of it")
            told: list[Entry] = []
            monkeypatch.setattr(broadcaster, "_entry", told.append)  # the news is late
            await asyncio.to_thread(live.finish)
            caller = await desk.call()
            await caller.attach_to_broadcaster()
            monkeypatch.undo()
            for entry in told:
                broadcaster._entry(entry)
            desk.session.append(user("later"))
            await caller.until(lambda: desk.session.state.seq in caller.seqs)
            assert caller.seqs == [entry.seq for entry in entries_of(desk.session)]
            assert _texts(caller.heard) == {live.name: "all of it"}
            await caller.close()

    run(attach())


def test_text_that_comes_behind_its_entry_is_not_told(desk):
    async def late() -> None:
        async with desk.serving() as broadcaster:
            caller = await desk.call()
            await caller.attach_to_broadcaster()
            with desk.session.stream() as live:
                live.write("text")
            await caller.hears(type="entry")
            await broadcaster.wait_until_sent(desk.session.state.seq)
            broadcaster._live(Event(live.name, "text", 0, "text"), desk.session.state.seq)
            broadcaster.broadcast(protocol.Notice(text="end"))
            await caller.hears(type="note", text="end")
            assert _texts(caller.heard) == {live.name: "text"}
            assert broadcaster._streams == {}
            await caller.close()

    run(late())


def test_text_does_not_overtake_the_entries_before_it(desk):
    """Another thread hands entries on, and may be slow about it."""
    slow = threading.Event()
    desk.session.on_entry(lambda _: slow.wait())

    async def overtake() -> None:
        async with desk.serving():
            caller, other = await desk.call(), await desk.call()
            await caller.attach_to_broadcaster()
            asked = asyncio.ensure_future(asyncio.to_thread(desk.session.append, user("asked")))
            while desk.session.state.seq < 0:  # noqa: ASYNC110  nobody is told before the listener
                await asyncio.sleep(0)
            live = desk.session.stream()
            live.write("an answer")
            await other.attach_to_broadcaster()  # by then, what was on its way to clients has come
            early = [*caller.all(type="live"), *other.all(type="live")]
            slow.set()
            await asked
            await caller.hears(type="live")
            assert early == []
            assert [each["type"] for each in caller.heard[-2:]] == ["entry", "live"]
            await asyncio.to_thread(live.finish)
            for each in (caller, other):
                await each.until(lambda c=each: desk.session.state.seq in c.seqs)
                assert _texts(each.heard) == {live.name: "an answer"}
                await each.close()

    run(overtake())


def test_a_history_larger_than_any_queue_is_sent_in_portions(desk, monkeypatch):
    monkeypatch.setattr(subscriber_module, "MOST_QUEUED_BYTES", 300_000)
    monkeypatch.setattr(broadcast_module, "_PORTION_BYTES", 200_000)
    for number in range(20):
        desk.session.append(user(f"{number} " + "x" * 100_000))

    async def attach() -> None:
        async with desk.serving():
            caller = await desk.call()
            await caller.attach_to_broadcaster()
            assert caller.seqs == [entry.seq for entry in entries_of(desk.session)]
            assert caller.all(type="caught_up")[0]["seq"] == desk.session.state.seq
            await caller.close()

    run(attach())


def test_a_stream_larger_than_any_queue_can_be_attached_to(desk, monkeypatch):
    monkeypatch.setattr(subscriber_module, "MOST_QUEUED_BYTES", 300_000)
    monkeypatch.setattr(broadcast_module, "_PORTION_BYTES", 200_000)

    async def attach() -> None:
        async with desk.serving() as broadcaster:
            live = desk.session.stream()
            for number in range(20):
                broadcaster._live(Event(live.name, "text", 0, f"{number} " + "x" * 50_000), -1)
            caller = await desk.call()
            await caller.attach_to_broadcaster()
            assert len(_texts(caller.heard)[live.name]) > 1_000_000
            await caller.close()

    run(attach())


def test_a_stalled_client_is_dropped_waits_for_nobody_and_catches_up_by_number(desk, monkeypatch):
    monkeypatch.setattr(subscriber_module, "MOST_QUEUED_BYTES", 500_000)

    async def stall() -> None:
        async with desk.serving() as broadcaster:
            reading = await desk.call()
            await reading.attach_to_broadcaster()
            read, write = await desk.raw()
            write.write(b'{"type":"hello","id":"h","protocol":1,"version":"1"}\n')
            write.write(b'{"type":"attach","id":"a"}\n')
            seen = b""
            while b"caught_up" not in seen:
                seen += await read.readline()
            read._transport.pause_reading()
            for number in range(40):
                at = await desk.session.submit(user(f"{number} " + "x" * 100_000))
                # Who reads hears of each before the next: it has no chance to stall, too.
                await reading.until(lambda seq=at.seq: seq in reading.seqs)
            assert len(broadcaster.clients) == 1, "the one that does not read is still there"
            read._transport.resume_reading()
            lines = (await read.read()).split(b"\n")
            got = [json.loads(each)["entry"]["seq"] for each in lines[:-1] if b'"entry"' in each]
            again = await desk.call()
            await again.attach_to_broadcaster(got[-1] if got else -1)
            assert got + again.seqs == [entry.seq for entry in entries_of(desk.session)]
            write.close()
            for caller in (reading, again):
                await caller.close()

    run(stall())


def test_a_line_larger_than_the_bound_is_no_reason_to_drop_anybody(desk, monkeypatch):
    monkeypatch.setattr(subscriber_module, "MOST_QUEUED_BYTES", 1000)

    async def tell() -> None:
        async with desk.serving() as broadcaster:
            caller = await desk.call()
            await caller.attach_to_broadcaster()
            broadcaster.broadcast(protocol.Notice(text="small"))
            broadcaster.broadcast(protocol.Notice(text="x" * 5_000_000))
            broadcaster.broadcast(protocol.Notice(text="last"))
            await caller.hears(type="note", text="last")
            assert [len(text) for text in caller.notes] == [5, 5_000_000, 4]

    run(tell())


def test_a_request_under_way_is_not_begun_again_by_its_retry(tmp_path):
    begun: list[str] = []
    busy, go = asyncio.Event(), asyncio.Event()

    async def answer(request: Any) -> protocol.Reply:
        begun.append(request.id)
        busy.set()
        await go.wait()
        return protocol.PromptQueued(seq=len(begun))

    async def retry() -> None:
        with Desk(tmp_path, answer) as desk:
            async with desk.serving():
                first, second = await desk.call(), await desk.call()
                asked = [
                    asyncio.ensure_future(caller.ask(protocol.Submit, content=[], id="same"))
                    for caller in (first, second)
                ]
                await busy.wait()
                await desk.call()  # by now the request of the second has been read, too
                go.set()
                assert [each["seq"] for each in await asyncio.gather(*asked)] == [1, 1]
                assert (await first.ask(protocol.Submit, content=[], id="same"))["seq"] == 1
                for caller in (first, second):
                    await caller.close()

    run(retry())
    assert begun == ["same"]


def test_a_request_that_fails_by_a_mistake_of_ours_is_told_and_may_be_tried_again(tmp_path, caplog):
    fails = [ZeroDivisionError("division by zero")]

    async def answer(_: Any) -> protocol.Reply:
        if fails:
            raise fails.pop()
        return protocol.Scheduled(after_turn=True)

    async def ask() -> None:
        with Desk(tmp_path, answer) as desk:
            async with desk.serving():
                caller = await desk.call()
                with pytest.raises(Refused, match="could not do this: division by zero"):
                    await caller.ask(protocol.Compact, id="x")
                assert (await caller.ask(protocol.Compact, id="x"))["after_turn"]
                await caller.close()

    run(ask())
    assert "A request failed" in caplog.text


def test_only_so_many_answers_are_remembered(tmp_path, monkeypatch):
    from holdfast.runtime.protocol import server  # noqa: PLC0415  patched

    monkeypatch.setattr(server, "_MOST_REMEMBERED", 2)
    done: list[str] = []

    async def answer(request: Any) -> protocol.Reply:
        done.append(request.id)
        return protocol.Reply()

    async def ask() -> None:
        with Desk(tmp_path, answer) as desk:
            async with desk.serving():
                caller = await desk.call()
                for name in ("a", "b", "c", "b", "a"):
                    await caller.ask(protocol.Compact, id=name)
                await caller.close()

    run(ask())
    assert done == ["a", "b", "c", "a"]


def test_a_journal_that_is_gone_is_no_endless_loop(desk):
    desk.session.append(user("one"))

    async def attach() -> None:
        async with desk.serving():
            (desk.session.path / "journal.jsonl").unlink()
            caller = await desk.call()
            await caller.attach_to_broadcaster()
            assert caller.seqs == []
            await caller.close()

    run(attach())
