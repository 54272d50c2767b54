"""Find, start and ask the runners of sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.keeper.lookup import local_session_id
from holdfast.keeper.workspaces import session_workspace
from holdfast.runtime.agent.origin import notice
from holdfast.runtime.config.run_options import RunOptions
from holdfast.runtime.protocol.client import (
    Connection,
    RunnerGone,
    RunnerSilent,
    connect,
    new_request_id,
)
from holdfast.runtime.protocol.messages import RunnerStatus, StatusOf
from holdfast.runtime.protocol.reconnect import NO_HISTORY, ReconnectingClient
from holdfast.runtime.protocol.socket_path import run_folder, socket_path
from holdfast.runtime.runner.launch_options import Launch
from holdfast.store.store import Store

SILENT = "does not answer"


def resolve_running(store: Store, name: str) -> str:
    """Return the id of a session of this home by name; raises as ``local_session_id``.

    Before its first prompt a session has no folder: it is then found by its runner's socket.
    """
    path = socket_path(store.local_folder, name) if name.replace("-", "").isalnum() else None
    if path is not None and path.exists():
        return name
    return local_session_id(store, name)


async def connect_runner(
    store: Store, session_id: str, environment: Mapping[str, str] | None = None
) -> Connection:
    """Return a connection to the runner of a session.

    Without ``environment`` the runner keeps the variables that it passes to commands.

    Raises:
        RunnerGone: the session has no runner.
    """
    gone = RunnerGone(
        f"Session {session_id} is not running. Start it with: holdfast attach {session_id}"
    )
    try:
        connection = await connect(socket_path(store.local_folder, session_id), environment or {})
    except RunnerGone:
        raise gone from None
    if connection.hello.session != session_id:
        await connection.close()
        raise gone
    return connection


class AllRunners(Struct, frozen=True):
    """Connections to all runners of a home, and the errors of those that could not be reached."""

    connections: list[Connection]
    errors: list[HoldfastError]


async def connect_all_runners(store: Store) -> AllRunners:
    """Connect to every runner of a home. Sockets of runners that have exited are ignored."""
    paths = sorted(run_folder(store.local_folder).glob("*.sock"))
    found = await asyncio.gather(*(connect(path, {}) for path in paths), return_exceptions=True)
    errors: list[HoldfastError] = []
    for each in found:
        if isinstance(each, HoldfastError) and not isinstance(each, RunnerGone):
            errors.append(each)
        elif isinstance(each, BaseException) and not isinstance(each, HoldfastError):
            raise each
    return AllRunners([each for each in found if isinstance(each, Connection)], errors)


class UnreachableRunner(Struct, frozen=True):
    """A runner that sent no status; ``trouble`` says why."""

    session: str
    pid: int | None
    state: str
    trouble: str


class RunnerStatuses(Struct, frozen=True):
    """One row per runner, sorted by session, and the errors of sockets that are not ours.

    A row is the status that the runner sent, or says why there is none.
    """

    rows: list[RunnerStatus | UnreachableRunner]
    errors: list[HoldfastError]


async def runner_statuses(store: Store) -> RunnerStatuses:
    """Ask every runner of a home for its status."""
    found = await connect_all_runners(store)
    rows = await asyncio.gather(*(_status(each) for each in found.connections))
    rows += [_silent(each.session, each) for each in found.errors if isinstance(each, RunnerSilent)]
    errors = [each for each in found.errors if not isinstance(each, RunnerSilent)]
    return RunnerStatuses(sorted(rows, key=lambda row: row.session), errors)


async def _status(connection: Connection) -> RunnerStatus | UnreachableRunner:
    hello = connection.hello
    try:
        return (await connection.request(StatusOf(id=new_request_id()))).status
    except RunnerSilent as error:
        return _silent(hello.session, error)
    except HoldfastError as error:
        return UnreachableRunner(hello.session, hello.pid, "unknown", str(error))
    finally:
        await connection.close()


def _silent(session: str, error: RunnerSilent) -> UnreachableRunner:
    return UnreachableRunner(session, error.pid, SILENT, str(error))


class RunnerLaunch(Struct, frozen=True):
    """How to start the runner of a session. ``notice`` tells the user that it is foreign."""

    launch: Launch
    notice: str | None = None


def launch_for(store: Store, session_id: str, workspace: str | None) -> RunnerLaunch:
    """Return how to start the runner of an existing session.

    Raises:
        UsageError: the session's folder is gone.
    """
    with store.open(session_id, mode="read") as session:
        folder, _ = session_workspace(session, workspace)
        told = notice(session, folder)
    launch = Launch(
        home=str(store.local_folder),
        session=session_id,
        workspace=str(folder),
        wishes=RunOptions(attended=True),
    )
    return RunnerLaunch(launch, told)


def runner_client(connect: Callable[[], Awaitable[Connection]]) -> ReconnectingClient:
    """Return a client that gets no earlier entries and no live text.

    It detaches before it hangs up, so that a running turn continues.
    """
    client = ReconnectingClient(connect, after=NO_HISTORY, live=False)
    client.detaches = True
    return client
