"""``holdfast show``: read a conversation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

import click

import holdfast
from holdfast.cli.colours import Colours
from holdfast.cli.columns import counted
from holdfast.cli.conversation import Said, as_object, block, heading, said
from holdfast.cli.naming import complete_session, place_of
from holdfast.cli.output import note
from holdfast.cli.pager import page
from holdfast.errors import UsageError
from holdfast.exchange.detail import DEPTHS, EVERYTHING, TOOLS
from holdfast.model.codec import dumps
from holdfast.model.entry import Entry, Meta
from holdfast.model.message import Message, Text
from holdfast.store.documents import TITLE
from holdfast.store.session import Session

_SPAN = re.compile(r"(\d{1,15})(?:(-|\.\.)(\d{1,15})?)?", re.ASCII)
_NO_END = 10**15
_MOST_NAMED = 10


@click.command(
    help="""Read a conversation: the branch that counts, oldest message first.

    SESSION is an id, any part of one, a title, or a path. Works while somebody writes to it.

    \b
    holdfast show k3v9                      # all of it, in the pager
    holdfast show k3v9 --last 4             # how it ended
    holdfast show k3v9 --seq 37             # a message or title, from search
    holdfast show "fix the build" --depth everything
    """
)
@click.argument("session", shell_complete=complete_session)
@click.option("--last", type=click.IntRange(0), metavar="N", help="Only the last N messages.")
@click.option("--seq", metavar="N", help="Only this entry, or those of a range: 37, 30-40, 30-.")
@click.option(
    "--depth",
    type=click.Choice(DEPTHS),
    default=TOOLS,
    help="Messages alone, with tools shortened (the default), or everything.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(*, session: str, last: int | None, seq: str | None, depth: str, as_json: bool) -> None:
    """Show a conversation."""
    if last is not None and seq is not None:
        raise click.UsageError("Give --last or --seq, not both.")
    span = None if seq is None else _span(seq)
    store = holdfast.open_store()
    with store.open(place_of(store, session), mode="read") as opened:
        found = said(opened, depth, last=last, span=span)
        if span is not None:
            found = _checked(found, opened, span, seq)
        edited: list[int] = []
        found = _watched(found, edited)
        if as_json:
            for each in found:
                click.echo(dumps(_as_object(each)))
        else:
            colours = Colours()
            page(_lines(opened, found, colours), colours)
        for sentence in _damage(opened, edited):
            note(sentence)


def _span(given: str) -> tuple[int, int]:
    found = _SPAN.fullmatch(given.strip())
    if found is None:
        raise UsageError(f"{given!r} is no entry and no range of them: use 37, 30-40 or 30-.")
    first = int(found[1])
    if found[2] is None:
        return first, first
    return first, _NO_END if found[3] is None else int(found[3])


def _checked(
    found: Iterator[Said], session: Session, span: tuple[int, int], seq: str | None
) -> Iterator[Said]:
    """Return the same, or the titles that were given there: search finds them too.

    Raises:
        UsageError: there is nothing to show.
    """
    first = next(found, None)
    if first is not None:
        return chain([first], found)
    titles, messages = [], 0
    for entry in session.follow(span[0] - 1, wait=False):
        if not isinstance(entry, Entry) or entry.seq > span[1]:
            break
        messages += isinstance(entry.body, Message)
        title = entry.body.fields.get("title") if isinstance(entry.body, Meta) else None
        if isinstance(title, str):
            message = Message(role=TITLE, content=[Text(text=title)])
            titles.append(Said([message], entry.at, entry.seq, status=entry.status))
    if titles:
        return iter(titles)
    if messages:
        raise UsageError(f"This --depth leaves {seq} out: use --depth {EVERYTHING}.")
    raise UsageError(f"There is no message numbered {seq} in {session.id}.")


def _as_object(each: Said) -> dict[str, Any]:
    shown = as_object(each)
    if shown.get("role") == TITLE:  # an entry of another kind, shown as if it were said
        return {"seq": each.seq, "at": each.at, "type": TITLE, TITLE: each.messages[0].text}
    return shown


def _watched(found: Iterator[Said], edited: list[int]) -> Iterator[Said]:
    """Yield the same, and take note of what somebody has changed."""
    for each in found:
        if each.status == "edited" and each.seq is not None:
            edited.append(each.seq)
        yield each


def _damage(session: Session, edited: list[int]) -> Iterator[str]:
    """Yield what is known to be wrong with a session."""
    known = session.recovery
    sentences = []
    if edited:
        shown = ", ".join(f"#{seq}" for seq in edited[:_MOST_NAMED])
        more = len(edited) - _MOST_NAMED
        shown += f" and {more} more" if more > 0 else ""
        sentences.append(f"changed after it was written: {shown}")
    elif known.edited:
        lines = counted(known.edited, "line")
        sentences.append(f"{lines} of this session changed after being written")
    if known.damage:
        places = counted(len(known.damage), "place")
        sentences.append(f"what is damaged in {places} of this session cannot be shown")
    yield from sentences
    if sentences:
        yield f"see: holdfast verify {session.id}"


def _lines(session: Session, found: Iterator[Said], colours: Colours) -> Iterator[str]:
    yield heading(session, colours)
    for each in found:
        yield block(each, colours)
