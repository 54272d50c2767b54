"""``holdfast path``: where a session is on disk."""

from __future__ import annotations

from pathlib import Path

import click

import holdfast
from holdfast.cli.ui.complete import complete_session
from holdfast.keeper.lookup import resolve_session
from holdfast.model.codec import dumps
from holdfast.store.local.layout import JOURNAL_NAME


@click.command(
    help="""Print the folder of a session. Without SESSION, print the home folder.

    \b
    du -sh $(holdfast path k3v9)
    grep -c '"type":"message"' $(holdfast path k3v9 --journal)
    """
)
@click.argument("session", required=False, shell_complete=complete_session)
@click.option("--journal", is_flag=True, help="Print the path of the journal file instead.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(*, session: str | None, journal: bool, as_json: bool) -> None:
    """Print where a session is."""
    store = holdfast.open_store()
    if session is None:
        if journal:
            raise click.UsageError("--journal needs a SESSION.")
        folder, session_id = store.path, None
    else:
        folder = store.find(resolve_session(store, session))
        session_id = folder.name
    shown = folder / JOURNAL_NAME if journal else folder
    if as_json:
        click.echo(dumps({"session": session_id, "path": str(shown)}))
    else:
        click.echo(str(Path(shown)))
