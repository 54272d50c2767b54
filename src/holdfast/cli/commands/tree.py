"""``holdfast tree``: the branches of a session."""

from __future__ import annotations

from typing import Any

import click

import holdfast
from holdfast.cli.ui.complete import complete_session
from holdfast.keeper.lookup import resolve_session
from holdfast.keeper.tree import TreeNode, read_tree, tree_lines
from holdfast.model.codec import dumps


@click.command(help="Show the branches of a session. * marks the current branch.")
@click.argument("session", shell_complete=complete_session)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(*, session: str, as_json: bool) -> None:
    """Show a tree."""
    store = holdfast.open_store()
    with store.open(resolve_session(store, session), mode="read") as opened:
        tree = read_tree(opened)
    if not as_json:
        for line in tree_lines(tree):
            click.echo(line)
        click.echo(
            f"holdfast rewind {session} --conversation --to NUMBER continues from an entry",
            err=True,
        )
        return
    waiting: list[tuple[TreeNode, int | None]] = [(root, None) for root in reversed(tree.roots)]
    while waiting:
        node, parent = waiting.pop()
        row: dict[str, Any] = {"seq": node.seq, "parent": parent, "text": node.line}
        click.echo(dumps({**row, "current": node.seq in tree.current}))
        waiting += [(child, node.seq) for child in reversed(node.children)]
