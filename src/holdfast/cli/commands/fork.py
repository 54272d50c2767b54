"""``holdfast fork``: copy a session, to continue in the copy."""

from __future__ import annotations

import click

import holdfast
from holdfast.cli.ui.complete import complete_session
from holdfast.keeper.lookup import resolve_session
from holdfast.model.codec import dumps
from holdfast.store.validation import valid_title


@click.command(
    help="""Copy a session's conversation into a new session and print the new id.

    The original does not change and may be in use. With --at, the copy ends with that entry;
    holdfast rewind SESSION lists the prompts.

    \b
    holdfast fork k3v9 --name "another way"
    holdfast fork k3v9 --at 37
    holdfast -r k3v9 --fork -p "try it with sqlite"     # fork and continue
    """
)
@click.argument("session", shell_complete=complete_session)
@click.option(
    "--at", type=click.IntRange(0), metavar="SEQ", help="Number of the last entry to copy."
)
@click.option("-n", "--name", metavar="TITLE", help="Title of the copy.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(*, session: str, at: int | None, name: str | None, as_json: bool) -> None:
    """Fork a session."""
    title = None if name is None else valid_title(name)
    store = holdfast.open_store()
    with store.open(resolve_session(store, session), mode="read") as original:
        with original.fork(at) as copy:
            if title is not None:
                copy.update(title=title)
        if as_json:
            told = {"session": copy.id, "forked_from": original.id, "at": at}
            click.echo(dumps({**told, "title": copy.state.title, "path": str(copy.path)}))
        else:
            click.echo(copy.id)
