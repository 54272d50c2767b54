"""``holdfast rename``: give a session a title."""

from __future__ import annotations

import click

import holdfast
from holdfast.cli.ui.complete import complete_session
from holdfast.keeper.edit import rename_session
from holdfast.keeper.lookup import resolve_session
from holdfast.model.codec import dumps
from holdfast.store.validation import valid_title


@click.command(
    help="""Set a session's title. Commands accept the title instead of the id.

    If a runner has the session, the runner renames it; its work continues.

    \b
    holdfast rename k3v9 "fix the build"
    holdfast -r "fix the build" -p "and now the docs"
    """
)
@click.argument("session", shell_complete=complete_session)
@click.argument("title")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(*, session: str, title: str, as_json: bool) -> None:
    """Rename a session."""
    title = valid_title(title)  # before the session is looked up: a mistake here is cheaper
    store = holdfast.open_store()
    renamed = rename_session(store, resolve_session(store, session), title)
    if as_json:
        click.echo(dumps({"session": renamed.session, "title": renamed.title}))
    else:
        click.echo(renamed.session)
