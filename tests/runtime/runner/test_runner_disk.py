"""A disk that is full under a runner: told at once, waited for, nothing lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import user
from holdfast.errors import StorageError
from holdfast.runtime.protocol import messages as protocol
from holdfast.runtime.protocol.client import Refused, RunnerGone
from holdfast.runtime.protocol.socket_path import listens
from tests.cli.program import said, turns, until
from tests.cli.run.test_headless_full_disk import LONG, fill
from tests.crash.lab.mounts import mounted, why_not
from tests.runtime.runner.in_process_runner import FakeHeldFiles, runner_inside
from tests.runtime.runner.runner_clients import Office, gate, run


@pytest.fixture
def small_disk(office: Office) -> Iterator[Path]:
    reason = why_not("tmpfs")
    if reason is not None:
        pytest.skip(f"A full disk was NOT tried: {reason}.")
    with mounted("tmpfs", office.home, "size=32m,mode=0700") as folder:
        yield folder
        office.close()  # or it cannot be unmounted


def test_a_turn_waits_for_room_and_everybody_is_told_also_who_comes_then(office, small_disk):
    script = office.script(
        {"call": "bash", "arguments": {"command": gate("x")}}, {"say": LONG}, {"stop": "end"}
    )

    async def fill_up():
        caller = await office.call(script=script)
        await caller.attach(live=False)
        await caller.submit("go")
        until(office.file("x.begun").exists)
        ballast = fill(small_disk)
        office.file("x.go").touch()
        await caller.until(lambda: any("Disk full" in note for note in caller.notes))
        late = await office.call_again()
        await late.attach(live=False)
        await late.until(lambda: any("Disk full" in note for note in late.notes))
        status = (await late.ask(protocol.StatusOf))["status"]
        assert status["state"] == "running"
        assert "Disk full" in status["trouble"]
        with pytest.raises(Refused, match="Disk full") as refused:
            await late.submit("say: later", id="later")
        assert refused.value.exit_code == 75
        ballast.unlink()
        assert (await caller.hears(type="turn"))["state"] == "completed"
        seq = await late.submit("say: later", id="later")
        await late.hears(type="turn", queued=seq, state="completed")

    run(fill_up())
    assert turns(office.journal()) == ["started", "completed"] * 2
    assert said(office.journal(), "user") == ["go", "say: later"]


def test_a_runner_that_is_told_to_leave_waits_for_room_and_then_has_saved_everything(
    office, small_disk
):
    async def fill_up():
        caller = await office.call()
        await caller.attach(live=False)
        await caller.submit("say: hi")
        await caller.hears(type="turn")
        ballast = fill(small_disk)
        numbers = 0
        with pytest.raises(Refused, match="Disk full"):
            for numbers in range(1000):  # until what the journal keeps in reserve is used up
                await caller.submit(f"say: {numbers} " + "x" * 100_000, id=str(numbers))
        await caller.ask(protocol.Stop)
        await caller.until(lambda: sum("Disk full" in note for note in caller.notes) > 0)
        assert not caller.gone
        await _asked_while_it_waits(office)
        ballast.unlink()
        await caller.hung_up()
        assert caller.heard[-1]["type"] == "bye"
        office.ended(caller.pid)
        return numbers

    last = run(fill_up())
    ids = {each["id"] for each in office.journal() if each.get("id")}
    assert f"request:{last}" in ids, "the prompt that waited for room is lost"


async def _asked_while_it_waits(office: Office) -> None:
    """It is found, tells what it waits for, and takes nothing that it could not save."""
    until(lambda: listens(office.socket()))
    late = await office.call()
    assert "Disk full" in (await late.ask_status())["trouble"]
    with pytest.raises(RunnerGone, match=r"waits for free disk space: Disk full"):
        await late.submit("say: too late")
    await late.ask(protocol.Stop)


def test_a_runner_that_has_nothing_left_but_to_wait_for_room_can_be_asked_why(office, monkeypatch):
    files = FakeHeldFiles()

    async def leave() -> None:
        async with runner_inside(office, monkeypatch, files) as inside:
            caller = await inside.call(after=-1)
            await caller.submit("say: hi")
            await caller.hears(type="turn")
            with files.full_disk():
                inside.session.submit(user("the last words"))
                await caller.ask(protocol.Stop)
                async with asyncio.timeout(60):
                    while inside.runner.waiting_for_disk is None or not listens(office.socket()):
                        await caller.ask_status()
                await _asked_while_it_waits(office)
                late = await office.call()
                with pytest.raises(
                    Refused, match="waits for free disk space: Disk full"
                ) as refused:
                    await late.ask(protocol.Attach)
                assert refused.value.exit_code == 75
                assert (await late.ask_status())["state"] == "idle"
            await caller.hung_up()
            await late.hung_up()
        assert not office.socket().exists()

    try:
        run(leave())
    finally:
        office.pids.clear()  # it is this very process
    assert said(office.journal(), "user") == ["say: hi", "the last words"]


def test_a_session_that_begins_on_a_full_disk_says_so_and_begins_when_there_is_room(
    office, small_disk
):
    ballast = fill(small_disk)

    async def begin():
        caller = await office.call()
        await caller.attach()
        with pytest.raises(Refused, match="Disk full"):
            await caller.submit("say: first", id="first")
        ballast.unlink()
        await caller.submit("say: first", id="first")
        await caller.hears(type="turn", state="completed", text="first")

    run(begin())
    assert said(office.journal(), "user") == ["say: first"]


def test_a_runner_that_has_no_place_to_start_says_so(office, small_disk):
    with mounted("tmpfs", small_disk / "none", "size=64k,nr_inodes=1,mode=0700") as full:
        office.home = full
        with pytest.raises(StorageError, match="run cannot be made: No space left on device"):
            run(office.begin())
