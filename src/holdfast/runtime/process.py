"""A runner's process: from what it is started with to its last word.

It opens the session, listens, and runs until there is a reason to leave; then it lets go of the
session before it hangs up on anybody. One start at a time holds a lock for a home; a process that
finds another one listening leaves the session to it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast import open_store
from holdfast.errors import (
    DiskFull,
    HoldfastError,
    SessionLocked,
    SessionNotFound,
    StorageError,
    UsageError,
)
from holdfast.journal.files import Files
from holdfast.model.holder import Holder
from holdfast.runtime.assembly import Assembled, assemble
from holdfast.runtime.config import user_settings
from holdfast.runtime.control.address import (
    listens,
    log_path,
    prepare_folder,
    run_folder,
    socket_path,
)
from holdfast.runtime.control.hub import Hub
from holdfast.runtime.control.server import Server
from holdfast.runtime.preloading import preload
from holdfast.runtime.providers import sdk
from holdfast.runtime.reception import Reception
from holdfast.runtime.runner import Runner, patience_of
from holdfast.runtime.starting import starting, tidy
from holdfast.runtime.wishes import Launch, Started, Wishes
from holdfast.store.session import Session

_LEAVING_SECONDS = 10.0
_LOOK_AGAIN_SECONDS = 0.1
_CLOCK_SECONDS = 0.02  # file systems have a coarser one
_LISTEN_SECONDS = 1.0
_LOG = logging.getLogger("holdfast")
_files = Files()


async def run(launch: Launch) -> int:
    """Be a runner; return the exit code."""
    preload()
    try:
        begun = await begin(launch)
    except (HoldfastError, OSError) as error:
        code = error.exit_code if isinstance(error, HoldfastError) else 1
        _report(Started("error", str(error), code))
        return code
    if begun is None:
        _report(Started("taken"))
        return 0
    begun.runner.obey_signals()
    _report(Started("ready"))
    return await begun.live()


class Begun(Struct, frozen=True):
    """A runner that listens. Whoever has it sees to signals."""

    launch: Launch
    session: Session
    hub: Hub
    runner: Runner
    server: Server

    async def live(self) -> int:
        """Run to the end; return the exit code."""
        code = 0
        listening = asyncio.ensure_future(self._keep_listening())
        try:
            why = await self.runner.live()
        except Exception as error:  # noqa: BLE001  the edge of the process
            _LOG.exception("The runner failed")
            why, code = f"it failed: {error}", 1
        finally:
            listening.cancel()
        self.server.stop_listening()
        try:
            await self._let_go()
        except HoldfastError as error:
            _LOG.error("%s", error)
            self.runner.tell(str(error))
            code = error.exit_code
        self.hub.broadcast({"type": "bye", "why": why})
        await self.server.close()
        await self.runner.fitting.agent.close()  # last: the session does not depend on it
        home = Path(self.launch.home)
        _remove_empty_log(log_path(home, self.session.id))
        await asyncio.to_thread(tidy, home)
        return code

    async def _let_go(self) -> None:
        """Close the session. What has no room is waited for, unless somebody insists.

        Whoever comes meanwhile is told so, and can ask how things stand.
        """
        listening: asyncio.Future[None] | None = None
        try:
            while True:
                try:
                    await asyncio.to_thread(self.session.close)
                    break
                except DiskFull as error:
                    if self.runner.insisted:
                        raise
                    self.runner.short_of_room = str(error)
                    if listening is None:
                        self.runner.tell(str(error))
                        listening = asyncio.ensure_future(self._keep_listening(at_once=True))
                    await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        finally:
            if listening is not None:
                listening.cancel()
                self.server.stop_listening()
        await self.hub.heard(self.session.state.seq)

    async def _keep_listening(self, *, at_once: bool = False) -> None:
        """Listen anew where the socket was removed: nobody would find the runner any more."""
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
                    _LOG.warning("Nobody can reach the runner: %s", error)
                told = str(error)


async def begin(launch: Launch) -> Begun | None:
    """Open the session and listen; ``None`` if another runner of the session does already.

    Raises:
        HoldfastError, OSError: it cannot be.
    """
    deadline = time.monotonic() + _LEAVING_SECONDS
    while True:
        try:
            async with starting(Path(launch.home)):
                return await _begun(launch)
        except _IsLeaving as leaving:
            if time.monotonic() > deadline:
                raise leaving.locked from None
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)  # others may start meanwhile


class _IsLeaving(Exception):
    """The runner that has the session is about to let go of it."""

    def __init__(self, locked: SessionLocked) -> None:
        super().__init__(str(locked))
        self.locked = locked


async def _begun(launch: Launch) -> Begun | None:
    home = Path(launch.home)
    path = socket_path(home, launch.session)
    if listens(path):
        return None
    await asyncio.to_thread(_check_room, home, launch.most_runners)
    session = await asyncio.to_thread(_opened, launch, path)
    try:
        return await _listening(launch, session, path)
    except BaseException:
        await asyncio.to_thread(session.close)
        raise


async def _listening(launch: Launch, session: Session, path: Path) -> Begun:
    def rebuild(wishes: Wishes) -> Assembled:
        workspace, home = Path(launch.workspace), Path(launch.home)
        return assemble(session, workspace, wishes, environment=os.environ, home=home)

    assembled = await asyncio.to_thread(rebuild, launch.wishes)
    sdk.preload(assembled.choice.provider)
    hub = Hub(session)
    hub.listen()
    patience = launch.patience or patience_of(assembled.configuration.settings)
    runner = Runner(session, assembled, hub, rebuild, launch.wishes, patience)
    await runner.look()
    greeting = {"session": session.id, "pid": os.getpid()}
    reception = Reception(runner, session)
    server = Server(path, hub, reception.answer, greeting)
    server.why_not_attach = reception.why_not_attach
    server.refresh = runner.fitting.refresh
    await server.listen()
    return Begun(launch, session, hub, runner, server)


def _check_room(home: Path, most: int | None) -> None:
    most = most or user_settings(os.environ).most_runners
    alive = sum(listens(path) for path in run_folder(home).glob("*.sock"))
    if alive >= most:
        raise UsageError(
            f"{alive} runners are running already; stop some of them (holdfast status, holdfast "
            "stop), or allow more: most_runners in the configuration."
        )


def _opened(launch: Launch, path: Path) -> Session:
    """Open the session, or make it.

    Raises:
        _IsLeaving: its runner has it still, and is just leaving.
    """
    store = open_store(launch.home)
    try:
        return store.open(launch.session)
    except SessionNotFound:
        if not launch.is_new:
            raise
        return store.create(workspace=launch.workspace, session_id=launch.session, **launch.meta)
    except SessionLocked as error:
        if _is_leaving(error.holder, path):
            raise _IsLeaving(error) from None
        raise


def _is_leaving(holder: Holder, path: Path) -> bool:
    """Tell whether who holds a session is the runner whose socket this was.

    One that leaves lets it stand until it has let go of the session, and made it when it had the
    session already. An older one is that of a dead runner, and another writer has come since.
    """
    try:
        made = _files.status_of(path).st_mtime
        since = datetime.fromisoformat(holder.since).timestamp()
    except (OSError, ValueError):
        return False
    return made > since - _CLOCK_SECONDS


def _report(started: Started) -> None:
    """Tell whoever started us how it went, and let go of the pipe: it is theirs."""
    with suppress(OSError):
        words = json.dumps(msgspec.to_builtins(started))  # in ASCII, whatever folders are called
        sys.stdout.buffer.write(words.encode("ascii") + b"\n")
        sys.stdout.flush()
    os.dup2(2, 1)


def _remove_empty_log(log: Path) -> None:
    with suppress(OSError):
        if log.stat().st_size == 0:
            _files.unlink(log)
