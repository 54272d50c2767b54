"""``holdfast approve``: approve or deny a tool call that is waiting."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import click

from holdfast import open_store
from holdfast.cli.run.runner_connection import session_connection
from holdfast.cli.ui.complete import complete_session
from holdfast.errors import UsageError
from holdfast.keeper.runners import resolve_running
from holdfast.keeper.text import printable
from holdfast.model.entry import Turn
from holdfast.runtime.protocol.client import new_request_id
from holdfast.runtime.protocol.messages import Approve, ContinueTurn, QuestionAsked
from holdfast.runtime.protocol.reconnect import ReconnectingClient
from holdfast.store.store import Store

_ASKED_WITHIN_SECONDS = 10.0


@click.command(help="Approve a tool call that is waiting for approval, or deny it.")
@click.argument("session", shell_complete=complete_session)
@click.argument("call", required=False)
@click.option("--deny", is_flag=True, help="Deny the call instead.")
@click.option("--show", is_flag=True, help="Only list the calls that are waiting.")
def command(*, session: str, call: str | None, deny: bool, show: bool) -> None:
    """Approve or deny a call."""
    asyncio.run(_approve(session, call, allow=not deny, show=show))


async def _approve(session: str, call: str | None, *, allow: bool, show: bool) -> None:
    store = open_store()
    session_id = resolve_running(store, session)
    async with session_connection(store, session_id) as client:
        question = await _question(client)
        if question is None and not show and _waits(store, session_id):
            # From elsewhere: refused, or accepted since the runner was started and asked now.
            await client.request(ContinueTurn(id=new_request_id()))
            question = await _question(client)
        if question is not None and call in (None, question.call_id):
            click.echo(f"{question.call_id}  {question.tool}  {printable(question.subject)}")
        elif not show:
            raise UsageError("No approval is pending.")
        if show or question is None:
            return
        await client.request(
            Approve(
                id=new_request_id(),
                call_id=question.call_id,
                arguments_sha256=question.arguments_sha256,
                allow=allow,
            )
        )


def _waits(store: Store, session_id: str) -> bool:
    """Return whether the last turn waits for an approval."""
    with store.open(session_id, mode="read") as session:
        if not session.state.turn_is_open:
            return False
        last = next((each.body for each in session.branch() if isinstance(each.body, Turn)), None)
        return last is not None and last.state == "waiting"


async def _question(client: ReconnectingClient) -> QuestionAsked | None:
    """Return the call that waits for approval now.

    Waits a short time if there is none: a turn that was just started may be about to ask.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(_ASKED_WITHIN_SECONDS):
            async for event in client.until_idle():
                if isinstance(event, QuestionAsked):
                    return event
    return None
