"""``holdfast -p --detach``: send a prompt to a runner, and check which options it supports.

An option either takes effect or is rejected; none is ignored.
"""

from __future__ import annotations

import asyncio

import click

from holdfast.cli.run.options import Options
from holdfast.cli.run.output import note
from holdfast.cli.run.select_session import launch_of, session_for
from holdfast.errors import UsageError
from holdfast.keeper.preflight import assemble_for
from holdfast.model.codec import dumps
from holdfast.model.message import Text
from holdfast.runtime.config.run_options import Limits
from holdfast.runtime.protocol.client import Connection, new_request_id
from holdfast.runtime.protocol.messages import (
    Compact,
    ContinueTurn,
    Rename,
    RunQueue,
    SetModel,
    Submit,
)
from holdfast.runtime.protocol.reconnect import ReconnectingClient
from holdfast.runtime.runner.launch_options import Launch
from holdfast.runtime.runner.spawn import connect_or_start
from holdfast.store.store import Store


def hand_over(store: Store, options: Options, text: str) -> int:
    """Start a runner, send it the prompt, and return the exit code."""
    found = session_for(store, options, mode="read")
    for told in found.told:
        note(told)
    with found.session:
        launch = launch_of(store, found, options)
        assemble_for(found.session, found.workspace, launch.wishes, options.limits, text)
    seq = asyncio.run(_handed_over(launch, options, text))
    attach = f"holdfast attach {launch.session}"
    if options.output_format == "text":
        click.echo(launch.session)
    else:
        click.echo(dumps({"session_id": launch.session, "seq": seq, "attach": attach}))
    note(f"still running; attach with: {attach}")
    return 0


async def _handed_over(launch: Launch, options: Options, text: str) -> int | None:
    """Send all requests to the runner, in order; return the number of the prompt."""
    check_limits(launch.session, options)
    connection = await connect_or_start(launch, note)
    try:
        if not connection.is_new:
            check_changeable(launch.session, options)
            await switch_model(connection, options)
        if options.title is not None and not launch.is_new:
            await connection.request(Rename(id=new_request_id(), title=options.title))
        if options.compact:
            await connection.request(Compact(id=new_request_id()))
        if options.continue_turn:
            await connection.request(ContinueTurn(id=new_request_id()))
        seq = None
        if text:
            submit = Submit(id=new_request_id(), content=[Text(text=text)], limits=options.limits)
            seq = (await connection.request(submit)).seq
        if options.run_queue:
            await connection.request(RunQueue(id=new_request_id()))
        return seq
    finally:
        await connection.close()


# What a runner can still be told


def check_changeable(session_id: str, options: Options) -> None:
    """Reject options that only apply when a runner starts, or only without one.

    Raises:
        UsageError: such an option was given.
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
            f"{', '.join(given)} only applies when a runner starts. Session {session_id} "
            f"has one; first run: holdfast stop {session_id}"
        )


def check_limits(session_id: str, options: Options) -> None:
    """Reject limits without a prompt: a runner stores limits with the prompt.

    Raises:
        UsageError: limits were given with --continue-turn or --run-queue.
    """
    if options.limits != Limits() and (options.continue_turn or options.run_queue):
        raise UsageError(
            "A runner does not support limits with --continue-turn or --run-queue. Leave them "
            f"out, or run holdfast stop {session_id}, then holdfast -p without --detach."
        )


async def switch_model(client: Connection | ReconnectingClient, options: Options) -> None:
    """Switch the model, if one was named.

    Raises:
        HoldfastError: the runner rejected it.
    """
    if options.model or options.provider or options.base_url:
        switch = SetModel(
            id=new_request_id(),
            model=options.model,
            provider=options.provider,
            base_url=options.base_url,
        )
        await client.request(switch)
