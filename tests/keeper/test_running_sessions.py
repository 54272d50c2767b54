"""The keeper beside runners: real processes that hold sessions."""

from __future__ import annotations

import os
import signal

import pytest

import holdfast
from holdfast import SessionLocked, UsageError
from holdfast.keeper.doctor import check_sockets
from holdfast.keeper.edit import delete_session, rename_session, session_tags, tag_session
from holdfast.keeper.runners import (
    connect_all_runners,
    connect_runner,
    launch_for,
    resolve_running,
    runner_client,
)
from holdfast.runtime.protocol.client import RunnerGone, new_request_id
from holdfast.runtime.protocol.messages import StatusOf
from holdfast.runtime.protocol.socket_path import socket_path
from holdfast.runtime.runner.spawn import connect_or_start
from tests.cli.program import until
from tests.runtime.runner.runner_clients import gate, office_on_disk, run

office = pytest.fixture(office_on_disk)


@pytest.fixture
def store(office):
    with holdfast.open_store(office.home) as store:
        yield store


def begin_busy(office):
    """Start a runner whose turn lasts until ``x.go`` exists; return its process."""
    call = {"call": "bash", "arguments": {"command": gate("x")}}

    async def begun() -> int:
        caller = await office.call(script=office.script(call, {"say": "done"}))
        await caller.attach()
        await caller.submit("work at it")
        return int(caller.pid)

    pid = run(begun())
    until(office.file("x.begun").exists)
    return pid


def test_a_busy_session_is_renamed_and_tagged_by_its_runner(office, store):
    begin_busy(office)
    renamed = rename_session(store, office.id, " while it works ")
    assert (renamed.session, renamed.title) == (office.id, "while it works")
    assert tag_session(store, office.id, add=["a", "b"]).tags == ["a", "b"]
    assert tag_session(store, office.id, add=["c"], remove=["a"]).tags == ["b", "c"]
    with pytest.raises(UsageError, match="has no tag 'a'"):
        tag_session(store, office.id, remove=["a"])
    with pytest.raises(SessionLocked, match=f"holdfast stop {office.id}"):
        delete_session(store, office.id)
    office.file("x.go").touch()
    assert session_tags(store, office.id).tags == ["b", "c"]
    assert store.list()[0].title == "while it works"


def test_a_runner_that_does_not_answer_changes_nothing(office, store):
    pid = begin_busy(office)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(SessionLocked, match="did not answer within"):
            tag_session(store, office.id, add=["a"], timeout_seconds=0.2)
    finally:
        os.kill(pid, signal.SIGCONT)
    office.file("x.go").touch()
    assert session_tags(store, office.id).tags == []


def test_runners_are_found_asked_and_started(office, store):
    pid = begin_busy(office)
    assert resolve_running(store, office.id) == office.id
    assert resolve_running(store, office.id[-8:]) == office.id

    async def ask() -> None:
        everyone = await connect_all_runners(store)
        assert [each.hello.pid for each in everyone.connections] == [pid]
        assert everyone.errors == []
        for each in everyone.connections:
            await each.close()
        async with runner_client(lambda: connect_runner(store, office.id)) as client:
            assert await client.idle_after() is None
        with pytest.raises(RunnerGone, match="holdfast attach nobody"):
            await connect_runner(store, "nobody")

    run(ask())
    office.file("x.go").touch()
    office.kill(pid)
    found = launch_for(store, office.id, None)
    assert (found.launch.session, found.notice) == (office.id, None)
    assert found.launch.workspace == str(office.workspace)

    async def start() -> int:
        async with runner_client(lambda: connect_or_start(found.launch, print)) as client:
            return (await client.request(StatusOf(id=new_request_id()))).status.pid

    assert run(start()) != pid


def test_the_socket_of_a_runner_that_was_killed_is_found_and_removed(office, store, eventually):
    pid = begin_busy(office)
    assert list(check_sockets(office.home, fix=False)) == []
    office.kill(pid)
    eventually(lambda: list(check_sockets(office.home, fix=False)))  # once the kernel has closed it
    (found,) = check_sockets(office.home, fix=False)
    assert (found.kind, found.fixed) == ("socket", False)
    path = socket_path(office.home, office.id)
    assert path.exists()
    (found,) = check_sockets(office.home, fix=True)
    assert found.fixed
    assert not path.exists()
    office.file("x.go").touch()
