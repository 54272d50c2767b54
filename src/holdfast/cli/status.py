"""``holdfast status``: which sessions are running, and how they stand."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import click

from holdfast import open_store
from holdfast.cli.ls import printable
from holdfast.cli.output import note
from holdfast.cli.runners import all_running
from holdfast.errors import HoldfastError
from holdfast.model.codec import dumps
from holdfast.runtime.control.client import Connection, RunnerSilent, new_request_id
from holdfast.runtime.control.protocol import StatusOf

SILENT = "does not answer"
_TITLE_WIDTH = 40


@click.command(
    help="Show the sessions that are running: state, process, age, memory, queue, version."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(*, as_json: bool) -> None:
    """Show what is running."""
    rows = asyncio.run(_rows())
    for row in rows:
        if as_json:
            click.echo(dumps(row))
        else:
            click.echo(_line(row))
    if not rows and not as_json:
        click.echo("nothing is running", err=True)


async def _rows() -> list[dict[str, Any]]:
    connections, troubles = await all_running(open_store())
    rows = list(await asyncio.gather(*(_status(each) for each in connections)))
    for trouble in troubles:
        if isinstance(trouble, RunnerSilent):
            rows.append(_unknown(trouble.session, trouble.pid, SILENT, str(trouble)))
        else:
            note(str(trouble))
    return sorted(rows, key=lambda row: str(row["session"]))


async def _status(connection: Connection) -> dict[str, Any]:
    try:
        answer = await connection.request(StatusOf(id=new_request_id()))
    except HoldfastError as error:
        hello = connection.hello
        if isinstance(error, RunnerSilent):
            return _unknown(hello.get("session"), error.pid, SILENT, str(error))
        return _unknown(hello.get("session"), hello.get("pid"), "unknown", str(error))
    finally:
        await connection.close()
    status: dict[str, Any] = answer["status"]
    return status


def _unknown(session: str | None, pid: int | None, state: str, trouble: str) -> dict[str, Any]:
    return {"session": session, "pid": pid, "state": state, "trouble": trouble}


def _line(row: dict[str, Any]) -> str:
    if "version" not in row:
        return f"{row['session']}  {row['state']}  ! {printable(row['trouble'])}"
    memory = row.get("memory_bytes", 0) / 1_000_000
    title = printable(row.get("title") or "")[:_TITLE_WIDTH]
    trouble = f"  ! {printable(row['trouble'])}" if row.get("trouble") else ""
    return (
        f"{row['session']}  {row['state']:8} pid {row['pid']:<7} "
        f"{_age(row.get('started')):>6}  {memory:5.0f} MB  "
        f"{row.get('queue', 0):>3} queued  {row['version']}  {title}{trouble}"
    )


def _age(started: str | None) -> str:
    if not started:
        return "?"
    began = datetime.fromisoformat(started)
    seconds = int((datetime.now(UTC) - began).total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{max(seconds, 0)}s"
