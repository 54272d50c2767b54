"""``holdfast cancel``: end the turn that a session is running."""

from __future__ import annotations

import asyncio

import click

from holdfast import open_store
from holdfast.cli.naming import complete_session
from holdfast.cli.runners import resolved, running
from holdfast.runtime.control.client import new_request_id
from holdfast.runtime.control.protocol import Cancel


@click.command(help="Cancel the turn that a session is running; what it did is saved.")
@click.argument("session", shell_complete=complete_session)
def command(*, session: str) -> None:
    """Cancel a turn."""
    asyncio.run(_cancel(session))


async def _cancel(session: str) -> None:
    store = open_store()
    connection = await running(store, resolved(store, session))
    answer = await connection.request(Cancel(id=new_request_id()))
    await connection.close()
    if not answer.get("running"):
        click.echo("holdfast: no turn was running", err=True)
