"""The picker beside runners: real processes that hold sessions."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

import holdfast
from tests.cli.program import until
from tests.runtime.runner.runner_clients import gate, office_on_disk, run
from tests.tui.picker.picker_pilot import Picking, pick_with

office = pytest.fixture(office_on_disk)


def test_a_running_session_is_marked_and_edited_through_its_runner(office):
    """It cannot be deleted meanwhile, and the picker says why; at rest it is idle."""
    call = {"call": "bash", "arguments": {"command": gate("x")}}

    async def begin() -> None:
        caller = await office.call(script=office.script(call, {"say": "done"}))
        await caller.attach()
        await caller.submit("work at it")

    async def work(picker: Picking) -> None:
        await picker.sees("● work at it", "running")
        await picker.press("ctrl+r", "ctrl+u")
        await picker.type("Renamed while it runs")
        await picker.press("enter")
        await picker.sees("● Renamed while it runs", "Renamed to “Renamed while it runs”.")
        await picker.press("ctrl+t", "x", "enter")
        await picker.sees("Tagged “#x”.")
        await picker.press("ctrl+d", "y")
        await picker.sees("is being written by process", "1 shown")
        office.file("x.go").touch()
        await picker.sees("○ Renamed while it runs", "idle")

    run(begin())
    until(office.file("x.begun").exists)
    with holdfast.open_store(office.home) as store:
        pick_with(store, office.workspace, work)
    titles = [each["title"] for each in office.journal() if "title" in each]
    assert titles[-1] == "Renamed while it runs"
    assert [each["tags"] for each in office.journal() if "tags" in each] == [["x"]]


def test_a_runner_that_asks_is_waiting(office):
    call = {"call": "bash", "arguments": {"command": "rm -r build"}}

    async def begin() -> None:
        script = office.script(call, {"say": "done"})
        caller = await office.call(script=script, allow_all=False)
        await caller.attach(answers=True)
        await caller.submit("clean up")
        await caller.hears(type="question")

    async def work(picker: Picking) -> None:
        await picker.sees("? clean up", "waiting")

    run(begin())
    with holdfast.open_store(office.home) as store:
        pick_with(store, office.workspace, work)


def test_a_runner_that_does_not_answer_is_running_and_stalls_nothing(office):
    pids: list[int] = []

    async def begin() -> None:
        caller = await office.call()
        await caller.attach()
        await caller.submit("run: echo hello")
        await caller.hears(type="turn")
        pids.append(caller.pid)

    async def work(picker: Picking) -> None:
        assert picker.rows() == ["run: echo hello"]
        await picker.type("echo")
        await picker.sees("/ echo", "1 shown")
        await picker.sees("● run: echo hello", "running")

    run(begin())
    (pid,) = pids
    os.kill(pid, signal.SIGSTOP)
    try:
        with holdfast.open_store(office.home) as store:
            pick_with(store, office.workspace, work)
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_runner_that_comes_and_goes_is_seen(office):
    async def begin() -> None:
        caller = await office.call()
        await caller.attach()
        await caller.submit("run: echo hello")
        await caller.hears(type="turn")
        await caller.close()

    async def work(picker: Picking) -> None:
        await picker.sees("There are no sessions yet.")
        await asyncio.to_thread(run, begin())
        await picker.sees("○ run: echo hello", "idle")
        (pid,) = office.pids
        await asyncio.to_thread(office.kill, pid, signal.SIGTERM)
        await picker.loses("idle")
        await picker.sees("  run: echo hello")

    with holdfast.open_store(office.home) as store:
        pick_with(store, office.workspace, work)
