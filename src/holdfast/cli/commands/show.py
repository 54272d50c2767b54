"""``holdfast show``: read a conversation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

import click

import holdfast
from holdfast.cli.run.output import note
from holdfast.cli.ui.complete import complete_session
from holdfast.cli.ui.conversation_text import block, heading
from holdfast.errors import UsageError
from holdfast.exchange.exporting.depth import DEPTHS, EVERYTHING, TOOLS
from holdfast.keeper.conversation import ConversationEntry, entries_to_show, entry_to_json
from holdfast.keeper.lookup import resolve_session
from holdfast.keeper.text import counted
from holdfast.model.codec import dumps
from holdfast.model.entry import Meta
from holdfast.model.message import Message, Text
from holdfast.store.search.documents import TITLE
from holdfast.store.session import Session
from holdfast.store.types import Provenance
from holdfast.tui.tty import Colours, page

_SPAN = re.compile(r"(\d{1,15})(?:(-|\.\.)(\d{1,15})?)?", re.ASCII)
_NO_END = 10**15
_MOST_NAMED = 10


@click.command(
    help="""Show a conversation: the current branch, oldest message first.

    SESSION is an id, part of an id, a title, or a path. It may be in use.

    \b
    holdfast show k3v9                      # the whole conversation, in the pager
    holdfast show k3v9 --last 4             # the last four messages
    holdfast show k3v9 --seq 37             # a message or title, from search
    holdfast show "fix the build" --depth everything
    """
)
@click.argument("session", shell_complete=complete_session)
@click.option("--last", type=click.IntRange(0), metavar="N", help="Only the last N messages.")
@click.option("--seq", metavar="N", help="Only this entry or range: 37, 30-40, 30-.")
@click.option(
    "--depth",
    type=click.Choice(DEPTHS),
    default=TOOLS,
    help="Show only messages, or messages with shortened tool calls (default), or everything.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(*, session: str, last: int | None, seq: str | None, depth: str, as_json: bool) -> None:
    """Show a conversation."""
    if last is not None and seq is not None:
        raise click.UsageError("Give --last or --seq, not both.")
    span = None if seq is None else _span(seq)
    store = holdfast.open_store()
    with store.open(resolve_session(store, session), mode="read") as opened:
        found = entries_to_show(opened, depth, last=last, span=span)
        if span is not None:
            found = _checked(found, opened, span, seq)
        edited: list[int] = []
        found = _watched(found, edited)
        if as_json:
            provenance = opened.provenance()
            for each in found:
                click.echo(dumps(_as_object(each, provenance)))
        else:
            colours = Colours()
            page(_lines(opened, found, colours), colours)
        for sentence in _damage(opened, edited):
            note(sentence)


def _span(given: str) -> tuple[int, int]:
    found = _SPAN.fullmatch(given.strip())
    if found is None:
        raise UsageError(f"{given!r} is neither an entry number nor a range: use 37, 30-40 or 30-.")
    first = int(found[1])
    if found[2] is None:
        return first, first
    return first, _NO_END if found[3] is None else int(found[3])


def _checked(
    found: Iterator[ConversationEntry], session: Session, span: tuple[int, int], seq: str | None
) -> Iterator[ConversationEntry]:
    """Return the entries, or titles that were set in the span: search finds those, too.

    Raises:
        UsageError: there is nothing to show.
    """
    first = next(found, None)
    if first is not None:
        return chain([first], found)
    titles, messages = [], 0
    for entry in session.entries(after=span[0] - 1, before=span[1] + 1):
        messages += isinstance(entry.body, Message)
        title = entry.body.fields.get("title") if isinstance(entry.body, Meta) else None
        if isinstance(title, str):
            message = Message(role=TITLE, content=[Text(text=title)])
            titles.append(ConversationEntry([message], entry.at, entry.seq, status=entry.status))
    if titles:
        return iter(titles)
    if messages:
        raise UsageError(f"Entry {seq} is not shown at this --depth. Use --depth {EVERYTHING}.")
    raise UsageError(f"There is no message numbered {seq} in {session.id}.")


def _as_object(each: ConversationEntry, provenance: Provenance) -> dict[str, Any]:
    shown = entry_to_json(each)
    if shown.get("role") == TITLE:  # an entry of another kind, shown as if it were said
        shown = {"seq": each.seq, "at": each.at, "type": TITLE, TITLE: each.messages[0].text}
    is_foreign = provenance.any_foreign if each.seq is None else provenance.is_foreign(each.seq)
    return {**shown, "foreign": True, "origin": provenance.source} if is_foreign else shown


def _watched(found: Iterator[ConversationEntry], edited: list[int]) -> Iterator[ConversationEntry]:
    """Yield the entries, and collect the numbers of those that were edited."""
    for each in found:
        if each.status == "edited" and each.seq is not None:
            edited.append(each.seq)
        yield each


def _damage(session: Session, edited: list[int]) -> Iterator[str]:
    """Yield sentences about the damage of a session."""
    known = session.recovery
    sentences = []
    if edited:
        shown = ", ".join(f"#{seq}" for seq in edited[:_MOST_NAMED])
        more = len(edited) - _MOST_NAMED
        shown += f" and {more} more" if more > 0 else ""
        sentences.append(f"changed after it was written: {shown}")
    elif known.edited:
        lines = counted(known.edited, "line")
        sentences.append(f"changed after writing: {lines} of this session")
    if known.damage:
        places = counted(len(known.damage), "place")
        sentences.append(f"this session is damaged in {places}; that part cannot be shown")
    yield from sentences
    if sentences:
        yield f"see: holdfast verify {session.id}"


def _lines(session: Session, found: Iterator[ConversationEntry], colours: Colours) -> Iterator[str]:
    yield heading(session, colours)
    for each in found:
        yield block(each, colours)
