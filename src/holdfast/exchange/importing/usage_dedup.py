"""Requests are counted once, also if a source repeats them or is read again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import cast

from holdfast.model.entry import Usage
from holdfast.store.write.encode import ImportedEntry, encode_all

_MOST_REMEMBERED = 50_000


class Recount:
    """What was counted: by a session before, and by what has passed through since.

    Every request of the source passes through ``corrected``, also those that are left alone:
    requests without a key are told apart by nothing but their numbers. Of those that have passed
    the last fifty thousand keys are remembered.
    """

    def __init__(self, counted: Iterable[Usage] = ()) -> None:
        counted = list(counted)
        self._keyed: dict[str, Usage] = {}
        for usage in counted:
            self._add(usage)
        self._most = len(self._keyed) + _MOST_REMEMBERED
        self._others = Counter(_numbers(usage) for usage in counted if usage.request is None)

    def _add(self, usage: Usage) -> None:
        if key := usage.request:
            earlier = self._keyed.get(key)
            self._keyed[key] = usage if earlier is None else _sum(earlier, usage)

    def corrected(self, past: ImportedEntry) -> ImportedEntry | None:
        """Return what is still to be counted of a request, ``None`` if that is nothing."""
        usage = cast("Usage", past.draft[1])
        key = usage.request
        if key is None:
            if self._others[_numbers(usage)] > 0:
                self._others[_numbers(usage)] -= 1
                return None
            return past
        earlier = self._keyed.get(key)
        if earlier is None:
            self._add(usage)
            if len(self._keyed) > self._most:
                del self._keyed[next(iter(self._keyed))]
            return past
        rest = _difference(usage, earlier)
        if not any(_numbers(rest)[:4]) and not rest.cost_usd:
            return None
        self._add(rest)
        return ImportedEntry(past.seq, past.at, encode_all([rest])[0][0])


def _numbers(usage: Usage) -> tuple[int, int, int, int, str | None]:
    return usage.input, usage.output, usage.cache_read, usage.cache_write, usage.model


def _sum(one: Usage, other: Usage) -> Usage:
    a, b = _numbers(one), _numbers(other)
    known = [each.cost_usd for each in (one, other) if each.cost_usd is not None]
    cost = sum(known) if known else None
    return Usage(a[0] + b[0], a[1] + b[1], cost, a[2] + b[2], a[3] + b[3], one.model, one.request)


def _difference(now: Usage, earlier: Usage) -> Usage:
    a, b = _numbers(now), _numbers(earlier)
    less = [max(0, x - y) for x, y in zip(a[:4], b[:4], strict=True)]
    cost = None if now.cost_usd is None else max(0.0, now.cost_usd - (earlier.cost_usd or 0.0))
    return Usage(less[0], less[1], cost, less[2], less[3], now.model, now.request)
