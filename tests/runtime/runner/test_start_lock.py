"""The lock of starts: nobody is deaf while it waits, or waits for somebody else's runner."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import SessionLocked
from holdfast.model.ids import new_session_id
from holdfast.runtime.protocol.socket_path import prepare_folder, run_folder
from holdfast.runtime.runner import main as process
from holdfast.runtime.runner import start_lock as starting
from holdfast.runtime.runner.start_lock import StartsBlocked
from tests.runtime.runner.runner_clients import Office, run

_A_HANG_SECONDS = 20.0


@contextmanager
def _somebody_starts(office: Office) -> Iterator[threading.Event]:
    """Hold the lock of starts until the event is set, or a test must have been hanging."""
    descriptor = os.open(prepare_folder(office.home) / starting.LOCK_NAME, os.O_CREAT | os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    release = threading.Event()

    def hold() -> None:
        release.wait(_A_HANG_SECONDS)
        os.close(descriptor)

    holding = threading.Thread(target=hold)
    holding.start()
    try:
        yield release
    finally:
        release.set()
        holding.join()


async def _end(begun: process.LiveRunner | None) -> None:
    assert begun is not None
    begun.runner.stop("the test is over")
    await begun.live()


def test_who_waits_for_another_start_hears_signals_meanwhile(office):
    async def wait() -> None:
        with _somebody_starts(office) as release:
            beginning = asyncio.ensure_future(process.begin(office.launch()))
            for _ in range(10):
                await asyncio.sleep(0.01)
            assert not beginning.done(), "the loop stood still until the lock was free"
            release.set()
            await _end(await beginning)

    run(wait())


def test_a_start_that_does_not_end_is_not_waited_for_for_ever(office, monkeypatch):
    monkeypatch.setattr(starting, "LONGEST_SECONDS", 0.2)

    async def wait() -> None:
        with _somebody_starts(office):
            with pytest.raises(StartsBlocked, match=r"/run/starting\. Try again") as blocked:
                await process.begin(office.launch())
            assert blocked.value.exit_code == 75

    run(wait())


def test_a_runner_that_takes_long_to_leave_keeps_nobody_else_from_starting(office):
    other = new_session_id()

    async def start() -> None:
        with (
            holdfast.open_store(office.home) as store,
            store.create(workspace=str(office.workspace), session_id=office.id) as leaving,
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left,
        ):
            leaving.append(holdfast.user("hello"))
            prepare_folder(office.home)
            left.bind(str(office.socket()))  # as one does that does not listen any more
            waiting = asyncio.ensure_future(process.begin(office.launch()))
            await asyncio.sleep(0.3)  # it has the lock by now, if it keeps it
            await office.begin(session=other)
            assert not waiting.done(), "the other start had to wait for this one"
            leaving.close()
            await _end(await waiting)

    run(start())


def test_a_runner_that_does_not_leave_in_time_is_told_of(office, monkeypatch):
    monkeypatch.setattr(process, "_LEAVING_SECONDS", 0.3)

    async def start() -> None:
        with (
            holdfast.open_store(office.home) as store,
            store.create(workspace=str(office.workspace), session_id=office.id) as leaving,
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left,
        ):
            leaving.append(holdfast.user("hello"))
            prepare_folder(office.home)
            left.bind(str(office.socket()))
            with pytest.raises(SessionLocked):
                await process.begin(office.launch())

    run(start())


def test_a_lock_that_was_removed_is_no_lock(office):
    """The last runner of a home may remove it while somebody waits for it."""

    async def wait() -> None:
        with _somebody_starts(office) as release:
            beginning = asyncio.ensure_future(process.begin(office.launch()))
            await asyncio.sleep(0.1)
            lock = run_folder(office.home) / starting.LOCK_NAME
            lock.unlink()
            lock.parent.rmdir()
            begun = await beginning
            assert lock.exists()
            assert not release.is_set()
            await _end(begun)

    run(wait())


def _long(root: Path) -> Path:
    return root / ("long" * 30)


def test_a_home_has_one_folder_of_runners_by_whichever_path_it_is_reached(tmp_path, office):
    home = _long(tmp_path)
    home.mkdir()
    short = office.workspace / "short"
    short.symlink_to(home)
    other = tmp_path / ("another" * 15)
    other.symlink_to(home)
    assert run_folder(short) == run_folder(other) == run_folder(home)
    assert run_folder(home).parent == Path(f"/tmp/holdfast-{os.getuid()}")
    assert run_folder(office.home) == office.home.resolve() / "run"


def test_the_last_runner_removes_a_folder_below_tmp(tmp_path):
    office = Office(_long(tmp_path))
    folder = run_folder(office.home)
    other = new_session_id()

    async def leave() -> None:
        first = await process.begin(office.launch())
        second = await process.begin(office.launch(other))
        await _end(first)
        assert sorted(each.suffix for each in folder.iterdir()) == ["", ".sock"]
        await _end(second)
        assert not folder.exists()
        await _end(await process.begin(office.launch()))

    run(leave())
    assert not folder.exists()


@pytest.mark.parametrize("name", [b"caf\xc3\xa9", b"caf\xe9"], ids=["utf-8", "latin-1"])
def test_a_folder_may_have_any_name_in_any_locale(office, monkeypatch, name):
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    office.workspace = office.workspace / os.fsdecode(name)
    office.workspace.mkdir()

    async def work() -> None:
        caller = await office.call()
        await caller.attach()
        await caller.submit("run: touch here")
        await caller.hears(type="turn", state="completed")

    run(work())
    assert office.file("here").exists()
