"""``holdfast tag``: words to find sessions by."""

from __future__ import annotations

from collections import Counter

import click

import holdfast
from holdfast.cli.columns import printable
from holdfast.cli.naming import complete_session, complete_tag, place_of
from holdfast.cli.rename import held
from holdfast.errors import SessionLocked, UsageError
from holdfast.model.codec import dumps
from holdfast.model.terminal import is_one_line
from holdfast.store.local import LocalStore
from holdfast.store.session import Session

_LONGEST_TAG = 100


@click.command(
    help="""Give a session tags, take them away, or list them. ls --tag finds it by them.

    Without TAG the session's tags are listed; without SESSION all tags there are.

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
    help="Take this tag away.",
)
@click.option("--json", "as_json", is_flag=True, help="JSON, for programs.")
def command(
    *, session: str | None, tags: tuple[str, ...], removed: tuple[str, ...], as_json: bool
) -> None:
    """Tag a session."""
    store = holdfast.open_store()
    if session is None:
        if removed:
            raise UsageError("Say which session: an id, part of one, a title or a path.")
        _list_all(store, as_json=as_json)
        return
    added = [_checked(tag) for tag in tags]
    place = place_of(store, session)
    if not added and not removed:
        with store.open(place, mode="read") as opened:
            _tell(opened, as_json=as_json)
        return
    try:
        with store.open(place) as opened:
            _change(opened, added, removed)
            _tell(opened, as_json=as_json)
    except SessionLocked as error:
        raise held(error) from None


def _checked(given: str) -> str:
    tag = given.strip()
    if not tag or len(tag) > _LONGEST_TAG or not is_one_line(tag):
        raise UsageError(f"A tag is 1 to {_LONGEST_TAG} characters on one line, not {given!r}.")
    return tag


def _tags(session: Session) -> list[str]:
    found = session.meta.get("tags")
    return [tag for tag in found if isinstance(tag, str)] if isinstance(found, list) else []


def _change(session: Session, added: list[str], removed: tuple[str, ...]) -> None:
    before = _tags(session)
    gone = {tag.strip() for tag in removed}
    missing = sorted(gone - set(before))
    if missing:
        raise UsageError(f"{session.id} has no tag {missing[0]!r}. Nothing was changed.")
    after = [tag for tag in dict.fromkeys([*before, *added]) if tag not in gone]
    if after != before:
        session.update(tags=after)


def _tell(session: Session, *, as_json: bool) -> None:
    tags = _tags(session)
    if as_json:
        click.echo(dumps({"session": session.id, "tags": tags}))
        return
    for tag in tags:
        click.echo(printable(tag))
    if not tags:
        click.echo(f"{session.id} has no tags", err=True)


def _list_all(store: LocalStore, *, as_json: bool) -> None:
    counts = Counter(tag for summary in store.list() for tag in summary.tags)
    for tag, count in sorted(counts.items()):
        if as_json:
            click.echo(dumps({"tag": tag, "sessions": count}))
        else:
            click.echo(f"{count:6}  {printable(tag)}")
    if not counts and not as_json:
        click.echo("no session has a tag", err=True)
