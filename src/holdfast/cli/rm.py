"""``holdfast rm``: sessions to the trash."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import click

import holdfast
from holdfast.cli.asking import check_agreed
from holdfast.cli.choosing import Choice, choosing, chosen
from holdfast.cli.columns import counted, cut, printable
from holdfast.cli.naming import complete_session, own_id
from holdfast.errors import HoldfastError, SessionLocked, SessionNotFound, UsageError
from holdfast.model.codec import dumps
from holdfast.store.local import LocalStore

_TITLE_WIDTH = 50
_MOST_SHOWN = 20


@click.command(
    help="""Move sessions to the trash, after a question. restore brings them back.

    Name them, or say which: the conditions are those of ls. A session that somebody is writing to
    is left alone and named, with exit code 75. A path is only taken if it is that of a session of
    this home.

    \b
    holdfast rm k3v9 w7hq
    holdfast rm --tag scratch --until 30d
    holdfast rm --here --state damaged --yes
    """
)
@click.argument("sessions", nargs=-1, metavar="[SESSION]...", shell_complete=complete_session)
@choosing
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only show which.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a session.")
def command(
    *, sessions: tuple[str, ...], yes: bool, dry_run: bool, as_json: bool, **conditions: Any
) -> None:
    """Delete sessions."""
    store, choice = holdfast.open_store(), Choice(**conditions)
    titles = _meant(store, sessions, choice)
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


def _meant(store: LocalStore, names: tuple[str, ...], choice: Choice) -> dict[str, str]:
    """Return the places of all sessions that are meant, with their titles."""
    if names and choice.given:
        raise UsageError("Name sessions, or say which with conditions: not both.")
    if not names and not choice.given:
        raise UsageError("Name the sessions, or say which: --until 90d, --tag, --here, --state.")
    if not names:
        found = chosen(choice).sessions
        return {each.id: each.problem or each.title or "" for each in found}
    known = {each.id: each.problem or each.title or "" for each in store.list()}
    return {found: known.get(found, "") for found in [own_id(store, name) for name in names]}


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
        click.echo("no session is meant", err=True)


class _Outcome(NamedTuple):
    moved: bool
    code: int = 0


def _delete(store: LocalStore, session_id: str, *, as_json: bool) -> _Outcome:
    outcome, reason = _Outcome(moved=True), None
    try:
        store.delete(session_id)
    except SessionLocked as error:
        outcome = _Outcome(moved=False, code=error.exit_code)
        reason = f"{session_id} is being written by {error.holder}: left alone"
    except SessionNotFound:  # which is what was asked for
        outcome = _Outcome(moved=False)
        reason = f"{session_id} is gone already: somebody else has deleted it"
    except HoldfastError as error:
        outcome, reason = _Outcome(moved=False, code=error.exit_code), str(error)
    if as_json:
        click.echo(dumps({"session": session_id, "deleted": outcome.moved, "reason": reason}))
    elif reason is not None:
        click.echo(f"holdfast: {printable(reason)}", err=True)
    return outcome
