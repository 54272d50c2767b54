"""Finding and starting the runner of a session, for the verbs that speak to one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from holdfast import open_store
from holdfast.cli.naming import own_id
from holdfast.cli.output import note
from holdfast.cli.sessions import workspace_of
from holdfast.cli.signals import ENDING
from holdfast.errors import HoldfastError, UsageError
from holdfast.runtime.control.address import run_folder, socket_path
from holdfast.runtime.control.client import Connection, RunnerGone, connect, new_request_id
from holdfast.runtime.control.protocol import Attach, StatusOf
from holdfast.runtime.foreground import Host, hosted
from holdfast.runtime.launch import reach
from holdfast.runtime.wishes import Launch, Wishes
from holdfast.store.local import LocalStore


def resolved(store: LocalStore, name: str) -> str:
    """Return the id of the session that a name stands for.

    A session whose runner has not taken a prompt yet is known by its socket alone.
    """
    path = socket_path(store.path, name) if name.replace("-", "").isalnum() else None
    if path is not None and path.exists():
        return name
    return own_id(store, name)


async def running(
    store: LocalStore, session_id: str, environment: Mapping[str, str] | None = None
) -> Connection:
    """Return a connection to the runner of a session, which gets nothing of our environment.

    Unless it is given: whoever only asks or stops must not change what commands will see.

    Raises:
        RunnerGone: it has none.
    """
    gone = RunnerGone(
        f"Session {session_id} is not running; go on with it: holdfast attach {session_id}."
    )
    try:
        connection = await connect(socket_path(store.path, session_id), environment or {})
    except RunnerGone:
        raise gone from None
    if connection.hello.get("session") != session_id:
        await connection.close()
        raise gone
    return connection


def launch_for(store: LocalStore, session_id: str, workspace: str | None) -> Launch:
    """Return what a runner of a session is started with.

    Raises:
        UsageError: the session's folder is gone.
    """
    with open_store(store.path) as reading, reading.open(session_id, mode="read") as session:
        folder, _ = workspace_of(session, workspace)
    return Launch(
        home=str(store.path),
        session=session_id,
        workspace=str(folder),
        wishes=Wishes(attended=True),
    )


def is_first_process() -> bool:
    """Tell whether this is the first process of a container, and say what that means if it is."""
    if os.getpid() != 1:
        return False
    note("this is the first process of a container: it runs in the foreground")
    return True


@asynccontextmanager
async def spoken_to(
    store: LocalStore, session_id: str, workspace: str | None = None
) -> AsyncIterator[Connection]:
    """Give a connection to the runner of a session, started if it has none.

    The first process of a container takes everything with it when it ends: there the runner is in
    this process, and what was asked of it is waited for.
    """
    launch = launch_for(store, session_id, workspace)
    if is_first_process():
        async with hosted(launch) as host, _on(await host.connect()) as connection:
            caught = _heed_signals(host)
            yield connection
            await _finished(connection)
        if caught:
            sys.exit(128 + caught[0])
        return
    async with _on(await reach(launch, note)) as connection:
        yield connection


@asynccontextmanager
async def _on(connection: Connection) -> AsyncIterator[Connection]:
    try:
        yield connection
    finally:
        await connection.detach()
        await connection.close()


def _heed_signals(host: Host) -> list[signal.Signals]:
    """Leave when told to end; returns where signals are noted."""
    caught: list[signal.Signals] = []

    def told(number: signal.Signals) -> None:
        caught.append(number)
        host.leave(number.name, insist=insists(caught))

    for number in ENDING:
        asyncio.get_running_loop().add_signal_handler(number, told, number)
    return caught


def insists(caught: Sequence[signal.Signals]) -> bool:
    """Tell whether the last of these signals is more than the first wish to end.

    One hang-up may be told several times, by the terminal and by the shell: it never insists.
    """
    *before, last = (number != signal.SIGHUP for number in caught)
    return last and any(before)


async def _finished(connection: Connection) -> None:
    """Return when nothing is left to do; say what is in no journal."""
    with suppress(RunnerGone):
        await connection.request(Attach(id=new_request_id(), after=2**62, live=False))
        async for event in connection.events():
            if event["type"] == "note":
                note(event["text"])
            if rests(event) and await is_idle(connection):
                return


def rests(event: dict[str, Any]) -> bool:
    """Tell whether an event says that nothing runs and, as far as it tells, nothing will."""
    return event.get("state") == "idle" and (not event.get("queue") or bool(event.get("held")))


async def is_idle(connection: Connection) -> bool:
    """Ask whether nothing runs: between two prompts there is no moment for an answer.

    Raises:
        HoldfastError: there is none.
    """
    status = (await connection.request(StatusOf(id=new_request_id())))["status"]
    return bool(status["state"] == "idle")


async def all_running(store: LocalStore) -> tuple[list[Connection], list[HoldfastError]]:
    """Return connections to every runner of a home, and what is wrong with those without one.

    Sockets of dead ones are passed over.
    """
    paths = sorted(run_folder(store.path).glob("*.sock"))
    found = await asyncio.gather(*(connect(path, {}) for path in paths), return_exceptions=True)
    troubles: list[HoldfastError] = []
    for each in found:
        if isinstance(each, HoldfastError) and not isinstance(each, RunnerGone):
            troubles.append(each)
        elif isinstance(each, BaseException) and not isinstance(each, HoldfastError):
            raise each
    return [each for each in found if isinstance(each, Connection)], troubles


def check_one(session: str | None) -> str:
    """Return the session that was named.

    Raises:
        UsageError: none was.
    """
    if not session:
        raise UsageError("Say which session: an id, part of one, a title; see holdfast status.")
    return session
