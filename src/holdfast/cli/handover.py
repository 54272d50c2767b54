"""``holdfast -p --detach``: a prompt handed over to a runner, and what a runner can be told at all.

What is asked for reaches it or is refused with a sentence; nothing is passed over.
"""

from __future__ import annotations

import asyncio

import click

from holdfast.cli.options import Options
from holdfast.cli.output import note
from holdfast.cli.served import assembled_for
from holdfast.cli.sessions import launch_of, session_for
from holdfast.errors import UsageError
from holdfast.model.codec import dumps
from holdfast.model.message import Text
from holdfast.runtime.control.client import Connection, new_request_id
from holdfast.runtime.control.protocol import (
    Compact,
    ContinueTurn,
    Rename,
    RunQueue,
    SetModel,
    Submit,
)
from holdfast.runtime.launch import reach
from holdfast.runtime.limits import Limits
from holdfast.runtime.wishes import Launch
from holdfast.store.local import LocalStore


def hand_over(store: LocalStore, options: Options, text: str) -> int:
    """Start a runner, give it the prompt, and leave; return the exit code."""
    found = session_for(store, options, mode="read")
    with found.session:
        launch = launch_of(store, found, options)
        assembled_for(found, launch.wishes, options.limits, text)
    seq = asyncio.run(_handed_over(launch, options, text))
    attach = f"holdfast attach {launch.session}"
    if options.output_format == "text":
        click.echo(launch.session)
    else:
        click.echo(dumps({"session_id": launch.session, "seq": seq, "attach": attach}))
    note(f"still running; attach with: {attach}")
    return 0


async def _handed_over(launch: Launch, options: Options, text: str) -> int | None:
    """Ask everything of the runner, in its order; return the number of the prompt."""
    check_limits(launch.session, options)
    connection = await reach(launch, note)
    try:
        if not connection.is_new:
            check_changeable(launch.session, options)
            await switch_model(connection, options)
        if options.name is not None and not launch.is_new:
            await connection.request(Rename(id=new_request_id(), title=options.name))
        if options.compact:
            await connection.request(Compact(id=new_request_id()))
        if options.continue_turn:
            await connection.request(ContinueTurn(id=new_request_id()))
        seq = None
        if text:
            submit = Submit(id=new_request_id(), content=[Text(text=text)], limits=options.limits)
            seq = int((await connection.request(submit))["seq"])
        if options.run_queue:
            await connection.request(RunQueue(id=new_request_id()))
        return seq
    finally:
        await connection.close()


# What a runner can still be told


def check_changeable(session_id: str, options: Options) -> None:
    """Refuse what counts from a runner's start, or for a process of its own.

    Raises:
        UsageError: something was asked for; says what to do.
    """
    asked = {
        "--allow": options.allow,
        "--allow-all": options.allow_all,
        "--script": options.script,
        "--chaos": options.chaos,
        "--input-format": options.streams_in,
        "--kill-running": options.kill_running,
    }
    if given := [name for name, value in asked.items() if value]:
        raise UsageError(
            f"Session {session_id} has a runner already, which cannot be told {', '.join(given)}: "
            f"holdfast stop {session_id}, then again."
        )


def check_limits(session_id: str, options: Options) -> None:
    """Refuse limits for what has none: a runner keeps them with a prompt.

    Raises:
        UsageError: there are such; says what to do.
    """
    if options.limits != Limits() and (options.continue_turn or options.run_queue):
        raise UsageError(
            "Limits go to a runner with a prompt, and not with --continue-turn or --run-queue: "
            f"leave them out, or: holdfast stop {session_id}, then -p without --detach."
        )


async def switch_model(connection: Connection, options: Options) -> None:
    """Have another model answer, if one was named.

    Raises:
        HoldfastError: it cannot be asked.
    """
    if options.model or options.provider or options.base_url:
        switch = SetModel(
            id=new_request_id(),
            model=options.model,
            provider=options.provider,
            base_url=options.base_url,
        )
        await connection.request(switch)
