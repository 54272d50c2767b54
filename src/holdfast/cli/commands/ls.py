"""``holdfast ls``: list sessions."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import click
import msgspec

from holdfast.cli.ui.filter_options import HomePages, filter_from, filter_options
from holdfast.keeper.filters import Selection, SessionFilter, select_sessions
from holdfast.keeper.text import age, cut, padded, printable, width_of
from holdfast.store.types import CLEAN, DAMAGED, INTERRUPTED, RUNNING, Summary
from holdfast.tui.tty import Colours, on_a_terminal, page, screen

_TITLE_WIDTH = 50
_LEAST_TITLE_WIDTH = 20
_ID_WIDTH = 24
_SHORT_WIDTH = _ID_WIDTH + 2 + 11 + 2 + 6 + 2
_WIDTHS = {"age": 5, "cost": 9, "model": 20, "folder": 16}
_FOREIGN = "[foreign]"
_DISPENSABLE = ("model", "folder", "cost", "age")
_COLOURS = {CLEAN: (), RUNNING: ("green",), INTERRUPTED: ("yellow",), DAMAGED: ("red",)}


@click.command(
    help="""List sessions, most recently updated first. Damaged sessions are listed, too.

    \b
    holdfast ls                          # the most recent, of all folders
    holdfast ls --here --since 14d       # in this folder, last two weeks
    holdfast ls --state interrupted -l   # interrupted ones, with model and cost

    On a narrow terminal -l leaves out columns that do not fit: first the model, then the folder,
    the cost and the age.
    """
)
@click.option(
    "--limit", type=click.IntRange(0), default=20, metavar="N", help="Show at most N (default 20)."
)
@click.option("--all", "everything", is_flag=True, help="Show all, without a limit.")
@filter_options
@click.option("-l", "--long", "wide", is_flag=True, help="Add age, cost, model, folder and tags.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(*, limit: int, everything: bool, wide: bool, as_json: bool, **conditions: Any) -> None:
    """List sessions."""
    wanted = filter_from(**conditions)
    found = select_sessions(HomePages(), wanted, None if everything else limit)
    if as_json:
        from holdfast.model.codec import dumps  # noqa: PLC0415  costs as much as the list

        for summary in found.sessions:
            click.echo(dumps(msgspec.to_builtins(msgspec.structs.asdict(summary))))
    else:
        colours = Colours()
        lines = _wide_list(found, colours) if wide else _list(found, colours)
        page(lines, colours)
    hidden = _hidden_note(found, wanted)
    if hidden:
        click.echo(hidden, err=True)


def _hidden_note(found: Selection, wanted: SessionFilter) -> str:
    """Return how many sessions the list hides, and how to see them; empty if it hides none."""
    parts = []
    if found.beyond_limit:
        parts.append(f"{found.beyond_limit} more (--all)")
    if found.elsewhere and wanted.workspace is not None:
        parts.append(f"{found.elsewhere} in other folders (without --here)")
    elif found.elsewhere:
        parts.append(f"{found.elsewhere} of other projects (without --project)")
    if found.unmatched:
        parts.append(f"{found.unmatched} that do not match ({_conditions(wanted)})")
    return " · ".join([f"{len(found.sessions)} shown", *parts]) if parts else ""


def _conditions(wanted: SessionFilter) -> str:
    given = {
        "--since": wanted.since,
        "--until": wanted.until,
        "--tag": wanted.tags,
        "--state": wanted.state,
    }
    return ", ".join(name for name, value in given.items() if value)


def _title_width(taken: int) -> int:
    return max(screen()[1] - taken, _LEAST_TITLE_WIDTH) if on_a_terminal() else _TITLE_WIDTH


def _list(found: Selection, colours: Colours) -> list[str]:
    width = _title_width(_SHORT_WIDTH)
    return [
        f"{summary.id}  {_state(summary, colours)}  {summary.messages:6}  "
        f"{cut(_title(summary), width)}"
        for summary in found.sessions
    ]


def _state(summary: Summary, colours: Colours) -> str:
    return colours(f"{summary.state:11}", *_COLOURS.get(summary.state, ()))


def _title(summary: Summary) -> str:
    said = printable(summary.problem or summary.title or "")
    return f"{_FOREIGN} {said}" if summary.foreign else said


def _wide_list(found: Selection, colours: Colours) -> list[str]:
    if not found.sessions:
        return []
    names = _columns()
    width = _title_width(_SHORT_WIDTH + sum(_WIDTHS[name] + 2 for name in names))
    head = {name: _aligned(name, name) for name in names}
    first = f"{'session':{_ID_WIDTH}}  {'state':11}  {'msgs':>6}"
    lines = [colours("  ".join([first, *head.values(), "title"]), "bold")]
    for summary in found.sessions:
        tags = "".join(f" #{printable(tag)}" for tag in summary.tags)
        if on_a_terminal():
            tags = cut(tags, width // 2)
        title = cut(_title(summary), max(width - width_of(tags), _LEAST_TITLE_WIDTH // 2))
        facts = _facts(summary)
        cells = [
            f"{padded(summary.id, _ID_WIDTH)}  {_state(summary, colours)}  {summary.messages:6}",
            *(_aligned(name, facts[name]) for name in names),
            f"{title}{colours(tags, 'cyan')}",
        ]
        lines.append("  ".join(cells))
    return lines


def _columns() -> list[str]:
    """Return the columns that fit beside a title."""
    names = list(_WIDTHS)
    room = screen()[1] - _SHORT_WIDTH - _LEAST_TITLE_WIDTH
    for name in _DISPENSABLE if on_a_terminal() else ():
        if sum(_WIDTHS[each] + 2 for each in names) > room:
            names.remove(name)
    return names


def _facts(summary: Summary) -> dict[str, str]:
    return {
        "age": age(summary.updated),
        "cost": f"${summary.cost_usd:.4f}" if summary.cost_usd else "–",
        "model": printable(summary.model or "–"),
        "folder": printable(PurePath(summary.workspace or "–").name),
    }


def _aligned(name: str, text: str) -> str:
    width = _WIDTHS[name]
    return f"{text:>{width}}" if name in ("age", "cost") else padded(text, width)
