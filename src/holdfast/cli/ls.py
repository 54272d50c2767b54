"""``holdfast ls``: what sessions there are."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

import click
import msgspec

from holdfast.cli.choosing import Choice, Chosen, choosing, chosen
from holdfast.cli.colours import Colours, on_a_terminal
from holdfast.cli.columns import cut, padded, printable, screen, width_of
from holdfast.cli.pager import page
from holdfast.store.contract import CLEAN, DAMAGED, INTERRUPTED, RUNNING, Summary

__all__ = ["command", "printable"]

_TITLE_WIDTH = 50
_LEAST_TITLE_WIDTH = 20
_ID_WIDTH = 24
_SHORT_WIDTH = _ID_WIDTH + 2 + 11 + 2 + 6 + 2
_WIDTHS = {"age": 5, "cost": 9, "model": 20, "folder": 16}
_DISPENSABLE = ("model", "folder", "cost", "age")
_COLOURS = {CLEAN: (), RUNNING: ("green",), INTERRUPTED: ("yellow",), DAMAGED: ("red",)}
_AGES = ((86_400 * 365, "y"), (86_400 * 7, "w"), (86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


@click.command(
    help="""List sessions, last updated first. Damaged ones are shown, never hidden.

    \b
    holdfast ls                          # the newest, of every folder
    holdfast ls --here --since 14d       # of this folder, of two weeks
    holdfast ls --state interrupted -l   # what broke off, with model and cost

    On a narrow terminal -l leaves out what there is no room for: first the model, then the folder,
    the cost and the age.
    """
)
@click.option("--limit", type=click.IntRange(0), default=20, help="At most so many (20).")
@click.option("--all", "everything", is_flag=True, help="Every session, without a limit.")
@choosing
@click.option("-l", "--long", "wide", is_flag=True, help="Also age, cost, model, folder and tags.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(*, limit: int, everything: bool, wide: bool, as_json: bool, **conditions: Any) -> None:
    """List sessions."""
    choice = Choice(**conditions)
    found = chosen(choice, None if everything else limit)
    if as_json:
        from holdfast.model.codec import dumps  # noqa: PLC0415  costs as much as the list

        for summary in found.sessions:
            click.echo(dumps(msgspec.to_builtins(msgspec.structs.asdict(summary))))
    else:
        colours = Colours()
        lines = _wide_list(found, colours) if wide else _list(found, colours)
        page(lines, colours)
    hidden = _said_hidden(found, choice)
    if hidden:
        click.echo(hidden, err=True)


def _said_hidden(found: Chosen, choice: Choice) -> str:
    """Return what a list does not show, and how to see it; nothing if it shows everything."""
    said = []
    if found.more:
        said.append(f"{found.more} more (--all)")
    if found.elsewhere and choice.here:
        said.append(f"{found.elsewhere} in other folders (without --here)")
    elif found.elsewhere:
        said.append(f"{found.elsewhere} of other projects (without --project)")
    if found.otherwise:
        said.append(f"{found.otherwise} that do not fit ({_conditions(choice)})")
    return " · ".join([f"{len(found.sessions)} shown", *said]) if said else ""


def _conditions(choice: Choice) -> str:
    given = {
        "--since": choice.since,
        "--until": choice.until,
        "--tag": choice.tags,
        "--state": choice.state,
    }
    return ", ".join(name for name, value in given.items() if value)


def _title_width(taken: int) -> int:
    return max(screen()[1] - taken, _LEAST_TITLE_WIDTH) if on_a_terminal() else _TITLE_WIDTH


def _list(found: Chosen, colours: Colours) -> list[str]:
    width = _title_width(_SHORT_WIDTH)
    return [
        f"{summary.id}  {_state(summary, colours)}  {summary.messages:6}  "
        f"{cut(_title(summary), width)}"
        for summary in found.sessions
    ]


def _state(summary: Summary, colours: Colours) -> str:
    return colours(f"{summary.state:11}", *_COLOURS.get(summary.state, ()))


def _title(summary: Summary) -> str:
    return printable(summary.problem or summary.title or "")


def _wide_list(found: Chosen, colours: Colours) -> list[str]:
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
    """Return the columns for which there is room beside a title."""
    names = list(_WIDTHS)
    room = screen()[1] - _SHORT_WIDTH - _LEAST_TITLE_WIDTH
    for name in _DISPENSABLE if on_a_terminal() else ():
        if sum(_WIDTHS[each] + 2 for each in names) > room:
            names.remove(name)
    return names


def _facts(summary: Summary) -> dict[str, str]:
    return {
        "age": _age(summary.updated),
        "cost": f"${summary.cost_usd:.4f}" if summary.cost_usd else "–",
        "model": printable(summary.model or "–"),
        "folder": printable(PurePath(summary.workspace or "–").name),
    }


def _aligned(name: str, text: str) -> str:
    width = _WIDTHS[name]
    return f"{text:>{width}}" if name in ("age", "cost") else padded(text, width)


def _age(updated: str) -> str:
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(updated)).total_seconds()
    except (ValueError, TypeError):
        return "?"
    return next((f"{int(seconds // size)}{unit}" for size, unit in _AGES if seconds >= size), "now")
