"""``holdfast stop``: have runners leave."""

from __future__ import annotations

import asyncio
import sys

import click

from holdfast import open_store
from holdfast.cli.naming import complete_session
from holdfast.cli.output import note
from holdfast.cli.runners import all_running, check_one, resolved, running
from holdfast.errors import HoldfastError
from holdfast.runtime.control.client import Connection, Refused, RunnerGone, new_request_id
from holdfast.runtime.control.protocol import Attach, Stop


@click.command(help="Have a session's runner leave; a turn that runs is cancelled and saved.")
@click.argument("session", required=False, shell_complete=complete_session)
@click.option("--all", "everything", is_flag=True, help="Every runner.")
@click.option("--after-turn", is_flag=True, help="When the turn has ended.")
def command(*, session: str | None, everything: bool, after_turn: bool) -> None:
    """Stop runners."""
    sys.exit(asyncio.run(_stop(session, everything=everything, after_turn=after_turn)))


async def _stop(session: str | None, *, everything: bool, after_turn: bool) -> int:
    store = open_store()
    troubles: list[HoldfastError] = []
    if everything:
        connections, troubles = await all_running(store)
    else:
        connections = [await running(store, resolved(store, check_one(session)))]
    # All are told before any is waited for, and none has to wait for another's trouble.
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
    session = connection.hello["session"]
    try:
        answer = await connection.request(Stop(id=new_request_id(), after_turn=after_turn))
        if after_turn and answer.get("running"):
            click.echo(f"{session} leaves when its turn has ended")
            return
        await _seen_off(connection)
        click.echo(f"{session} stopped")
    finally:
        await connection.close()


async def _seen_off(connection: Connection) -> None:
    """Return when the runner has let go of the session; tell what keeps it, such as a full disk."""
    try:
        # Not before it was told to stop: where hang-ups end turns, ours must not pass for one.
        await connection.request(Attach(id=new_request_id(), after=2**62, live=False))
    except RunnerGone:
        pass  # or all but: it hangs up when it has let go
    except Refused as refused:
        note(f"{connection.hello['session']}: {refused}")
    told = ""
    async for event in connection.events():  # until it hangs up
        if event["type"] == "note" and event["text"] != told:
            told = event["text"]
            note(f"{connection.hello['session']}: {told}")
