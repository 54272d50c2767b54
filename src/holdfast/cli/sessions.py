"""Which session a command goes on with, and in which folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from holdfast.cli.naming import own_id, place_of
from holdfast.cli.options import Options
from holdfast.errors import SessionLocked, UsageError
from holdfast.journal.files import Files
from holdfast.model.ids import new_name
from holdfast.runtime.wishes import Launch
from holdfast.store.home import discard_folder
from holdfast.store.local import LocalStore
from holdfast.store.project import project_of, workspace_path
from holdfast.store.session import Session


class Found(Struct, frozen=True):
    """A session to go on with, and where. ``moved`` tells that the folder is news to it.

    One that is to be forked is open for reading: the copy is not made before it is sure that
    somebody can go on with it.
    """

    session: Session
    workspace: Path
    is_new: bool = False
    moved: bool = False


def meant_session(store: LocalStore, options: Options) -> str | None:
    """Return the id of the session that is to be gone on with.

    ``None`` if there is none yet, or if it is not one of this home: nobody here runs it.
    """
    if options.resume is not None:
        place = place_of(store, options.resume)
        return None if isinstance(place, Path) else place
    return newest_of(store, folder_given(options.workspace))


def session_for(
    store: LocalStore, options: Options, mode: Literal["read", "write"] = "write"
) -> Found:
    """Return the session that is meant, opened or new.

    Raises:
        UsageError, SessionNotFound, SessionLocked: there is none that can be gone on with.
    """
    if options.resume is not None:
        return _taken_up(store, place_of(store, options.resume), options, mode)
    folder = folder_given(options.workspace)
    if options.latest:
        newest = newest_of(store, folder)
        if newest is not None:
            return _taken_up(store, newest, options, mode)
        if not options.needs_prompt:
            raise UsageError(f"There is no session of {folder} to go on with.")
        from holdfast.cli.output import note  # noqa: PLC0415  slow to import

        note(f"there is no session of {folder} yet; a new one begins")
    session = store.create(workspace=folder, session_id=options.session_id)
    return Found(session, folder, is_new=True)


def launch_of(store: LocalStore, found: Found, options: Options) -> Launch:
    """Return what a runner of a session is started with; somebody can be asked.

    Raises:
        UsageError: it is not a session of this home.
    """
    session_id = found.session.id
    if not found.is_new and not options.fork:
        session_id = own_id(store, str(found.session.path))
    return Launch(
        home=str(store.path),
        session=session_id,
        workspace=str(found.workspace),
        is_new=found.is_new,
        meta={} if options.name is None else {"title": options.name},
        wishes=structs.replace(options.wishes, attended=True),
    )


def _taken_up(
    store: LocalStore, place: str | Path, options: Options, mode: Literal["read", "write"]
) -> Found:
    try:
        session = store.open(place, mode="read" if options.fork else mode)
    except SessionLocked as error:
        told = f"Session {error.session} is being written by {error.holder}"
        error.args = (f"{told}: wait until that has ended, or go on in a copy with --fork.",)
        raise
    workspace, moved = workspace_of(session, options.workspace)
    return Found(session, workspace, moved=moved)


def folder_given(name: str | None) -> Path:
    """Return the folder to work in, links resolved.

    Raises:
        UsageError: there is no such folder.
    """
    try:
        folder = Path(workspace_path(name if name is not None else Path.cwd()))
    except FileNotFoundError:
        raise UsageError("The current folder is gone; say where to work with -C.") from None
    if not folder.is_dir():
        raise UsageError(f"{name} is not a folder; say where to work with -C.")
    return folder


def newest_of(store: LocalStore, folder: Path) -> str | None:
    """Return the id of the session of a folder that was used last.

    A folder that was moved or renamed keeps the sessions of its git project.
    """
    found = store.list(workspace=folder, limit=1)
    if not found and (project := project_of(str(folder))) is not None:
        found = [
            summary
            for summary in store.list(project=project)
            if summary.workspace is None or not Path(summary.workspace).is_dir()
        ]
    return found[0].id if found else None


def workspace_of(session: Session, given: str | None) -> tuple[Path, bool]:
    """Return where a session goes on, and whether that is news to it.

    What is given counts; else the folder it is about; else, if that is gone, the current one if it
    is the same project.

    Raises:
        UsageError: its folder is gone.
    """
    recorded = session.meta.get("workspace")
    if given is not None or not isinstance(recorded, str):
        folder = folder_given(given)
        return folder, str(folder) != recorded
    if Path(recorded).is_dir():
        return Path(recorded), False
    here = folder_given(None)
    project = session.meta.get("project")
    if project is not None and project_of(str(here)) == project:
        return here, True
    raise UsageError(f"The session's folder {recorded} is gone; say where it is now with -C.")


@contextmanager
def ephemeral_home() -> Iterator[Path]:
    """Give a home that is removed at the end: the same store, for nothing to be kept."""
    given = Path(os.environ.get("TMPDIR", ""))
    base = given if given.is_absolute() and given.is_dir() else Path("/tmp")  # noqa: S108  0700
    home = base / f"holdfast-{new_name()}{new_name()}"
    try:
        yield home
    finally:
        with suppress(OSError):
            discard_folder(Files(), home)
