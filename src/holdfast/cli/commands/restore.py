"""``holdfast restore``: restore sessions from the trash."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import structs

import holdfast
from holdfast.errors import HoldfastError
from holdfast.keeper.text import cut, local_time, printable
from holdfast.keeper.trash import read_deleted, restore_sessions
from holdfast.model.codec import dumps
from holdfast.store.store import Store
from holdfast.store.types import Deleted

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_TITLE_WIDTH = 50
_MOST_OFFERED = 50


def _complete(
    ctx: click.Context,  # noqa: ARG001  click's signature
    param: click.Parameter,  # noqa: ARG001  click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """Return the ids in the trash that contain the typed text, last deleted first."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415  only for the shell

    store = holdfast.open_store()
    try:
        trash = store.deleted()
    except HoldfastError:
        return []  # the command itself reports the error
    fitting: dict[str, Deleted] = {}
    for gone in trash:
        if incomplete in gone.id:
            fitting.setdefault(gone.id, gone)  # the one that was deleted last is restored
    offered = []
    for gone in list(fitting.values())[:_MOST_OFFERED]:
        title = cut(printable(read_deleted(store, gone).title or ""), _TITLE_WIDTH)
        offered.append(CompletionItem(gone.id, help=title))
    return offered


@click.command(
    help="""Restore sessions from the trash. Without SESSION, list the trash.

    SESSION is an id, a title, or a part of an id that only one session has. If several sessions
    have the same id, the one that was deleted last is restored.

    \b
    holdfast restore
    holdfast restore k3v9
    """
)
@click.argument("sessions", nargs=-1, metavar="[SESSION]...", shell_complete=_complete)
@click.option(
    "--limit", type=click.IntRange(0), default=20, metavar="N", help="List at most N (default 20)."
)
@click.option("--all", "everything", is_flag=True, help="List all.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(*, sessions: tuple[str, ...], limit: int, everything: bool, as_json: bool) -> None:
    """Restore sessions, or list the trash."""
    store = holdfast.open_store()
    if not sessions:
        trash = store.deleted()
        _list(store, trash, len(trash) if everything else limit, as_json=as_json)
        return
    for session_id in restore_sessions(store, list(sessions)):
        click.echo(dumps({"session": session_id, "restored": True}) if as_json else session_id)


def _list(store: Store, trash: list[Deleted], limit: int, *, as_json: bool) -> None:
    for gone in trash[:limit]:
        each = read_deleted(store, gone)
        if as_json:
            told = {"session": gone.id, "deleted": gone.at, "path": gone.path}
            click.echo(dumps({**told, **structs.asdict(each)}))
        else:
            title = cut(printable(each.problem or each.title or ""), _TITLE_WIDTH)
            click.echo(f"{gone.id}  {local_time(gone.at)}  {each.messages:6}  {title}")
    if as_json:
        return
    if not trash:
        click.echo("the trash is empty", err=True)
    elif len(trash) > limit:
        click.echo(f"{limit} shown · {len(trash) - limit} more (--all)", err=True)
