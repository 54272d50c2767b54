"""``holdfast send``: send a prompt to a session; start its runner if there is none."""

from __future__ import annotations

import asyncio
import os

import click

from holdfast import open_store
from holdfast.cli.run.output import note
from holdfast.cli.run.runner_connection import session_connection
from holdfast.cli.run.stdin import whole_prompt
from holdfast.cli.ui.complete import complete_session
from holdfast.errors import UsageError
from holdfast.keeper.runners import resolve_running
from holdfast.model.message import Text
from holdfast.runtime.protocol.client import new_request_id
from holdfast.runtime.protocol.messages import Submit


@click.command(help="Add a prompt to a session's queue. It runs in the background.")
@click.argument("session", shell_complete=complete_session)
@click.argument("prompt", default="-")
@click.option("-C", "workspace", metavar="DIR", help="The session's folder, if it has moved.")
@click.option("--id", "request_id", metavar="ID", help="Request id; the same id never runs twice.")
def command(*, session: str, prompt: str, workspace: str | None, request_id: str | None) -> None:
    """Send a prompt."""
    text = whole_prompt(prompt)
    if not text.strip():
        raise UsageError("The prompt is empty.")
    asyncio.run(_send(session, text, workspace, request_id or new_request_id()))


async def _send(session: str, text: str, workspace: str | None, request_id: str) -> None:
    store = open_store()
    session_id = resolve_running(store, session)
    async with session_connection(store, session_id, workspace) as client:
        answer = await client.request(Submit(id=request_id, content=[Text(text=text)]))
        click.echo(f"{session_id} {answer.seq}")
        if os.getpid() != 1:  # or it runs here, and is waited for
            note(f"still running; attach with: holdfast attach {session_id}")
