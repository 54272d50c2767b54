"""``holdfast path``: where a session is on disk."""

from __future__ import annotations

from pathlib import Path

import click

import holdfast
from holdfast.cli.naming import complete_session, place_of
from holdfast.journal.names import JOURNAL_NAME
from holdfast.model.codec import dumps


@click.command(
    help="""Print the folder of a session; without SESSION the home folder of all.

    \b
    du -sh $(holdfast path k3v9)
    grep -c '"type":"message"' $(holdfast path k3v9 --journal)
    """
)
@click.argument("session", required=False, shell_complete=complete_session)
@click.option("--journal", is_flag=True, help="The journal file in it.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(*, session: str | None, journal: bool, as_json: bool) -> None:
    """Print where a session is."""
    store = holdfast.open_store()
    if session is None:
        if journal:
            raise click.UsageError("--journal is about one SESSION.")
        folder, session_id = store.path, None
    else:
        folder = store.find(place_of(store, session))
        session_id = folder.name
    shown = folder / JOURNAL_NAME if journal else folder
    if as_json:
        click.echo(dumps({"session": session_id, "path": str(shown)}))
    else:
        click.echo(str(Path(shown)))
