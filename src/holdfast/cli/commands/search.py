"""``holdfast search``: find messages in all sessions."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

import holdfast
from holdfast.cli.ui.filter_options import SINCE, UNTIL
from holdfast.errors import UsageError
from holdfast.keeper.text import counted, cut, local_time, printable
from holdfast.model.codec import dumps
from holdfast.store.search.query import INSIDE
from holdfast.tui.tty import Bar, Colours, page

_ROLES = ("user", "assistant", "tool", "system", "title")
_TITLE_WIDTH = 50
_MOST_HIDDEN = 100
_AROUND_CHARACTERS = 60
_NOTHING_FOUND = 1
_BLANKS = re.compile(r"\s+")


@click.command(
    help="""Search all sessions: messages, thinking, tool input and output, and titles.

    A message matches if it contains all WORDS. An argument with spaces is a phrase. Whole words
    rank first, then beginnings of words. Without such matches, matches inside words are shown.

    \b
    holdfast search flaky test               both words, in any order
    holdfast search "connection reset"       the phrase
    holdfast search TODO --role user --here --since 14d
    holdfast search panic --tool bash --json
    """
)
@click.argument("words", nargs=-1, required=True)
@click.option(
    "--role", multiple=True, type=click.Choice(_ROLES), help="Only messages of this role."
)
@click.option("--tool", multiple=True, metavar="NAME", help="Only calls and results of this tool.")
@click.option(
    "--model", multiple=True, metavar="NAME", help="Only models whose name contains NAME."
)
@click.option(
    "--agent", multiple=True, metavar="NAME", help="Only sessions imported from this agent."
)
@click.option("--workspace", metavar="DIR", help="Only sessions in this folder.")
@click.option("--here", is_flag=True, help="Only sessions in the current folder.")
@click.option("--since", type=SINCE, help="Written on or after: 14d, yesterday, 2026-11-01.")
@click.option("--until", type=UNTIL, help="Written on or before this date.")
@click.option("--substring", is_flag=True, help="Also match inside words (reads all sessions).")
@click.option("--newest", is_flag=True, help="Sort by last update, not by best match.")
@click.option(
    "--limit", type=click.IntRange(1), default=20, metavar="N", help="Show at most N (default 20)."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
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
    with Bar("indexing new sessions") as bar:
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
    hidden_note = _hidden_note(len(shown), more=more, hidden=hidden, names=names)
    if hidden_note:
        click.echo(hidden_note, err=True)
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
            raise UsageError(
                "The current folder no longer exists. Change to another folder."
            ) from None
    elif workspace is not None:
        where["workspace"] = workspace
    return where


def _names(conditions: dict[str, Any]) -> list[str]:
    """Return the options that limited the search."""
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
    """Return whether ``holdfast show`` hides or shortens the hit without ``--depth everything``."""
    return hit.kind not in ("text", "title") or hit.role == "system"


def _lines(hit: holdfast.Hit, colours: Colours) -> list[str]:
    who = hit.role if hit.tool is None else f"{hit.role} ({printable(hit.tool)})"
    title = cut(printable(hit.title or ""), _TITLE_WIDTH)
    at = local_time(hit.at, seconds=False)
    head = f"{colours(hit.session, 'cyan')}  seq {hit.seq}  {who}  {at}  {title}"
    return [head.rstrip(), f"    {_snippet(hit, colours)}"]


def _snippet(hit: holdfast.Hit, colours: Colours) -> str:
    """Return a snippet on one line, with the matches in another colour."""
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


def _hidden_note(shown: int, *, more: bool, hidden: int, names: list[str]) -> str:
    """Return how many hits are hidden, and how to see them; empty if none is."""
    if more:
        return f"{shown} shown · there is more (--limit)"
    if hidden:
        some = f"{_MOST_HIDDEN} or more" if hidden >= _MOST_HIDDEN else str(hidden)
        return f"{shown} shown · {some} elsewhere (without {', '.join(names)})"
    return ""
