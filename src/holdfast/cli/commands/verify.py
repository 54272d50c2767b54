"""``holdfast verify``: read a whole session and report every problem."""

from __future__ import annotations

import sys

import click
import msgspec

import holdfast
from holdfast.cli.ui.complete import complete_session
from holdfast.keeper.lookup import resolve_session
from holdfast.keeper.text import printable
from holdfast.model.codec import dumps


@click.command(help="Read a whole session and report every problem. Changes nothing.")
@click.argument("session", shell_complete=complete_session)
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object.")
def command(*, session: str, as_json: bool) -> None:
    """Verify a session."""
    store = holdfast.open_store()
    report = store.verify(resolve_session(store, session))
    if as_json:
        click.echo(dumps(msgspec.to_builtins(report)))
    else:
        for problem in report.problems:
            click.echo(f"{problem.kind:12} {printable(problem.where)}: {problem.detail}")
        verdict = "intact" if report.ok else f"{len(report.problems)} problem(s)"
        click.echo(f"{report.id}: {report.entries} entries, {report.size_bytes} bytes, {verdict}")
    if not report.ok:
        sys.exit(65)
