"""``holdfast status``: list running sessions and their state."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from holdfast import open_store
from holdfast.cli.run.output import note
from holdfast.keeper.runners import runner_statuses
from holdfast.keeper.text import age, printable
from holdfast.model.codec import dumps

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
            click.echo(dumps(row))
        else:
            click.echo(_line(row))
    if not found.rows and not as_json:
        click.echo("nothing is running", err=True)


def _line(row: dict[str, Any]) -> str:
    if "version" not in row:
        return f"{row['session']}  {row['state']}  ! {printable(row['trouble'])}"
    memory = row.get("memory_bytes", 0) / 1_000_000
    title = printable(row.get("title") or "")[:_TITLE_WIDTH]
    foreign = "[foreign] " if row.get("foreign") else ""
    trouble = f"  ! {printable(row['trouble'])}" if row.get("trouble") else ""
    return (
        f"{row['session']}  {row['state']:8} pid {row['pid']:<7} "
        f"{age(row.get('started')):>6}  {memory:5.0f} MB  "
        f"{row.get('queue', 0):>3} queued  {row['version']}  {foreign}{title}{trouble}"
    )
