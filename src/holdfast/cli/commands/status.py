"""``holdfast status``: list running sessions and their state."""

from __future__ import annotations

import asyncio

import click
from msgspec import to_builtins

from holdfast import open_store
from holdfast.cli.run.output import note
from holdfast.keeper.runners import UnreachableRunner, runner_statuses
from holdfast.keeper.text import age, printable
from holdfast.model.codec import dumps
from holdfast.runtime.protocol.messages import RunnerStatus

_TITLE_WIDTH = 40


@click.command(help="List running sessions: state, process, age, memory, queue, version.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(*, as_json: bool) -> None:
    """Show running sessions."""
    found = asyncio.run(runner_statuses(open_store()))
    for error in found.errors:
        note(str(error))
    for row in found.rows:
        if as_json:
            click.echo(dumps(to_builtins(row)))
        else:
            click.echo(_line(row))
    if not found.rows and not as_json:
        click.echo("nothing is running", err=True)


def _line(row: RunnerStatus | UnreachableRunner) -> str:
    if isinstance(row, UnreachableRunner):
        return f"{row.session}  {row.state}  ! {printable(row.trouble)}"
    memory = row.memory_bytes / 1_000_000
    title = printable(row.title or "")[:_TITLE_WIDTH]
    foreign = "[foreign] " if row.foreign else ""
    trouble = f"  ! {printable(row.trouble)}" if row.trouble else ""
    return (
        f"{row.session}  {row.state:8} pid {row.pid:<7} {age(row.started):>6}  {memory:5.0f} MB  "
        f"{row.queue:>3} queued  {row.version}  {foreign}{title}{trouble}"
    )
