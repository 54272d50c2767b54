"""``holdfast tag``: add, remove and list tags of sessions."""

from __future__ import annotations

from collections import Counter

import click

import holdfast
from holdfast.cli.ui.complete import complete_session, complete_tag
from holdfast.errors import UsageError
from holdfast.keeper.edit import SessionTags, session_tags, tag_session
from holdfast.keeper.lookup import resolve_session
from holdfast.keeper.text import printable
from holdfast.model.codec import dumps
from holdfast.store.store import Store
from holdfast.store.validation import valid_tag


@click.command(
    help="""Add or remove tags of a session, or list tags. holdfast ls --tag selects by tag.

    Without TAG, list the session's tags. Without SESSION, list all tags.

    If a runner has the session, the runner tags it; its work continues.

    \b
    holdfast tag k3v9 release urgent
    holdfast tag k3v9 --remove urgent
    holdfast tag
    """
)
@click.argument("session", required=False, shell_complete=complete_session)
@click.argument("tags", nargs=-1, metavar="[TAG]...", shell_complete=complete_tag)
@click.option(
    "--remove",
    "removed",
    multiple=True,
    metavar="TAG",
    shell_complete=complete_tag,
    help="Remove this tag.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *, session: str | None, tags: tuple[str, ...], removed: tuple[str, ...], as_json: bool
) -> None:
    """Tag a session."""
    store = holdfast.open_store()
    if session is None:
        if removed:
            raise UsageError("Name the session: an id, part of an id, a title or a path.")
        _list_all(store, as_json=as_json)
        return
    added = [valid_tag(tag) for tag in tags]
    place = resolve_session(store, session)
    if added or removed:
        _show(tag_session(store, place, add=added, remove=removed), as_json=as_json)
    else:
        _show(session_tags(store, place), as_json=as_json)


def _show(found: SessionTags, *, as_json: bool) -> None:
    if as_json:
        click.echo(dumps({"session": found.session, "tags": found.tags}))
        return
    for tag in found.tags:
        click.echo(printable(tag))
    if not found.tags:
        click.echo(f"{found.session} has no tags", err=True)


def _list_all(store: Store, *, as_json: bool) -> None:
    counts = Counter(tag for summary in store.list() for tag in summary.tags)
    for tag, count in sorted(counts.items()):
        if as_json:
            click.echo(dumps({"tag": tag, "sessions": count}))
        else:
            click.echo(f"{count:6}  {printable(tag)}")
    if not counts and not as_json:
        click.echo("no session has a tag", err=True)
