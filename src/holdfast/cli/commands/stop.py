"""``holdfast stop``: stop background runners."""

from __future__ import annotations

import asyncio
import sys

import click

from holdfast import open_store
from holdfast.cli.run.output import note
from holdfast.cli.ui.complete import complete_session
from holdfast.errors import HoldfastError, UsageError
from holdfast.keeper.runners import connect_all_runners, connect_runner, resolve_running
from holdfast.runtime.protocol.client import Connection, Refused, RunnerGone, new_request_id
from holdfast.runtime.protocol.messages import Notice, Stop
from holdfast.runtime.protocol.reconnect import NO_HISTORY, Disconnected, ReconnectingClient


@click.command(help="Stop a background runner. A running turn is cancelled and saved.")
@click.argument("session", required=False, shell_complete=complete_session)
@click.option("--all", "everything", is_flag=True, help="Stop all runners.")
@click.option("--after-turn", is_flag=True, help="Let the running turn finish first.")
def command(*, session: str | None, everything: bool, after_turn: bool) -> None:
    """Stop runners."""
    sys.exit(asyncio.run(_stop(session, everything=everything, after_turn=after_turn)))


async def _stop(session: str | None, *, everything: bool, after_turn: bool) -> int:
    store = open_store()
    troubles: list[HoldfastError] = []
    if everything:
        found = await connect_all_runners(store)
        connections, troubles = found.connections, list(found.errors)
    else:
        if not session:
            raise UsageError("Name a session, or use --all. holdfast status lists them.")
        connections = [await connect_runner(store, resolve_running(store, session))]
    # All are asked before any is awaited, so that one that fails does not delay the others.
    work = (_stopped(connection, after_turn=after_turn) for connection in connections)
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(outcome, HoldfastError):
            troubles.append(outcome)
        elif outcome is not None:
            raise outcome
    for trouble in troubles:
        note(str(trouble))
    if not connections and not troubles:
        note("nothing is running")
    return max((trouble.exit_code for trouble in troubles), default=0)


async def _stopped(connection: Connection, *, after_turn: bool) -> None:
    session = connection.hello.session
    try:
        answer = await connection.request(Stop(id=new_request_id(), after_turn=after_turn))
        if after_turn and answer.running:
            click.echo(f"{session} stops after its turn")
            return
        await _wait_stopped(connection)
        click.echo(f"{session} stopped")
    finally:
        await connection.close()


async def _wait_stopped(connection: Connection) -> None:
    """Return when the runner has released the session; print what delays it (a full disk)."""
    session, last = connection.hello.session, ""
    # Attached only now, after the request to stop: where hang-ups end turns, this must not be one.
    client = ReconnectingClient.over(connection, after=NO_HISTORY, live=False)
    try:
        async for event in client:
            match event:
                case Notice(text=text) if text != last:
                    last = text
                    note(f"{session}: {text}")
                case Disconnected():
                    return
    except RunnerGone:
        return
    except Refused as refused:
        note(f"{session}: {refused}")
    await client.wait_hung_up()
