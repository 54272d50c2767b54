"""A turn on a disk that is full: told, waited for, and nothing is lost."""

from __future__ import annotations

import asyncio
import errno
import os

import pytest

import holdfast
from holdfast.files import Files
from holdfast.model.message import Text
from holdfast.runtime.tools.shell import spool
from tests.runtime.bench import (
    FakeProvider,
    FakeTool,
    calling,
    comes_before_the_end,
    done,
    results,
    saying,
    shapes,
)


def run_on_a_disk_that_fills_up(bench, files, provider, tools):
    """Run a turn; let there be room again once people were told that there is none."""
    told = asyncio.Event()

    def tell(text):
        bench.told.append(text)
        told.set()

    async def work(agent):
        turn = asyncio.ensure_future(agent.prompt([Text(text="go")]))
        await comes_before_the_end(told, turn)
        files.free()
        return await turn

    return bench.run(work, provider, tools=tools, tell=tell)


def test_a_result_waits_for_room_and_the_command_is_not_run_twice(fragile_bench, files):
    ran = []

    async def work(call):
        ran.append(call.id)
        files.fill()
        return done("its result")

    provider = FakeProvider(calling(("a", "fake", {})), saying("done"))
    outcome = run_on_a_disk_that_fills_up(fragile_bench, files, provider, {"fake": FakeTool(work)})
    assert outcome.state == "completed"
    assert ran == ["a"]
    assert shapes(fragile_bench.entries())[-5:] == [
        "a started",
        "a completed",
        "assistant end",
        "usage",
        "turn completed",
    ]
    assert len(fragile_bench.told) == 1
    assert "full" in fragile_bench.told[0] or "room" in fragile_bench.told[0]


def test_a_tool_with_effects_does_not_run_before_its_intent_has_room(fragile_bench, files):
    ran = []

    async def work(call):
        ran.append(files.full)
        return done("its result")

    provider = FakeProvider(calling(("a", "fake", {})), saying("done"))
    provider.before = lambda request: files.fill() if len(provider.requests) == 1 else None
    outcome = run_on_a_disk_that_fills_up(fragile_bench, files, provider, {"fake": FakeTool(work)})
    assert (outcome.state, ran) == ("completed", [False])


def test_what_a_tool_keeps_waits_for_room_too(fragile_bench, files):
    async def work(call):
        files.fill()
        name = await asyncio.to_thread(call.keep, b"precious")
        return done(name)

    provider = FakeProvider(calling(("a", "fake", {})), saying("done"))
    outcome = run_on_a_disk_that_fills_up(fragile_bench, files, provider, {"fake": FakeTool(work)})
    assert outcome.state == "completed"
    result = results(fragile_bench.entries())["a"]
    assert result.outcome == "completed"
    with fragile_bench.session() as session:
        assert [session.blob(name) for name in result.kept] == [b"precious"]


def test_whoever_cancels_is_told_and_the_entries_are_written_when_there_is_room(
    fragile_bench, files
):
    async def work(call):
        files.fill()
        return done("its result")

    told = asyncio.Event()

    async def give_up(agent):
        turn = asyncio.ensure_future(agent.prompt([Text(text="go")]))
        await comes_before_the_end(told, turn)
        agent.cancel("enough")
        with pytest.raises(holdfast.DiskFull):
            await turn
        files.free()

    provider = FakeProvider(calling(("a", "fake", {})))
    fragile_bench.run(give_up, provider, tools={"fake": FakeTool(work)}, tell=lambda _: told.set())
    entries = fragile_bench.entries()
    assert results(entries)["a"].outcome == "completed"
    found = fragile_bench.run(lambda agent: agent.interrupted(), FakeProvider())
    assert found is not None
    assert [call.state for call in found.calls] == ["completed"]
    outcome = fragile_bench.run(lambda agent: agent.continue_turn(), FakeProvider(saying("done")))
    assert outcome is not None
    assert outcome.state == "completed"


def test_a_journal_that_cannot_be_written_any_more_ends_the_turn_loudly(fragile_bench, files):
    async def work(call):
        files.fail("write", name="journal", times=None)
        files.fail("open_append", times=None)
        return done("its result")

    provider = FakeProvider(calling(("a", "fake", {})))
    with pytest.raises(holdfast.WriteFailed):
        fragile_bench.prompt("go", provider, tools={"fake": FakeTool(work)})
    files.heal()
    found = fragile_bench.run(lambda agent: agent.interrupted(), tools={"fake": FakeTool(work)})
    assert found is not None
    assert [(call.state, call.recorded) for call in found.calls] == [("unknown", False)]


def test_a_turn_ends_though_what_its_command_left_cannot_be_removed(bench, monkeypatch):
    class FakeStubbornFiles(Files):
        def rename(self, source, target):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def names(self, folder):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def work(call):
        monkeypatch.setattr(spool, "_files", FakeStubbornFiles())
        return done("its result")

    provider = FakeProvider(calling(("a", "fake", {})), saying("done"))
    outcome = bench.prompt("go", provider, tools={"fake": FakeTool(work)})
    assert outcome.state == "completed"
    assert results(bench.entries())["a"].outcome == "completed"
