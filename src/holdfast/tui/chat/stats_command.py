"""``/stats`` in the chat: the tables of ``holdfast stats``."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.errors import UsageError
from holdfast.keeper.stats import DIMENSIONS, Statistics, read_statistics
from holdfast.keeper.stats_chart import chart_lines
from holdfast.keeper.times import parse_time

if TYPE_CHECKING:
    from holdfast.tui.chat.chat import Chat

_USAGE = "/stats [--by day|model|project|agent] [--since TIME] [--until TIME] [--all]"


class StatsOptions(Struct, frozen=True):
    """The options of ``/stats``; they mean the same as those of ``holdfast stats``."""

    by: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    everything: bool = False


def stats_options(argument: str) -> StatsOptions:
    """Return the options in a text.

    Raises:
        UsageError: an option is not known, or its value is missing or not valid.
    """
    given: dict[str, str] = {}
    words = iter(argument.split())
    everything = False
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--all":
            everything = True
        elif name in ("--by", "--since", "--until"):
            given[name] = value if equals else next(words, "")
        else:
            raise UsageError(f"{word} is not an option of /stats. Use: {_USAGE}")
    by, since, until = (given.get(name) for name in ("--by", "--since", "--until"))
    if by is not None and by not in DIMENSIONS:
        raise UsageError(f"{by!r} is not a table of /stats. Use: {_USAGE}")
    return StatsOptions(
        by,
        None if since is None else parse_time(since),
        None if until is None else parse_time(until, end=True),
        everything,
    )


async def show_stats(chat: Chat, argument: str) -> None:
    """Show statistics of all sessions.

    Raises:
        UsageError: the options are not valid.
    """
    options = stats_options(argument)

    def read() -> Statistics:
        return read_statistics(chat.store, by=options.by, since=options.since, until=options.until)

    found = await asyncio.to_thread(read)
    width = chat.renderer().width - 2  # a note begins with a mark
    for line in chart_lines(found, width=width, everything=options.everything):
        chat.note(line)
