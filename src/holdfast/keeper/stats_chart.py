"""Statistics as lines of text with bars, for any terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Protocol

from holdfast.keeper.stats import UNKNOWN, LongSession, Statistics, Sums
from holdfast.keeper.text import counted, cut, padded, printable

_MOST_ROWS = 14
_NAME_WIDTH = 28
_LEAST_BAR, _MOST_BAR = 8, 40
_BESIDE_WIDTH = _NAME_WIDTH + 42
_EIGHTHS, _ASCII = " ▏▎▍▌▋▊▉█", " #"


class Style(Protocol):
    """Adds colours to text, or returns it as it is."""

    def __call__(self, text: str, *names: str) -> str:
        """Return the text in a colour, bold or dim."""
        ...


def unstyled(text: str, *_: str) -> str:
    """Return text without colours."""
    return text


def chart_lines(
    statistics: Statistics,
    *,
    width: int | None = None,
    encoding: str = "utf-8",
    everything: bool = False,
    style: Style = unstyled,
) -> Iterator[str]:
    """Yield totals, a table with bars per dimension, and the longest sessions.

    Args:
        statistics: what to show.
        width: columns of the terminal; ``None`` if the output is not a terminal.
        encoding: bars are drawn with ``#`` if it lacks block characters.
        everything: show all rows of the tables.
        style: adds colours.
    """
    yield from _totals(statistics.total)
    bars = _Bars(_BESIDE_WIDTH + _MOST_BAR if width is None else width, encoding)
    for name, rows in statistics.tables.items():
        if rows:
            yield ""
            yield style(f"by {name}", "bold")
            yield from _rows(rows if everything else rows[:_MOST_ROWS], bars, style)
            if not everything and len(rows) > _MOST_ROWS:
                yield f"{_MOST_ROWS} shown · {len(rows) - _MOST_ROWS} more (--all)"
    if statistics.longest:
        yield ""
        yield style("longest", "bold")
    for each in statistics.longest:
        yield _long_session(each, style)


def _totals(total: Sums) -> Iterator[str]:
    yield (
        f"{counted(len(total.sessions), 'session')} · {counted(total.turns, 'turn')} · "
        f"{counted(total.prompts, 'prompt')} · {counted(total.messages, 'message')} · "
        f"{counted(total.requests, 'request')}"
    )
    yield (
        f"{short_number(total.input)} tokens in · {short_number(total.output)} out · "
        f"{short_number(total.cache_read)} read from caches · "
        f"{short_number(total.cache_write)} written to them"
    )
    unpriced = f" · {counted(total.unpriced, 'request')} without a price" if total.unpriced else ""
    yield f"${total.cost_usd:,.2f}{unpriced}"


class _Bars:
    """Bars as wide as the terminal allows."""

    def __init__(self, width: int, encoding: str) -> None:
        self._width = min(max(width - _BESIDE_WIDTH, _LEAST_BAR), _MOST_BAR)
        self._blocks = _EIGHTHS if _can_encode(_EIGHTHS, encoding) else _ASCII

    def bar(self, amount: int, largest: int) -> str:
        """Return a bar for an amount, padded to the width of the largest."""
        parts = len(self._blocks) - 1
        length = round(self._width * parts * amount / largest) if largest else 0
        whole, rest = divmod(max(length, 1) if amount else 0, parts)
        return padded(self._blocks[-1] * whole + (self._blocks[rest] if rest else ""), self._width)


def _rows(rows: list[Sums], bars: _Bars, style: Style) -> Iterator[str]:
    largest = max(row.tokens for row in rows)
    for row in rows:
        name = PurePath(row.name).name if row.name.startswith("/") else row.name
        cost = _cost(row.cost_usd, row.unpriced)
        yield (
            f"{padded(printable(name) or UNKNOWN, _NAME_WIDTH)} "
            f"{style(bars.bar(row.tokens, largest), 'green')} "
            f"{short_number(row.tokens):>6} {cost:>10}  {counted(len(row.sessions), 'session')}"
        )


def _long_session(each: LongSession, style: Style) -> str:
    title = cut(printable(each.title or ""), _NAME_WIDTH)
    return (
        f"{style(each.session, 'cyan')}  {each.messages:6,} messages  "
        f"{short_number(each.tokens):>6} tokens  {_cost(each.cost_usd, each.unpriced):>9}  {title}"
    )


def _cost(cost_usd: float, unpriced: int) -> str:
    return f"${cost_usd:,.2f}" if cost_usd or not unpriced else UNKNOWN


def _can_encode(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def short_number(number: int) -> str:
    """Return a number in few characters: ``950``, ``12.3k``, ``4.5M``."""
    amount, units = float(number), iter("kMGT")
    unit = ""
    while amount >= 999.5 and (larger := next(units, None)) is not None:
        amount, unit = amount / 1000, larger
    return f"{amount:.1f}{unit}" if unit and amount < 99.5 else f"{amount:.0f}{unit}"
