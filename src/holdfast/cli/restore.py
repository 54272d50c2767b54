"""``holdfast restore``: sessions back from the trash."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct, structs

import holdfast
from holdfast.cli.columns import cut, printable
from holdfast.cli.conversation import when
from holdfast.errors import HoldfastError, SessionNotFound, UsageError
from holdfast.model.codec import dumps
from holdfast.store.contract import Deleted
from holdfast.store.local import LocalStore

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_TITLE_WIDTH = 50
_MOST_OFFERED = 50


class _Seen(Struct, frozen=True):
    """What can be seen of a deleted session; ``problem`` says why nothing can."""

    title: str | None = None
    messages: int = 0
    problem: str | None = None


def _complete(
    ctx: click.Context,  # noqa: ARG001  click's signature
    param: click.Parameter,  # noqa: ARG001  click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """Offer the ids in the trash that have what is typed, last deleted first."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415  only for the shell

    store = holdfast.open_store()
    try:
        trash = store.deleted()
    except HoldfastError:
        return []  # a mistake is told when the command is run
    fitting: dict[str, Deleted] = {}
    for gone in trash:
        if incomplete in gone.id:
            fitting.setdefault(gone.id, gone)  # the last deleted one comes back
    offered = []
    for gone in list(fitting.values())[:_MOST_OFFERED]:
        title = cut(printable(_look(store, gone).title or ""), _TITLE_WIDTH)
        offered.append(CompletionItem(gone.id, help=title))
    return offered


@click.command(
    help="""Bring sessions back from the trash; without SESSION list what is in it.

    SESSION is an id, a title, or any part of an id that only one has. Of several with one id the
    last deleted comes back.

    \b
    holdfast restore
    holdfast restore k3v9
    """
)
@click.argument("sessions", nargs=-1, metavar="[SESSION]...", shell_complete=_complete)
@click.option("--limit", type=click.IntRange(0), default=20, help="List at most so many (20).")
@click.option("--all", "everything", is_flag=True, help="List all.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(*, sessions: tuple[str, ...], limit: int, everything: bool, as_json: bool) -> None:
    """Restore sessions, or list the trash."""
    store = holdfast.open_store()
    trash = store.deleted()
    if not sessions:
        _list(store, trash, len(trash) if everything else limit, as_json=as_json)
        return
    for session_id in [_named(store, trash, name) for name in sessions]:
        store.restore(session_id)
        click.echo(dumps({"session": session_id, "restored": True}) if as_json else session_id)


def _list(store: LocalStore, trash: list[Deleted], limit: int, *, as_json: bool) -> None:
    for gone in trash[:limit]:
        each = _look(store, gone)
        if as_json:
            told = {"session": gone.id, "deleted": gone.at, "path": gone.path}
            click.echo(dumps({**told, **structs.asdict(each)}))
        else:
            title = cut(printable(each.problem or each.title or ""), _TITLE_WIDTH)
            click.echo(f"{gone.id}  {when(gone.at)}  {each.messages:6}  {title}")
    if as_json:
        return
    if not trash:
        click.echo("the trash is empty", err=True)
    elif len(trash) > limit:
        click.echo(f"{limit} shown · {len(trash) - limit} more (--all)", err=True)


def _look(store: LocalStore, gone: Deleted) -> _Seen:
    try:
        with store.open(Path(gone.path), mode="read") as session:
            return _Seen(session.state.title, session.state.messages)
    except HoldfastError as error:
        return _Seen(problem=str(error))


def _named(store: LocalStore, trash: list[Deleted], name: str) -> str:
    """Return the id of the deleted session that a name stands for.

    Raises:
        SessionNotFound: there is none; UsageError: there are several.
    """
    if any(gone.id == name for gone in trash):
        return name
    # Of several with one id the first is the one that comes back.
    titles = {gone.id: _look(store, gone).title or "" for gone in reversed(trash)}
    wanted = name.casefold()
    found = [each for each, title in titles.items() if wanted and title.casefold() == wanted]
    found = found or [each for each in titles if name and name in each]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{len(found)} deleted sessions fit {name!r}: {', '.join(found[:5])}.")
    raise SessionNotFound(
        f"No session with {name!r} in its id or as its title is in the trash.{_meant(name, titles)}"
    )


def _meant(name: str, titles: dict[str, str]) -> str:
    near: dict[str, str] = {}
    for each, title in titles.items():
        near |= {each: each, each[-8:]: each} | ({title.casefold(): each} if title else {})
    close = difflib.get_close_matches(name.casefold(), near, 1)
    return f" Did you mean {near[close[0]]}?" if close else ""
