"""Which folder a session works in, and which session belongs to a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from holdfast import open_store
from holdfast.errors import UsageError
from holdfast.files import Files
from holdfast.runtime.agent.origin import recorded_workspace
from holdfast.store.git_project import project_of, workspace_path
from holdfast.store.session import Session
from holdfast.store.store import Store

_LOOKED_AT = 20


def working_folder(name: str | None) -> Path:
    """Return the folder to work in, with links resolved; the current one if none is named.

    Raises:
        UsageError: there is no such folder.
    """
    try:
        folder = Path(workspace_path(name if name is not None else Path.cwd()))
    except FileNotFoundError:
        raise UsageError("The current folder no longer exists. Name another with -C DIR.") from None
    if not folder.is_dir():
        raise UsageError(f"{name} is not a folder. Name a folder with -C DIR.")
    return folder


class NewestSession(Struct, frozen=True):
    """The most recent session of a folder, and notes for the user about how it was chosen."""

    session: str | None
    notes: tuple[str, ...] = ()


def newest_session(store: Store, folder: Path) -> NewestSession:
    """Return the most recent session of a folder; foreign sessions are skipped.

    Includes sessions of the same git project whose recorded folder no longer exists.
    """
    found = store.list(workspace=folder, limit=_LOOKED_AT)
    if len(found) == _LOOKED_AT and all(summary.foreign for summary in found):
        found = store.list(workspace=folder)
    if all(summary.foreign for summary in found) and (project := project_of(str(folder))):
        found += [
            summary
            for summary in store.list(project=project)
            if summary.workspace is None or not Path(summary.workspace).is_dir()
        ]
    newest = next((summary for summary in found if not summary.foreign), None)
    passed_over = next((summary for summary in found if summary.foreign), None)
    if passed_over is None or (newest is not None and newest.updated > passed_over.updated):
        return NewestSession(None if newest is None else newest.id)
    told = (
        f"skipped session {passed_over.id}: it is newer but came from elsewhere; to use it: -r "
        f"{passed_over.id}"
    )
    if not store.provenance(passed_over.id).recorded:
        told += "; after an upgrade, accept your earlier sessions with: holdfast trust --earlier"
    return NewestSession(None if newest is None else newest.id, (told,))


def session_workspace(session: Session, given: str | None) -> tuple[Path, bool]:
    """Return the folder to continue a session in, and whether it differs from the recorded one.

    That is the given folder; else the recorded one; else, if that is gone, the current folder if it
    belongs to the same git project. For a foreign session it is the current folder.

    Raises:
        UsageError: the recorded folder is gone.
    """
    recorded = recorded_workspace(session)
    if given is not None or recorded is None:
        folder = working_folder(given)
        return folder, str(folder) != session.meta.get("workspace")
    if Path(recorded).is_dir():
        return Path(recorded), False
    here = working_folder(None)
    project = session.meta.get("project")
    if project is not None and project_of(str(here)) == project:
        return here, True
    raise UsageError(
        f"The session's folder {recorded} no longer exists. Name its new place with -C DIR."
    )


@contextmanager
def ephemeral_store() -> Iterator[Store]:
    """Give a store in memory; what its tools put on this machine is removed at the end."""
    store = open_store("memory://")
    try:
        with store:
            yield store
    finally:
        with suppress(OSError):
            Files().remove_tree(store.local_folder)
