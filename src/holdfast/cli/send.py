"""``holdfast send``: a prompt for a session that runs in the background, started if it does not."""

from __future__ import annotations

import asyncio
import os

import click

from holdfast import open_store
from holdfast.cli.naming import complete_session
from holdfast.cli.output import note
from holdfast.cli.prompting import whole_prompt
from holdfast.cli.runners import resolved, spoken_to
from holdfast.errors import UsageError
from holdfast.model.message import Text
from holdfast.runtime.control.client import new_request_id
from holdfast.runtime.control.protocol import Submit


@click.command(help="Send a prompt to a session; it is run in the background, in its turn.")
@click.argument("session", shell_complete=complete_session)
@click.argument("prompt", default="-")
@click.option("-C", "workspace", metavar="DIR", help="The session's folder, if it has moved.")
@click.option("--id", "request_id", help="Names the request: sent again, it is not run again.")
def command(*, session: str, prompt: str, workspace: str | None, request_id: str | None) -> None:
    """Send a prompt."""
    text = whole_prompt(prompt)
    if not text.strip():
        raise UsageError("The prompt is empty.")
    asyncio.run(_send(session, text, workspace, request_id or new_request_id()))


async def _send(session: str, text: str, workspace: str | None, request_id: str) -> None:
    store = open_store()
    session_id = resolved(store, session)
    async with spoken_to(store, session_id, workspace) as connection:
        answer = await connection.request(Submit(id=request_id, content=[Text(text=text)]))
        click.echo(f"{session_id} {answer['seq']}")
        if os.getpid() != 1:  # or it runs here, and is waited for
            note(f"still running; attach with: holdfast attach {session_id}")
