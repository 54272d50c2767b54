"""``holdfast cancel``: end the turn that a session is running."""

from __future__ import annotations

import asyncio

import click

from holdfast import open_store
from holdfast.cli.ui.complete import complete_session
from holdfast.keeper.runners import connect_runner, resolve_running
from holdfast.runtime.protocol.client import new_request_id
from holdfast.runtime.protocol.messages import Cancel


@click.command(help="Cancel the running turn of a session. Finished steps stay saved.")
@click.argument("session", shell_complete=complete_session)
def command(*, session: str) -> None:
    """Cancel a turn."""
    asyncio.run(_cancel(session))


async def _cancel(session: str) -> None:
    store = open_store()
    connection = await connect_runner(store, resolve_running(store, session))
    answer = await connection.request(Cancel(id=new_request_id()))
    await connection.close()
    if not answer.running:
        click.echo("holdfast: no turn was running", err=True)
