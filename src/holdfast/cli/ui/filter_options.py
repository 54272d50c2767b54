"""The options that select sessions by time, folder, project, tag and state, the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.cli.ui.complete import complete_tag
from holdfast.errors import UsageError
from holdfast.keeper.filters import SessionFilter
from holdfast.keeper.times import parse_time
from holdfast.store.catalog.index import page_of_default_home
from holdfast.store.types import CLEAN, DAMAGED, INTERRUPTED, RUNNING, Page

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

_Command = TypeVar("_Command", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--here", is_flag=True, help="Only sessions in this folder."),
    click.option(
        "--project", metavar="DIR", help="Only sessions of this git project, in any folder."
    ),
    click.option("--since", type=SINCE, help="Updated on or after: 14d, yesterday, 2026-11-01."),
    click.option("--until", type=UNTIL, help="Updated on or before this date."),
    click.option(
        "--tag",
        "tags",
        multiple=True,
        metavar="TAG",
        shell_complete=complete_tag,
        help="Only sessions with this tag.",
    ),
    click.option(
        "--state",
        type=click.Choice([CLEAN, RUNNING, INTERRUPTED, DAMAGED]),
        help="Only sessions in this state.",
    ),
)


def filter_options(command: _Command) -> _Command:
    """Give a command the options that select sessions."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def filter_from(*, here: bool, **conditions: Any) -> SessionFilter:
    """Return the filter that the options describe.

    Raises:
        UsageError: ``--here`` was given and the current folder no longer exists.
    """
    try:
        workspace = Path.cwd() if here else None
    except FileNotFoundError:
        raise UsageError("The current folder no longer exists. Change to another folder.") from None
    return SessionFilter(workspace=workspace, **conditions)


class HomePages:
    """The session list of the default home, for commands that need nothing else of the store."""

    def page(self, **query: Any) -> Page:
        """Return a page of the list."""
        return page_of_default_home(**query)
