"""Times on the command line: option types, ages, and local times."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from holdfast.errors import UsageError
from holdfast.keeper.text import printable
from holdfast.keeper.times import parse_time

_AGES = ((86_400 * 365, "y"), (86_400 * 7, "w"), (86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))

if TYPE_CHECKING:
    _Type = click.ParamType[datetime]
else:
    _Type = click.ParamType  # older versions cannot be subscripted


class Moment(_Type):
    """An option whose value is a time; its help says ``TIME``."""

    name = "time"

    def __init__(self, *, end: bool = False) -> None:
        self._end = end

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Return the time that was typed."""
        if isinstance(value, datetime):
            return value
        try:
            return parse_time(str(value), end=self._end)
        except UsageError as error:
            self.fail(str(error), param, ctx)


SINCE, UNTIL = Moment(), Moment(end=True)
"""Types for ``--since`` and ``--until``."""


def age(at: str | None) -> str:
    """Return how long ago a recorded time was: ``3m``, ``5h``, ``2w``; ``?`` if it is no time."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(at or "")).total_seconds()
    except (ValueError, TypeError):
        return "?"
    return next((f"{int(seconds // size)}{unit}" for size, unit in _AGES if seconds >= size), "now")


def local_time(at: str, *, seconds: bool = True) -> str:
    """Return a recorded time in this machine's time zone."""
    with suppress(ValueError, OverflowError, OSError):
        there = datetime.fromisoformat(at).astimezone()
        return f"{there:%Y-%m-%d %H:%M:%S}" if seconds else f"{there:%Y-%m-%d %H:%M}"
    return printable(at) or "?"
