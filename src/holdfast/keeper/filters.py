"""Select sessions by folder, project, time, tags and state, and count what a selection hides."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from holdfast.errors import UsageError
from holdfast.store.types import Page, Summary


class SessionPages(Protocol):
    """A store, or the part of one that lists sessions."""

    def page(
        self,
        *,
        workspace: Path | None = None,
        project: str | Path | None = None,
        limit: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Page:
        """Return the sessions that match, and counts of those that do not."""
        ...


class SessionFilter(Struct, frozen=True):
    """Conditions that a session must meet, all of them.

    ``project`` is a recorded identity (``git:…``) or a folder inside the project.
    """

    workspace: Path | None = None
    project: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    tags: tuple[str, ...] = ()
    state: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is no condition."""
        return self == SessionFilter()

    def matches(self, summary: Summary) -> bool:
        """Return whether a session has the tags and the state."""
        has_tags = all(tag in summary.tags for tag in self.tags)
        return has_tags and self.state in (None, summary.state)


class Selection(Struct, frozen=True):
    """The sessions that match, most recently updated first, and how many are hidden.

    ``beyond_limit`` match, too. ``elsewhere`` are in other folders or projects. ``unmatched`` are
    in the right place but do not meet the other conditions.
    """

    sessions: list[Summary]
    beyond_limit: int
    elsewhere: int
    unmatched: int


def select_sessions(
    pages: SessionPages, wanted: SessionFilter, limit: int | None = None
) -> Selection:
    """Return the sessions that match a filter, at most ``limit``.

    Raises:
        UsageError: the project is neither an identity nor a folder inside a git project.
    """
    by_summary = bool(wanted.tags) or wanted.state is not None
    page = pages.page(
        workspace=wanted.workspace,
        project=_project(wanted.project),
        since=wanted.since,
        until=wanted.until,
        limit=None if by_summary else limit,
    )
    sessions, matching = page.sessions, page.fitting
    if by_summary:
        sessions = [summary for summary in sessions if wanted.matches(summary)]
        matching = len(sessions)
        sessions = sessions[:limit]
    return Selection(
        sessions, matching - len(sessions), page.total - page.placed, page.placed - matching
    )


def _project(given: str | None) -> str | Path | None:
    if given is None or given.startswith("git:"):
        return given
    folder = Path(given)
    if not folder.is_dir():
        raise UsageError(f"{given} is not a folder, and not a project such as git:….")
    from holdfast.store.git_project import project_of, workspace_path  # noqa: PLC0415  subprocess is slow

    if project_of(workspace_path(folder)) is None:
        raise UsageError(
            f"{given} is not in a git project. Use --here for the sessions of a folder."
        )
    return folder
