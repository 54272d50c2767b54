"""Runners on the command line: notices, signals, and the first process of a container."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from holdfast.cli.run.output import note
from holdfast.cli.run.signals import ENDING
from holdfast.keeper.runners import launch_for, runner_client
from holdfast.runtime.protocol.client import RunnerGone
from holdfast.runtime.protocol.messages import Notice
from holdfast.runtime.protocol.reconnect import ReconnectingClient
from holdfast.runtime.runner.in_process import InProcessRunner, hosted
from holdfast.runtime.runner.spawn import connect_or_start
from holdfast.store.store import Store


def is_first_process() -> bool:
    """Return whether this is the first process of a container; if so, print what that means."""
    if os.getpid() != 1:
        return False
    note("this is the first process of a container, so turns run in the foreground")
    return True


@asynccontextmanager
async def session_connection(
    store: Store, session_id: str, workspace: str | None = None
) -> AsyncIterator[ReconnectingClient]:
    """Give a client of the runner of a session; start a runner if there is none.

    When the first process of a container exits, the container stops: there the runner is in this
    process, and the end waits until the session is idle.
    """
    found = launch_for(store, session_id, workspace)
    if found.notice is not None:
        note(found.notice)
    if is_first_process():
        async with hosted(found.launch, store) as host, runner_client(host.connect) as client:
            caught = _heed_signals(host)
            yield client
            await _finished(client)
        if caught:
            sys.exit(128 + caught[0])
        return
    async with runner_client(lambda: connect_or_start(found.launch, note)) as client:
        yield client


def _heed_signals(host: InProcessRunner) -> list[signal.Signals]:
    """Stop the runner when a signal asks for it; returns the list that collects the signals."""
    caught: list[signal.Signals] = []

    def told(number: signal.Signals) -> None:
        caught.append(number)
        host.stop(number.name, insist=insists(caught))

    for number in ENDING:
        asyncio.get_running_loop().add_signal_handler(number, told, number)
    return caught


def insists(caught: Sequence[signal.Signals]) -> bool:
    """Return whether the last of these signals is a second request to end.

    The terminal and the shell may both send SIGHUP for one hang-up: it never counts as a second.
    """
    *before, last = (number != signal.SIGHUP for number in caught)
    return last and any(before)


async def _finished(client: ReconnectingClient) -> None:
    """Return when the session is idle; print notices, which no journal has."""
    with suppress(RunnerGone):
        async for event in client.until_idle():
            if isinstance(event, Notice):
                note(event.text)
