"""``holdfast stats``: what was done, and what it cost."""

from __future__ import annotations

import sys
from datetime import datetime

import click

import holdfast
from holdfast.cli.ui.filter_options import SINCE, UNTIL
from holdfast.keeper.stats import DIMENSIONS, read_statistics
from holdfast.keeper.stats_chart import chart_lines
from holdfast.model.codec import dumps
from holdfast.tui.tty import Bar, Colours, on_a_terminal, page, screen


@click.command(
    help="""Show tokens, cost, sessions and prompts by day, model, project and agent.

    \b
    holdfast stats --since 14d          the last two weeks
    holdfast stats --by model           one table only
    holdfast stats --json               everything, as one object

    Days are in this machine's time zone. The cost covers requests whose price is known. A project
    is a git project, or a folder outside git. A turn is what the Holdfast agent did for one prompt;
    imported sessions have prompts but no turns. Messages that a fork copied are counted once, for
    the original session.
    """
)
@click.option("--by", type=click.Choice(DIMENSIONS), help="Show only this table.")
@click.option("--since", type=SINCE, help="Only on or after: 14d, yesterday, 2026-11-01.")
@click.option("--until", type=UNTIL, help="Only on or before this date.")
@click.option("--all", "everything", is_flag=True, help="Show all rows of the tables.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    *,
    by: str | None,
    since: datetime | None,
    until: datetime | None,
    everything: bool,
    as_json: bool,
) -> None:
    """Show statistics."""
    with Bar("indexing new sessions") as bar:
        found = read_statistics(
            holdfast.open_store(), by=by, since=since, until=until, progress=bar
        )
    if as_json:
        click.echo(dumps(found.to_json()))
        return
    colours = Colours()
    lines = chart_lines(
        found,
        width=screen()[1] if on_a_terminal() else None,
        encoding=getattr(sys.stdout, "encoding", None) or "ascii",
        everything=everything,
        style=colours,
    )
    page(lines, colours)
