"""Times as people type them: ``14d``, ``yesterday``, ``2026-11-01``.

A number with a unit is an age. A day is one of this machine's time zone and means its start; at the
end of a range it means its end, so ``--until yesterday`` includes all of yesterday.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

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


def parse_time(text: str, *, end: bool = False, now: datetime | None = None) -> datetime:
    """Return the time that a text means, in UTC.

    Args:
        text: an age (``90s``, ``30m``, ``12h``, ``14d``, ``2w``, ``6mo``, ``1y``), a day
            (``today``, ``yesterday``, ``monday``: the last one, ``2026-11-01``), a time
            (``2026-11-01 14:30``, with a zone or without), or ``now``.
        end: a day means its end.
        now: the current time; for tests.

    Raises:
        UsageError: the text is not a time.
    """
    given = text.strip().casefold()
    current = (now or datetime.now(UTC)).astimezone()
    try:
        found = _point(given, current, end=end)
        return found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text[:_LONGEST_SHOWN]!r} is not a time: use an age such as 14d, 12h or 30m, a "
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
    # Add a day to the date, not 24 hours: a day may have 23 or 25.
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
