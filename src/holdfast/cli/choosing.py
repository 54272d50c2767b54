"""Which sessions a command is about: the same words for every command that takes many.

Every condition narrows the choice. What a list leaves out is counted, so that it can be said.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec import Struct

from holdfast.cli.moments import SINCE, UNTIL
from holdfast.cli.naming import complete_tag
from holdfast.errors import UsageError
from holdfast.journal.files import Files
from holdfast.store.contract import CLEAN, DAMAGED, INTERRUPTED, RUNNING, Summary
from holdfast.store.home import Home, default_home
from holdfast.store.listing import page_of

_Command = TypeVar("_Command", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--here", is_flag=True, help="Only sessions of this folder."),
    click.option(
        "--project", metavar="DIR", help="Only those of this git project, wherever it was."
    ),
    click.option("--since", type=SINCE, help="Updated since: 14d, yesterday, 2026-11-01."),
    click.option("--until", type=UNTIL, help="Updated until then; a day is in it."),
    click.option(
        "--tag",
        "tags",
        multiple=True,
        metavar="TAG",
        shell_complete=complete_tag,
        help="Only those with this tag.",
    ),
    click.option(
        "--state",
        type=click.Choice([CLEAN, RUNNING, INTERRUPTED, DAMAGED]),
        help="Only those that are so.",
    ),
)


def choosing(command: _Command) -> _Command:
    """Give a command the options that choose sessions."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class Choice(Struct, frozen=True):
    """What was asked for."""

    here: bool = False
    project: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    tags: tuple[str, ...] = ()
    state: str | None = None

    @property
    def given(self) -> bool:
        """Whether there is any condition."""
        return self != Choice()

    def fits(self, summary: Summary) -> bool:
        """Tell whether a session has the tags and the state."""
        tagged = all(tag in summary.tags for tag in self.tags)
        return tagged and self.state in (None, summary.state)


class Chosen(Struct, frozen=True):
    """The sessions that fit, newest first, and how many do not: elsewhere, or otherwise.

    ``more`` fit as well and are beyond the limit.
    """

    sessions: list[Summary]
    more: int
    elsewhere: int
    otherwise: int


def chosen(choice: Choice, limit: int | None = None) -> Chosen:
    """Return the sessions that fit, from the home that counts.

    Raises:
        UsageError: there is no such folder.
    """
    looks = bool(choice.tags) or choice.state is not None
    page = page_of(
        Home(Files(), default_home().absolute(), force=False),
        workspace=_here() if choice.here else None,
        project=_project(choice.project),
        since=choice.since,
        until=choice.until,
        limit=None if looks else limit,
    )
    sessions, fitting = page.sessions, page.fitting
    if looks:
        sessions = [summary for summary in sessions if choice.fits(summary)]
        fitting = len(sessions)
        sessions = sessions[:limit]
    return Chosen(
        sessions, fitting - len(sessions), page.total - page.placed, page.placed - fitting
    )


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("The current folder is gone: go to another one.") from None


def _project(given: str | None) -> str | Path | None:
    if given is None or given.startswith("git:"):
        return given
    folder = Path(given)
    if not folder.is_dir():
        raise UsageError(f"{given} is no folder, and no project such as git:….")
    from holdfast.store.project import project_of, workspace_path  # noqa: PLC0415  subprocess is slow

    if project_of(workspace_path(folder)) is None:
        raise UsageError(f"{given} is in no git project; --here lists the sessions of a folder.")
    return folder
