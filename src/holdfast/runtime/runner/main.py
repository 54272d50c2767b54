"""The process of a runner, from its start to its exit.

It opens the session, listens, and runs until there is a reason to stop; then it releases the
session before it closes any connection. Starts in one home hold a lock, one at a time; a process
that finds another runner listening leaves the session to it and exits.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import pkgutil
import sys
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

import holdfast
from holdfast import open_store
from holdfast.errors import (
    DiskFull,
    HoldfastError,
    SessionLocked,
    SessionNotFound,
    StorageError,
    UsageError,
)
from holdfast.files import Files, default_home
from holdfast.model.lock_holder import Holder
from holdfast.runtime.agent.build import BuiltAgent, build_agent
from holdfast.runtime.config.load import user_settings
from holdfast.runtime.config.run_options import RunOptions
from holdfast.runtime.protocol.broadcast import Broadcaster
from holdfast.runtime.protocol.messages import PROTOCOL, Greeting, RunnerExited
from holdfast.runtime.protocol.server import Server
from holdfast.runtime.protocol.socket_path import (
    listens,
    log_path,
    prepare_folder,
    run_folder,
    socket_path,
)
from holdfast.runtime.providers import sdk
from holdfast.runtime.runner.launch_options import Launch, StartResult
from holdfast.runtime.runner.requests import RequestRouter
from holdfast.runtime.runner.runner import Runner, patience_of
from holdfast.runtime.runner.start_lock import starting, tidy
from holdfast.store.session import Session
from holdfast.store.store import Store
from holdfast.version import __version__

_LEAVING_SECONDS = 10.0
_LOOK_AGAIN_SECONDS = 0.1
_CLOCK_SECONDS = 0.02  # file systems have a coarser one
_LISTEN_SECONDS = 1.0
_LOG = logging.getLogger("holdfast")
_files = Files()
_OUTSIDE = (
    "holdfast.acp",
    "holdfast.adapters",
    "holdfast.cli",
    "holdfast.drill",
    "holdfast.keeper",
    "holdfast.mcp",
    "holdfast.server",
    "holdfast.tui",
)


def preload() -> None:
    """Import the whole package, but for what only clients need.

    A runner may live for days, and the installed package may be replaced or removed meanwhile: a
    module imported later would be missing, or of another version.
    """
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if not module.name.startswith(_OUTSIDE) and module.name != "holdfast.__main__":
            with suppress(ImportError):  # an extra that is not installed
                importlib.import_module(module.name)


async def run(launch: Launch) -> int:
    """Run a session in this process; return the exit code."""
    preload()
    try:
        begun = await begin(launch)
    except (HoldfastError, OSError) as error:
        code = error.exit_code if isinstance(error, HoldfastError) else 1
        _report(StartResult("error", str(error), code))
        return code
    if begun is None:
        _report(StartResult("taken"))
        return 0
    begun.runner.obey_signals()
    _report(StartResult("ready"))
    return await begun.live()


class LiveRunner(Struct, frozen=True):
    """A runner that listens. The caller handles signals.

    ``is_shared``: other processes can open the session, and connect.
    """

    launch: Launch
    session: Session
    broadcaster: Broadcaster
    runner: Runner
    server: Server
    is_shared: bool = True

    async def live(self) -> int:
        """Run until the runner stops; return the exit code."""
        code = 0
        listening = asyncio.ensure_future(self._keep_listening())
        try:
            why = await self.runner.run()
        except Exception as error:  # noqa: BLE001  the edge of the process
            _LOG.exception("The runner failed")
            why, code = f"it failed: {error}", 1
        finally:
            listening.cancel()
        self.server.stop_listening()
        try:
            await self._release()
        except HoldfastError as error:
            _LOG.error("%s", error)
            self.runner.notify(str(error))
            code = error.exit_code
        self.broadcaster.broadcast(RunnerExited(why=why))
        await self.server.close()
        await self.runner.active_model.agent.close()  # last: the session does not depend on it
        if self.is_shared:
            home = Path(self.launch.home)
            _remove_empty_log(log_path(home, self.session.id))
            await asyncio.to_thread(tidy, home)
        return code

    async def _release(self) -> None:
        """Close the session. Wait while the disk is full, unless the runner was told twice to stop.

        Clients that connect meanwhile are told so, and can ask for the status.
        """
        listening: asyncio.Future[None] | None = None
        try:
            while True:
                try:
                    await asyncio.to_thread(self.session.close)
                    break
                except DiskFull as error:
                    if self.runner.force:
                        raise
                    self.runner.waiting_for_disk = str(error)
                    if listening is None:
                        self.runner.notify(str(error))
                        listening = asyncio.ensure_future(self._keep_listening(at_once=True))
                    await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        finally:
            if listening is not None:
                listening.cancel()
                self.server.stop_listening()
        await self.broadcaster.wait_until_sent(self.session.seq)

    async def _keep_listening(self, *, at_once: bool = False) -> None:
        """Listen again if the socket file was removed: clients could not find the runner."""
        home, told = Path(self.launch.home), ""
        while True:
            if not at_once:
                await asyncio.sleep(_LISTEN_SECONDS)
            at_once = False
            if await asyncio.to_thread(self.server.is_reachable) or not _files.exists(home):
                continue
            try:
                prepare_folder(home)
                await self.server.listen()
            except (OSError, StorageError) as error:
                if str(error) != told:
                    _LOG.warning("No client can reach the runner: %s", error)
                told = str(error)


async def begin(launch: Launch, store: Store | None = None) -> LiveRunner | None:
    """Open the session and listen; ``None`` if another runner of the session does already.

    ``store`` is one that only this process can open: then clients connect in this process alone,
    and there is no socket file.

    Raises:
        HoldfastError, OSError: the session cannot be opened, or the socket cannot be made.
    """
    if store is not None:
        return await _ready(launch, await asyncio.to_thread(_open_or_create, launch, store), None)
    deadline = time.monotonic() + _LEAVING_SECONDS
    while True:
        try:
            async with starting(Path(launch.home)):
                return await _begun(launch)
        except _IsLeaving as stopping:
            if time.monotonic() > deadline:
                raise stopping.locked from None
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)  # others may start meanwhile


class _IsLeaving(Exception):
    """The runner that has the session is about to release it."""

    def __init__(self, locked: SessionLocked) -> None:
        super().__init__(str(locked))
        self.locked = locked


async def _begun(launch: Launch) -> LiveRunner | None:
    home = Path(launch.home)
    path = socket_path(home, launch.session)
    if listens(path):
        return None
    await asyncio.to_thread(_check_room, home, launch.most_runners)
    session = await asyncio.to_thread(_opened, launch, path)
    return await _ready(launch, session, path)


async def _ready(launch: Launch, session: Session, path: Path | None) -> LiveRunner:
    try:
        return await _listening(launch, session, path)
    except BaseException:
        await asyncio.to_thread(session.close)
        raise


async def _listening(launch: Launch, session: Session, path: Path | None) -> LiveRunner:
    # A store in memory has no home: what the user trusts is in the default one.
    home = default_home() if path is None else Path(launch.home)

    def rebuild(wishes: RunOptions) -> BuiltAgent:
        workspace = Path(launch.workspace)
        return build_agent(session, workspace, wishes, environment=os.environ, home=home)

    assembled = await asyncio.to_thread(rebuild, launch.wishes)
    sdk.preload(assembled.choice.provider)
    broadcaster = Broadcaster(session)
    broadcaster.listen()
    patience = launch.patience or patience_of(assembled.configuration.settings)
    runner = Runner(session, assembled, broadcaster, rebuild, launch.wishes, patience)
    await runner.load_interrupted_turn()
    greeting = Greeting(protocol=PROTOCOL, version=__version__, session=session.id, pid=os.getpid())
    router = RequestRouter(runner, session)
    server = Server(path, broadcaster, router.answer, greeting)
    server.why_not_attach = router.why_not_attach
    server.refresh = runner.active_model.refresh
    await server.listen()
    return LiveRunner(launch, session, broadcaster, runner, server, path is not None)


def _check_room(home: Path, most: int | None) -> None:
    most = most or user_settings(os.environ).most_runners
    alive = sum(listens(path) for path in run_folder(home).glob("*.sock"))
    if alive >= most:
        raise UsageError(
            f"{alive} runners are already running. Stop some of them (holdfast status, holdfast "
            "stop), or allow more: most_runners in the configuration."
        )


def _opened(launch: Launch, path: Path) -> Session:
    """Open the session, or create it.

    Raises:
        _IsLeaving: its runner is stopping and has not released it yet.
    """
    try:
        return _open_or_create(launch, open_store(launch.home))
    except SessionLocked as error:
        if _is_leaving(error.holder, path):
            raise _IsLeaving(error) from None
        raise


def _open_or_create(launch: Launch, store: Store) -> Session:
    try:
        return store.open(launch.session)
    except SessionNotFound:
        if not launch.is_new:
            raise
        return store.create(workspace=launch.workspace, session_id=launch.session, **launch.meta)


def _is_leaving(holder: Holder, path: Path) -> bool:
    """Tell whether the process that holds a session is the runner that made this socket.

    A runner makes its socket after it has opened the session, and removes it after it has released
    it. An older socket is that of a dead runner, and another writer has the session now.
    """
    try:
        made = _files.status_of(path).st_mtime
        since = datetime.fromisoformat(holder.since).timestamp()
    except (OSError, ValueError):
        return False
    return made > since - _CLOCK_SECONDS


def _report(started: StartResult) -> None:
    """Report the start to the parent, and close the pipe to it."""
    with suppress(OSError):
        words = json.dumps(msgspec.to_builtins(started))  # in ASCII, whatever folders are called
        sys.stdout.buffer.write(words.encode("ascii") + b"\n")
        sys.stdout.flush()
    os.dup2(2, 1)


def _remove_empty_log(log: Path) -> None:
    with suppress(OSError):
        if log.stat().st_size == 0:
            _files.unlink(log)
