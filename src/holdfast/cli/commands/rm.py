"""``holdfast rm``: move sessions to the trash."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import click

import holdfast
from holdfast.cli.ui.complete import complete_session
from holdfast.cli.ui.confirm import check_agreed
from holdfast.cli.ui.filter_options import filter_from, filter_options
from holdfast.errors import HoldfastError, SessionNotFound, UsageError
from holdfast.keeper.edit import delete_session
from holdfast.keeper.filters import SessionFilter, select_sessions
from holdfast.keeper.lookup import local_session_id
from holdfast.keeper.text import counted, cut, printable
from holdfast.model.codec import dumps
from holdfast.store.store import Store

_TITLE_WIDTH = 50
_MOST_SHOWN = 20


@click.command(
    help="""Move sessions to the trash, after confirmation. holdfast restore brings them back.

    Name the sessions, or select them with the options of ls. Sessions that are in use are skipped
    and listed, and the exit code is 75. A path must be that of a session in this home folder.

    \b
    holdfast rm k3v9 w7hq
    holdfast rm --tag scratch --until 30d
    holdfast rm --here --state damaged --yes
    """
)
@click.argument("sessions", nargs=-1, metavar="[SESSION]...", shell_complete=complete_session)
@filter_options
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Only show which sessions.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per session.")
def command(
    *, sessions: tuple[str, ...], yes: bool, dry_run: bool, as_json: bool, **conditions: Any
) -> None:
    """Delete sessions."""
    store, wanted = holdfast.open_store(), filter_from(**conditions)
    titles = _selected(store, sessions, wanted)
    _show(titles, as_json=as_json, dry_run=dry_run)
    if not titles or dry_run:
        return
    check_agreed(f"Move {counted(len(titles), 'session')} to the trash?", yes=yes)
    outcomes = [_delete(store, each, as_json=as_json) for each in titles]
    moved = sum(each.moved for each in outcomes)
    if not as_json:
        back = f"; holdfast restore brings {'it' if moved == 1 else 'them'} back" if moved else ""
        click.echo(f"{counted(moved, 'session')} moved to the trash{back}", err=True)
    sys.exit(max(each.code for each in outcomes))


def _selected(store: Store, names: tuple[str, ...], wanted: SessionFilter) -> dict[str, str]:
    """Return the ids of the sessions that were named or selected, with their titles."""
    if names and not wanted.is_empty:
        raise UsageError("Name sessions or give conditions, not both.")
    if not names and wanted.is_empty:
        raise UsageError(
            "Name sessions, or select them with --until 90d, --tag, --here or --state."
        )
    if not names:
        found = select_sessions(store, wanted).sessions
        return {each.id: each.problem or each.title or "" for each in found}
    known = {each.id: each.problem or each.title or "" for each in store.list()}
    ids = [local_session_id(store, name) for name in names]
    return {each: known.get(each, "") for each in ids}


def _show(titles: dict[str, str], *, as_json: bool, dry_run: bool) -> None:
    if as_json:
        if dry_run:
            for session_id in titles:
                click.echo(dumps({"session": session_id, "deleted": False}))
        return
    for session_id, title in list(titles.items())[:_MOST_SHOWN]:
        click.echo(f"{session_id}  {cut(printable(title), _TITLE_WIDTH)}", err=True)
    if len(titles) > _MOST_SHOWN:
        click.echo(f"… and {len(titles) - _MOST_SHOWN} more", err=True)
    if not titles:
        click.echo("no session matches", err=True)


class _Outcome(NamedTuple):
    moved: bool
    code: int = 0


def _delete(store: Store, session_id: str, *, as_json: bool) -> _Outcome:
    outcome, reason = _Outcome(moved=True), None
    try:
        delete_session(store, session_id)
    except SessionNotFound:
        outcome = _Outcome(moved=False)
        reason = f"{session_id} was already deleted"
    except HoldfastError as error:
        outcome, reason = _Outcome(moved=False, code=error.exit_code), str(error)
    if as_json:
        click.echo(dumps({"session": session_id, "deleted": outcome.moved, "reason": reason}))
    elif reason is not None:
        click.echo(f"holdfast: {printable(reason)}", err=True)
    return outcome
