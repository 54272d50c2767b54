"""``holdfast approve``: answer the question that a session waits with."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import click

from holdfast import open_store
from holdfast.cli.ls import printable
from holdfast.cli.naming import complete_session
from holdfast.cli.runners import resolved, spoken_to
from holdfast.errors import UsageError
from holdfast.runtime.control.client import Connection, new_request_id
from holdfast.runtime.control.protocol import Approve, Attach

_ASKED_WITHIN_SECONDS = 10.0


@click.command(help="Allow what a session waits to do; with --deny refuse it.")
@click.argument("session", shell_complete=complete_session)
@click.argument("call", required=False)
@click.option("--deny", is_flag=True, help="Refuse it.")
@click.option("--show", is_flag=True, help="Only show what is asked.")
def command(*, session: str, call: str | None, deny: bool, show: bool) -> None:
    """Answer a question."""
    asyncio.run(_approve(session, call, allow=not deny, show=show))


async def _approve(session: str, call: str | None, *, allow: bool, show: bool) -> None:
    store = open_store()
    async with spoken_to(store, resolved(store, session)) as connection:
        questions = await _questions(connection)
        fitting = [each for each in questions if call in (None, each["call_id"])]
        for each in fitting:
            click.echo(f"{each['call_id']}  {each['tool']}  {printable(each['subject'])}")
        if show:
            return
        if not fitting:
            raise UsageError("Nothing is asked.")
        if len(fitting) > 1:
            raise UsageError("Several things are asked: name the call.")
        await connection.request(
            Approve(
                id=new_request_id(),
                call_id=fitting[0]["call_id"],
                arguments_sha256=fitting[0]["arguments_sha256"],
                allow=allow,
            )
        )


async def _questions(connection: Connection) -> list[dict[str, Any]]:
    """Return what is asked now; a turn that waits since its runner left asks again when it starts.

    A turn that runs may be about to ask: that is waited for, but not for long.
    """
    await connection.request(Attach(id=new_request_id(), after=2**62, live=False))
    found: list[dict[str, Any]] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(_ASKED_WITHIN_SECONDS):
            async for event in connection.events():
                if event["type"] == "question":
                    found.append(event)
                if found or event.get("state") == "idle":
                    break
    return found
