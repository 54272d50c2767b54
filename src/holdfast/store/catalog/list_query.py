"""Which sessions a list has: folders, projects and times as summaries say them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.errors import UsageError
from holdfast.store.types import stamp

if TYPE_CHECKING:
    import os
    from datetime import datetime


class ListQuery(Struct, frozen=True):
    """Which sessions a list has; ``None`` is no condition."""

    workspace: str | None = None
    projects: list[str] | None = None
    limit: int | None = None
    since: str | None = None
    until: str | None = None
    key_prefix: str | None = None


def list_query(
    workspace: str | os.PathLike[str] | None = None,
    project: str | os.PathLike[str] | None = None,
    limit: int | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    key_prefix: str | None = None,
) -> ListQuery:
    """Return which sessions a list has, in the words of their summaries."""
    if key_prefix is not None and not isinstance(key_prefix, str):
        raise UsageError(f"key_prefix must be the start of a session key, not {key_prefix!r}.")
    return ListQuery(
        workspace=folder_named(workspace),
        projects=projects_named(project),
        limit=limit,
        since=None if since is None else stamp(since),
        until=None if until is None else stamp(until),
        key_prefix=key_prefix,
    )


def folder_named(folder: str | os.PathLike[str] | None) -> str | None:
    """Return a folder as sessions record it."""
    if folder is None:
        return None
    from holdfast.store.git_project import workspace_path  # noqa: PLC0415  subprocess is slow

    return workspace_path(folder)


def projects_named(project: str | os.PathLike[str] | None) -> list[str] | None:
    """Return the identities that a project has or had."""
    if project is None:
        return None
    if isinstance(project, str) and project.startswith("git:"):
        return [project]
    from holdfast.store.git_project import project_names, workspace_path  # noqa: PLC0415  as above

    return list(project_names(workspace_path(project)))
