"""Looking into decoded JSON that anybody may have written: the right type, or nothing.

No function here raises, whatever the value; an importer that uses them cannot be brought down by a
line of an unexpected shape.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from holdfast.model.codec import loads

_CANONICAL_LENGTH = len("2026-11-15T19:40:12.001Z")
_SIGNS = "--T::."  # every third character of such a time, from the fifth on
_LARGEST_COUNT = 10**15
_LARGEST_AMOUNT = 10**9
_MILLISECONDS_FROM = 10**11  # as seconds this is the year 5138
_MICROSECONDS_FROM = 10**14
_YEAR_SIGN = ("1", "2")


def text(value: Any, name: str) -> str:
    """Return the field if it is a string, else an empty one."""
    found = value.get(name) if type(value) is dict else None
    return found if type(found) is str else ""


def record(value: Any, name: str) -> dict[str, Any]:
    """Return the field if it is an object, else an empty one."""
    found = value.get(name) if type(value) is dict else None
    return found if type(found) is dict else {}


def rows(value: Any, name: str) -> list[Any]:
    """Return the field if it is a list, else an empty one."""
    found = value.get(name) if type(value) is dict else None
    return found if type(found) is list else []


def records(value: Any, name: str) -> list[dict[str, Any]]:
    """Return the objects of the field, if it is a list."""
    return [each for each in rows(value, name) if type(each) is dict]


def count(value: Any, name: str) -> int:
    """Return the field if it is a number of things, else 0."""
    found = value.get(name) if type(value) is dict else None
    if type(found) is int:
        return found if 0 <= found < _LARGEST_COUNT else 0
    if type(found) is float and 0 <= found < _LARGEST_COUNT:
        return int(found)
    return 0


def amount(value: Any, name: str) -> float | None:
    """Return the field if it is a sum of money, else ``None``."""
    found = value.get(name) if type(value) is dict else None
    if type(found) not in (int, float) or found is None:
        return None
    return float(found) if 0 <= found < _LARGEST_AMOUNT else None


def parsed(value: Any) -> Any:
    """Return what JSON inside a string says; a string that is not JSON, as it is.

    Arguments of tool calls come like this.
    """
    if type(value) is not str:
        return value
    try:
        return loads(value.encode("utf-8", "surrogatepass")) if value.strip() else {}
    except (ValueError, RecursionError):
        return value


def parse_time(value: Any) -> str | None:
    """Return a time as it stands in entries, from ISO text or from a number since 1970.

    A time without a zone is taken as UTC. ``None`` if it is no time.
    """
    try:
        if type(value) is str:
            return _from_text(value)
        if type(value) in (int, float):
            if value >= _MICROSECONDS_FROM:
                value /= 1_000_000
            elif value >= _MILLISECONDS_FROM:
                value /= 1000
            return _written(datetime.fromtimestamp(value, UTC)) if value > 0 else None
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _from_text(value: str) -> str | None:
    there = datetime.fromisoformat(value)
    if len(value) == _CANONICAL_LENGTH and value[4:20:3] == _SIGNS and value[23] == "Z":
        return value if value.startswith(_YEAR_SIGN) else None
    if there.tzinfo is None:
        there = there.replace(tzinfo=UTC)
    return _written(there.astimezone(UTC))


def _written(there: datetime) -> str | None:
    written = there.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
    return written if written.startswith(_YEAR_SIGN) else None
