"""``holdfast search``: words in all sessions."""

from __future__ import annotations

import sys

import click
import msgspec

import holdfast
from holdfast.model.codec import dumps
from holdfast.runtime.tools.terminal import on_one_line

_SNIPPET_WIDTH = 100


@click.command(help="Find the messages of all sessions that have some words in them.")
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1), default=20, help="At most so many (20).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(*, words: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Search."""
    text = " ".join(words)
    hits = list(holdfast.open_store().search(text, limit=limit + 1))
    for hit in hits[:limit]:
        if as_json:
            click.echo(dumps(msgspec.to_builtins(hit)))
        else:
            snippet = on_one_line(hit.snippet, _SNIPPET_WIDTH)
            click.echo(f"{hit.session}  {hit.seq:>6}  {hit.role:9}  {snippet}")
    if len(hits) > limit and not as_json:
        click.echo(f"{limit} shown · there are more (--limit)", err=True)
    if not hits:
        click.echo(f"holdfast: nothing has {on_one_line(text)} in it", err=True)
        sys.exit(1)
