"""``holdfast ls``: what sessions there are."""

from __future__ import annotations

import click
import msgspec

import holdfast
from holdfast.model.codec import dumps

_TITLE_WIDTH = 50


@click.command(help="List sessions, last updated first. Damaged ones are shown, never hidden.")
@click.option("--limit", type=click.IntRange(0), default=20, help="At most so many (20).")
@click.option("--all", "everything", is_flag=True, help="Every session.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(*, limit: int, everything: bool, as_json: bool) -> None:
    """List sessions."""
    summaries = holdfast.open_store().list()
    shown = summaries if everything else summaries[:limit]
    for summary in shown:
        if as_json:
            click.echo(dumps(msgspec.to_builtins(msgspec.structs.asdict(summary))))
        else:
            title = printable(summary.problem or summary.title or "")[:_TITLE_WIDTH]
            click.echo(f"{summary.id}  {summary.state:11}  {summary.messages:6}  {title}")
    hidden = len(summaries) - len(shown)
    if hidden and not as_json:
        click.echo(f"{len(shown)} shown · {hidden} more (--all)", err=True)


def printable(text: str) -> str:
    """Return text that cannot move the cursor or worse."""
    return "".join(each if each.isprintable() else " " for each in text)
