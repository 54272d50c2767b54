"""``holdfast stats``: what was done, and what it cost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import PurePath
from typing import Any

import click
import msgspec
from msgspec import Struct, field

import holdfast
from holdfast.cli.colours import Colours, on_a_terminal
from holdfast.cli.columns import counted, cut, padded, printable, screen
from holdfast.cli.moments import SINCE, UNTIL
from holdfast.cli.pager import page
from holdfast.cli.progress import Bar
from holdfast.model.codec import dumps
from holdfast.store.contract import Summary, stamp
from holdfast.store.documents import COUNTS, Activity, quarter_of

_DIMENSIONS = ("day", "model", "project", "agent")
_NOT_KNOWN = "?"
_MOST_ROWS = 14
_MOST_SESSIONS = 5
_NAME_WIDTH = 28
_LEAST_BAR, _MOST_BAR = 8, 40
_BESIDE_WIDTH = _NAME_WIDTH + 42
_EIGHTHS = " ▏▎▍▌▋▊▉█"


class Sums(Struct):
    """What was counted under one name."""

    name: str
    sessions: set[str] = field(default_factory=set)
    requests: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    messages: int = 0
    prompts: int = 0
    turns: int = 0

    def add(self, activity: Activity) -> None:
        """Count some activity."""
        self.sessions.add(activity.session)
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(activity, name))

    @property
    def tokens(self) -> int:
        """All tokens, read from a cache or not."""
        return self.input + self.output + self.cache_read + self.cache_write

    def fields(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {**msgspec.structs.asdict(self), "sessions": len(self.sessions)}


@click.command(
    help="""Show what was done, and what it cost: by day, model, project and agent.

    \b
    holdfast stats --since 14d          the last two weeks
    holdfast stats --by model           one table only
    holdfast stats --json               everything, as one object

    Days are those of this machine's time zone. Cost counts requests whose price is known. A project
    is a git project, or a folder. A turn is what an agent of Holdfast did about a prompt; imported
    sessions have prompts alone. What a fork has copied is counted once, with the session that it
    comes from.
    """
)
@click.option("--by", type=click.Choice(_DIMENSIONS), help="Only this table.")
@click.option("--since", type=SINCE, help="Since: 14d, yesterday, 2026-11-01.")
@click.option("--until", type=UNTIL, help="Until then; a day is in it.")
@click.option("--all", "everything", is_flag=True, help="All rows of the tables.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    *,
    by: str | None,
    since: datetime | None,
    until: datetime | None,
    everything: bool,
    as_json: bool,
) -> None:
    """Show statistics."""
    store = holdfast.open_store()
    with Bar("reading what is new") as bar:
        activities = _between(store.activity(progress=bar), since, until)
    dimensions = _DIMENSIONS if by is None else (by,)
    tables = {name: _table(activities, name) for name in dimensions}
    total = Sums("total")
    for each in activities:
        total.add(each)
    longest = _longest(activities, {each.id: each for each in store.list()})
    if as_json:
        shown = {
            "since": None if since is None else stamp(since),
            "until": None if until is None else stamp(until),
            "total": total.fields(),
            "by": {name: [row.fields() for row in rows] for name, rows in tables.items()},
            "longest": longest,
        }
        click.echo(dumps(shown))
        return
    colours = Colours()
    page(_report(total, tables, longest, colours, None if everything else _MOST_ROWS), colours)


def _between(
    activities: Iterable[Activity], since: datetime | None, until: datetime | None
) -> list[Activity]:
    """Return what happened in a time, to the quarter of an hour."""
    first = "" if since is None else quarter_of(stamp(since))
    last = "~" if until is None else stamp(until)
    return [each for each in activities if first <= each.at < last]


def _day(activity: Activity) -> str:
    try:
        return f"{datetime.fromisoformat(f'{activity.at}:00+00:00').astimezone():%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return _NOT_KNOWN


_KEYS: dict[str, Callable[[Activity], str | None]] = {
    "day": _day,
    "model": lambda activity: activity.model,
    "project": lambda activity: activity.project or activity.workspace or "",
    "agent": lambda activity: activity.agent,
}


def _table(activities: list[Activity], dimension: str) -> list[Sums]:
    """Return rows, the newest day or the most tokens first. What has no model is in none."""
    rows: dict[str, Sums] = {}
    for activity in activities:
        name = _KEYS[dimension](activity)
        if name is not None:
            rows.setdefault(name or _NOT_KNOWN, Sums(name or _NOT_KNOWN)).add(activity)
    if dimension == "day":
        return sorted(rows.values(), key=lambda row: row.name, reverse=True)
    return sorted(rows.values(), key=lambda row: (-row.tokens, -row.messages, row.name))


def _longest(activities: list[Activity], summaries: dict[str, Summary]) -> list[dict[str, Any]]:
    """Return the sessions with the most messages."""
    rows: dict[str, Sums] = {}
    for each in activities:
        rows.setdefault(each.session, Sums(each.session)).add(each)
    found = [row for row in rows.values() if row.messages or row.requests]  # else it only forked
    most = sorted(found, key=lambda row: (-row.messages, row.name))[:_MOST_SESSIONS]
    return [
        {
            "session": row.name,
            "title": summaries[row.name].title if row.name in summaries else None,
            "messages": row.messages,
            "prompts": row.prompts,
            "turns": row.turns,
            "tokens": row.tokens,
            "cost_usd": row.cost_usd,
            "unpriced": row.unpriced,
        }
        for row in most
    ]


# On a screen


def _report(
    total: Sums,
    tables: dict[str, list[Sums]],
    longest: list[dict[str, Any]],
    colours: Colours,
    most: int | None,
) -> Iterator[str]:
    yield (
        f"{counted(len(total.sessions), 'session')} · {counted(total.turns, 'turn')} · "
        f"{counted(total.prompts, 'prompt')} · {counted(total.messages, 'message')} · "
        f"{counted(total.requests, 'request')}"
    )
    yield (
        f"{short(total.input)} tokens in · {short(total.output)} out · "
        f"{short(total.cache_read)} read from caches · {short(total.cache_write)} written to them"
    )
    unpriced = f" · {counted(total.unpriced, 'request')} without a price" if total.unpriced else ""
    yield f"${total.cost_usd:,.2f}{unpriced}"
    chart = _Chart()
    for name, rows in tables.items():
        if rows:
            yield f"\n{colours(f'by {name}', 'bold')}"
            shown = rows[:most]
            largest = max(row.tokens for row in shown)
            for row in shown:
                yield chart.line(row, largest, colours)
            if len(rows) > len(shown):
                yield f"{len(shown)} shown · {len(rows) - len(shown)} more (--all)"
    if longest:
        yield f"\n{colours('longest', 'bold')}"
    for each in longest:
        title = cut(printable(each["title"] or ""), _NAME_WIDTH)
        cost = _cost(each["cost_usd"], each["unpriced"])
        yield (
            f"{colours(each['session'], 'cyan')}  {each['messages']:6,} messages  "
            f"{short(each['tokens']):>6} tokens  {cost:>9}  {title}"
        )


class _Chart:
    """Bars as wide as there is room for; of plain characters where others cannot be shown."""

    def __init__(self) -> None:
        width = screen()[1] if on_a_terminal() else _BESIDE_WIDTH + _MOST_BAR
        self._width = min(max(width - _BESIDE_WIDTH, _LEAST_BAR), _MOST_BAR)
        self._blocks = _EIGHTHS if _can_show(_EIGHTHS) else " #"

    def line(self, row: Sums, largest: int, colours: Colours) -> str:
        """Return a row with its bar."""
        name = PurePath(row.name).name if row.name.startswith("/") else row.name
        cost = _cost(row.cost_usd, row.unpriced)
        sessions = counted(len(row.sessions), "session")
        bar = padded(self._bar(row.tokens, largest), self._width)
        return (
            f"{padded(printable(name) or _NOT_KNOWN, _NAME_WIDTH)} {colours(bar, 'green')} "
            f"{short(row.tokens):>6} {cost:>10}  {sessions}"
        )

    def _bar(self, amount: int, largest: int) -> str:
        parts = len(self._blocks) - 1
        length = round(self._width * parts * amount / largest) if largest else 0
        whole, rest = divmod(max(length, 1) if amount else 0, parts)
        return self._blocks[-1] * whole + (self._blocks[rest] if rest else "")


def _cost(cost_usd: float, unpriced: int) -> str:
    return f"${cost_usd:,.2f}" if cost_usd or not unpriced else _NOT_KNOWN


def _can_show(text: str) -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def short(number: int) -> str:
    """Return a number in few characters: ``950``, ``12.3k``, ``4.5M``."""
    amount, units = float(number), iter("kMGT")
    unit = ""
    while amount >= 999.5 and (larger := next(units, None)) is not None:
        amount, unit = amount / 1000, larger
    return f"{amount:.1f}{unit}" if unit and amount < 99.5 else f"{amount:.0f}{unit}"
