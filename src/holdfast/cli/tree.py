"""``holdfast tree``: the branches of a session."""

from __future__ import annotations

from typing import Any

import click

import holdfast
from holdfast.cli.naming import complete_session, place_of
from holdfast.model.codec import dumps
from holdfast.tui.tree import Node, drawn, read_tree


@click.command(help="Show the branches of a session; * marks the one that is gone on with.")
@click.argument("session", shell_complete=complete_session)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(*, session: str, as_json: bool) -> None:
    """Show a tree."""
    store = holdfast.open_store()
    with store.open(place_of(store, session), mode="read") as opened:
        tree = read_tree(opened)
    if not as_json:
        for line in drawn(tree):
            click.echo(line)
        click.echo(f"holdfast rewind {session} --conversation --to NUMBER goes on there", err=True)
        return
    waiting: list[tuple[Node, int | None]] = [(root, None) for root in reversed(tree.roots)]
    while waiting:
        node, parent = waiting.pop()
        row: dict[str, Any] = {"seq": node.seq, "parent": parent, "text": node.line}
        click.echo(dumps({**row, "current": node.seq in tree.current}))
        waiting += [(child, node.seq) for child in reversed(node.children)]
