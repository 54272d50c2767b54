"""The list of a home's sessions for those who need nothing else of the store.

``holdfast ls`` is run often and has little to do; importing what reads and writes sessions would
take longer than the list itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.store.contract import stamp
from holdfast.store.refusals import os_errors

if TYPE_CHECKING:
    import os
    from datetime import datetime

    from holdfast.store.contract import Page
    from holdfast.store.home import Home


def page_of(
    home: Home,
    *,
    workspace: str | os.PathLike[str] | None = None,
    project: str | os.PathLike[str] | None = None,
    limit: int | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Page:
    """Return the newest sessions that fit, and how many there are beside."""
    with os_errors(f"{home.root} cannot be listed", home.root):
        from holdfast.store.index import Index  # noqa: PLC0415  sqlite3 costs 5 ms

        return Index(home).page(
            workspace=folder_named(workspace),
            projects=projects_named(project),
            limit=limit,
            since=None if since is None else stamp(since),
            until=None if until is None else stamp(until),
        )


def folder_named(folder: str | os.PathLike[str] | None) -> str | None:
    """Return a folder as sessions record it."""
    if folder is None:
        return None
    from holdfast.store.project import workspace_path  # noqa: PLC0415  subprocess is slow

    return workspace_path(folder)


def projects_named(project: str | os.PathLike[str] | None) -> list[str] | None:
    """Return the identities that a project has or had."""
    if project is None:
        return None
    if isinstance(project, str) and project.startswith("git:"):
        return [project]
    from holdfast.store.project import project_names, workspace_path  # noqa: PLC0415  as above

    return list(project_names(workspace_path(project)))
