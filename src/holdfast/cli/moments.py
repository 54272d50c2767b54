"""Points in time as people type them: ``14d``, ``yesterday``, ``2026-11-01``.

A number with a unit is that long ago. A day is one of this machine's time zone, and its beginning;
where a range ends, it is its end: ``--until yesterday`` has all of yesterday.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

import click

from holdfast.errors import UsageError

_AGE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([a-z]+)(?:\s+ago)?", re.ASCII)
_SECONDS = {
    ("s", "sec", "second", "seconds"): 1,
    ("m", "min", "minute", "minutes"): 60,
    ("h", "hour", "hours"): 3600,
    ("d", "day", "days"): 86_400,
    ("w", "week", "weeks"): 7 * 86_400,
    ("mo", "month", "months"): 30 * 86_400,
    ("y", "year", "years"): 365 * 86_400,
}
_UNITS = {name: seconds for names, seconds in _SECONDS.items() for name in names}
_DAYS = {"today": 0, "yesterday": 1}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_LONGEST_SHOWN = 40

if TYPE_CHECKING:
    _Type = click.ParamType[datetime]
else:
    _Type = click.ParamType  # older versions cannot be subscripted


def moment(text: str, *, end: bool = False, now: datetime | None = None) -> datetime:
    """Return the point in time that a text stands for, in UTC.

    Args:
        text: an age (``90s``, ``30m``, ``12h``, ``14d``, ``2w``, ``6mo``, ``1y``), a day
            (``today``, ``yesterday``, ``monday``: the last one, ``2026-11-01``), a time
            (``2026-11-01 14:30``, with a zone or without), or ``now``.
        end: take a day for its end.
        now: the time that counts as now.

    Raises:
        UsageError: it stands for none.
    """
    given = text.strip().casefold()
    current = (now or datetime.now(UTC)).astimezone()
    try:
        found = _point(given, current, end=end)
        return found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text[:_LONGEST_SHOWN]!r} is no point in time: use an age such as 14d, 12h or 30m, a "
            "day such as yesterday or 2026-11-01, or a time such as '2026-11-01 14:30'."
        ) from None


def _point(given: str, now: datetime, *, end: bool) -> datetime:
    if given == "now":
        return now
    if found := _AGE.fullmatch(given):
        if found[2] not in _UNITS:
            raise ValueError(given)
        return now - timedelta(seconds=float(found[1]) * _UNITS[found[2]])
    day = _day(given, now.date())
    if day is None:
        return datetime.fromisoformat(given.upper())
    # By way of the date, so that a day of 23 hours ends when it does.
    return datetime.combine(day + timedelta(days=1) if end else day, time.min)


def _day(given: str, today: date) -> date | None:
    if given in _DAYS:
        return today - timedelta(days=_DAYS[given])
    if given in _WEEKDAYS:
        return today - timedelta(days=(today.weekday() - _WEEKDAYS.index(given)) % 7 or 7)
    try:
        return date.fromisoformat(given)
    except ValueError:
        return None


class Moment(_Type):
    """The value of an option that is a point in time; its help says ``TIME``."""

    name = "time"

    def __init__(self, *, end: bool = False) -> None:
        self._end = end

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Return the point in time."""
        if isinstance(value, datetime):
            return value
        try:
            return moment(str(value), end=self._end)
        except UsageError as error:
            self.fail(str(error), param, ctx)


SINCE, UNTIL = Moment(), Moment(end=True)
"""Types for ``--since`` and ``--until``."""
