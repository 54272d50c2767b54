"""A runner in the process of its client, on a store in memory: no socket, lock or log on disk."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast import open_store
from holdfast.errors import SessionNotFound
from holdfast.model.ids import new_session_id
from holdfast.runtime.protocol.client import RunnerGone
from holdfast.runtime.runner.in_process import hosted
from holdfast.runtime.runner.launch_options import Launch
from holdfast.store.store import Store
from tests.runtime.runner.runner_clients import Caller, run


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "config"))
    with open_store("memory://") as store:
        yield store


def launch(store: Store, workspace: Path, *, is_new: bool = True) -> Launch:
    return Launch(
        home=str(store.local_folder),
        session=new_session_id(),
        workspace=str(workspace),
        is_new=is_new,
    )


def test_clients_of_the_same_process_need_no_socket_file(store, tmp_path):
    wanted = launch(store, tmp_path)

    async def talk() -> None:
        async with hosted(wanted, store) as host:
            first, second = Caller(await host.connect()), Caller(await host.connect())
            for caller in (first, second):
                await caller.attach()
            await first.submit("say: hello")
            for caller in (first, second):
                await caller.hears(type="turn", text="hello")
            host.stop("the test is over")
            assert await host.wait_stopped() == 0
            with pytest.raises(RunnerGone):
                await host.connect()

    run(talk())
    with store.open(wanted.session, mode="read") as session:
        assert [message.text for message in session.messages][1:] == ["say: hello", "hello"]
    assert list(tmp_path.iterdir()) == []


def test_a_session_that_is_not_there_is_an_error(store, tmp_path):
    async def begin() -> None:
        async with hosted(launch(store, tmp_path, is_new=False), store):
            raise AssertionError("it has begun")

    with pytest.raises(SessionNotFound):
        asyncio.run(begin())
