"""``holdfast rename``: give a session a title."""

from __future__ import annotations

import asyncio

import click

import holdfast
from holdfast.cli.naming import complete_session, place_of
from holdfast.errors import SessionLocked, UsageError
from holdfast.model.codec import dumps
from holdfast.model.terminal import is_one_line
from holdfast.store.local import LocalStore

_LONGEST_TITLE = 500


@click.command(
    help="""Give a session a title. It can be named by it from then on.

    A session that a runner has is renamed through the runner, while it works.

    \b
    holdfast rename k3v9 "fix the build"
    holdfast -r "fix the build" -p "and now the docs"
    """
)
@click.argument("session", shell_complete=complete_session)
@click.argument("title")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(*, session: str, title: str, as_json: bool) -> None:
    """Rename a session."""
    title = checked_title(title)
    store = holdfast.open_store()
    place = place_of(store, session)
    try:
        with store.open(place) as opened:
            session_id = opened.id
            opened.update(title=title)
    except SessionLocked as error:
        session_id = error.session
        _through_runner(store, error, title)
    if as_json:
        click.echo(dumps({"session": session_id, "title": title}))
    else:
        click.echo(session_id)


def checked_title(given: str) -> str:
    """Return a title without blanks around it.

    Raises:
        UsageError: it is empty, too long, or more than a line.
    """
    title = given.strip()
    if not title or len(title) > _LONGEST_TITLE:
        raise UsageError(f"A title has 1 to {_LONGEST_TITLE} characters.")
    if not is_one_line(title):
        raise UsageError("A title is one line of text, without control characters.")
    return title


def _through_runner(store: LocalStore, locked: SessionLocked, title: str) -> None:
    """Have the runner that holds a session rename it.

    Raises:
        SessionLocked: it is not a runner.
    """
    from holdfast.cli.runners import running  # noqa: PLC0415  most sessions are not running
    from holdfast.runtime.control.client import RunnerGone, new_request_id  # noqa: PLC0415  as above
    from holdfast.runtime.control.protocol import Rename  # noqa: PLC0415  as above

    async def ask() -> None:
        connection = await running(store, locked.session)
        try:
            await connection.request(Rename(id=new_request_id(), title=title))
        finally:
            await connection.close()

    try:
        asyncio.run(ask())
    except RunnerGone:
        raise held(locked) from None


def held(locked: SessionLocked) -> SessionLocked:
    """Return the error in the words of the command line."""
    told = f"Session {locked.session} is being written by {locked.holder}"
    locked.args = (f"{told}: nothing was changed; try again when that has ended.",)
    return locked
