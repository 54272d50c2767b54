"""``holdfast search``: which message was it?"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec

import holdfast
from holdfast.cli.colours import Colours
from holdfast.cli.columns import counted, cut, printable
from holdfast.cli.moments import SINCE, UNTIL
from holdfast.cli.pager import page
from holdfast.cli.progress import Bar
from holdfast.errors import UsageError
from holdfast.model.codec import dumps
from holdfast.store.wanted import INSIDE

_ROLES = ("user", "assistant", "tool", "system", "title")
_TITLE_WIDTH = 50
_MOST_HIDDEN = 100
_AROUND_CHARACTERS = 60
_NOTHING_FOUND = 1
_BLANKS = re.compile(r"\s+")


@click.command(
    help="""Find messages, in all sessions: what was said and thought, what tools were given and
    answered, and titles.

    All WORDS have to occur in a message. An argument with blanks is a phrase. Whole words come
    first, then the beginnings of words; where there is neither, what is inside of words.

    \b
    holdfast search flaky test               both words, in any order
    holdfast search "connection reset"       the phrase
    holdfast search TODO --role user --here --since 14d
    holdfast search panic --tool bash --json
    """
)
@click.argument("words", nargs=-1, required=True)
@click.option("--role", multiple=True, type=click.Choice(_ROLES), help="Only what they said.")
@click.option("--tool", multiple=True, metavar="NAME", help="Only calls and answers of this tool.")
@click.option("--model", multiple=True, metavar="NAME", help="Only with models of such a name.")
@click.option("--agent", multiple=True, metavar="NAME", help="Only sessions imported from it.")
@click.option("--workspace", metavar="DIR", help="Only sessions of this folder.")
@click.option("--here", is_flag=True, help="Only sessions of the current folder.")
@click.option("--since", type=SINCE, help="Said since: 14d, yesterday, 2026-11-01.")
@click.option("--until", type=UNTIL, help="Said until then; a day is in it.")
@click.option("--substring", is_flag=True, help="Also inside of words. Reads all files.")
@click.option("--newest", is_flag=True, help="Sessions updated last first, not the best match.")
@click.option("--limit", type=click.IntRange(1), default=20, help="At most so many (20).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(
    *,
    words: tuple[str, ...],
    substring: bool,
    newest: bool,
    limit: int,
    as_json: bool,
    **conditions: Any,
) -> None:
    """Search."""
    text = " ".join(_phrase(word) for word in words)
    where = _where(**conditions)
    store = holdfast.open_store()
    how: dict[str, Any] = {
        "order": "newest" if newest else "rank",
        "substring": True if substring else None,
    }
    with Bar("reading what is new") as bar:
        hits = store.search(text, limit=limit + 1, progress=bar, **how, **where)
        shown = hits[:limit]
        hidden = 0
        if where and len(hits) <= limit:
            if any(hit.depth == INSIDE for hit in shown):
                how["substring"] = True  # what they hide is what the same look would have found
            everything = store.search(text, limit=limit + _MOST_HIDDEN, progress=bar, **how)
            seen = {(hit.session, hit.seq) for hit in shown}
            hidden = sum((hit.session, hit.seq) not in seen for hit in everything)
    if as_json:
        for hit in shown:
            click.echo(dumps(msgspec.to_builtins(hit)))
    else:
        _show(shown)
    more, names = len(hits) > limit, _names(conditions)
    said = _said_hidden(len(shown), more=more, hidden=hidden, names=names)
    if said:
        click.echo(said, err=True)
    elif not shown and not as_json:
        click.echo(f"{counted(0, 'message')} found", err=True)
    if not shown:
        sys.exit(_NOTHING_FOUND)


def _phrase(word: str) -> str:
    return f'"{word}"' if len(word.split()) > 1 and '"' not in word else word


def _where(*, workspace: str | None, here: bool, **given: Any) -> dict[str, Any]:
    where = {name: value for name, value in given.items() if value not in (None, ())}
    if here and workspace is not None:
        raise click.UsageError("Give --here or --workspace, not both.")
    if here:
        try:
            where["workspace"] = Path.cwd()
        except FileNotFoundError:
            raise UsageError("The current folder is gone: go to another one.") from None
    elif workspace is not None:
        where["workspace"] = workspace
    return where


def _names(conditions: dict[str, Any]) -> list[str]:
    """Return the conditions that were given, as they were given."""
    return [f"--{name}" for name, value in conditions.items() if value not in (None, (), False)]


def _show(hits: list[holdfast.Hit]) -> None:
    colours = Colours()
    page((line for hit in hits for line in _lines(hit, colours)), colours)
    if hits:
        depth = " --depth everything" if any(map(_is_deep, hits)) else ""
        first = hits[0]
        shown = f"{first.session} --seq {first.seq}{depth}"
        click.echo(f"Read one with: holdfast show {shown}", err=True)


def _is_deep(hit: holdfast.Hit) -> bool:
    """Tell whether a hit is in what is left out, or cut, where not everything is shown."""
    return hit.kind not in ("text", "title") or hit.role == "system"


def _lines(hit: holdfast.Hit, colours: Colours) -> list[str]:
    who = hit.role if hit.tool is None else f"{hit.role} ({printable(hit.tool)})"
    title = cut(printable(hit.title or ""), _TITLE_WIDTH)
    head = f"{colours(hit.session, 'cyan')}  seq {hit.seq}  {who}  {_local(hit.at)}  {title}"
    return [head.rstrip(), f"    {_snippet(hit, colours)}"]


def _local(at: str) -> str:
    with suppress(ValueError, OverflowError, OSError):
        return f"{datetime.fromisoformat(at).astimezone():%Y-%m-%d %H:%M}"
    return printable(at) or "?"


def _snippet(hit: holdfast.Hit, colours: Colours) -> str:
    """Return a snippet on one line, with what was found in another colour."""
    text = printable(hit.snippet)  # character by character: the places stay what they are
    pieces, done = [], 0
    for start, end in hit.highlights:
        pieces += [_joined(text[done:start]), colours(_joined(text[start:end]), "bold", "yellow")]
        done = end
    pieces.append(_joined(text[done:]))
    before = "…" if hit.highlights and hit.highlights[0][0] >= _AROUND_CHARACTERS else ""
    after = "…" if len(text) - done >= _AROUND_CHARACTERS else ""
    return f"{before}{''.join(pieces).strip()}{after}"


def _joined(text: str) -> str:
    return _BLANKS.sub(" ", text)


def _said_hidden(shown: int, *, more: bool, hidden: int, names: list[str]) -> str:
    """Return what is not shown, and how to see it; nothing if everything is."""
    if more:
        return f"{shown} shown · there is more (--limit)"
    if hidden:
        some = f"{_MOST_HIDDEN} or more" if hidden >= _MOST_HIDDEN else str(hidden)
        return f"{shown} shown · {some} elsewhere (without {', '.join(names)})"
    return ""
