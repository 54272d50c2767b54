"""Which session a command goes on with, and in which folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, structs

from holdfast.cli.run.options import Options
from holdfast.errors import SessionLocked, UsageError
from holdfast.keeper.lookup import local_session_id, resolve_session
from holdfast.keeper.workspaces import newest_session, session_workspace, working_folder
from holdfast.runtime.agent.origin import notice, source_of
from holdfast.runtime.runner.launch_options import Launch
from holdfast.store.session import Session
from holdfast.store.store import Store
from holdfast.tui.tty import is_terminal

if TYPE_CHECKING:
    from holdfast.runtime.agent.foreign import ForeignContent


class Found(Struct, frozen=True):
    """A session to go on with, and where. ``moved`` tells that the folder is news to it.

    One that is to be forked is open for reading: the copy is not made before it is sure that
    somebody can go on with it. For the user: ``notice`` says that it is from elsewhere, ``notes``
    that a newer one was passed over because it is.
    """

    session: Session
    workspace: Path
    is_new: bool = False
    moved: bool = False
    notes: tuple[str, ...] = ()
    notice: str | None = None

    @property
    def told(self) -> tuple[str, ...]:
        """All that the user is told before it is continued."""
        return self.notes if self.notice is None else (*self.notes, self.notice)


def target_session(store: Store, options: Options) -> str | None:
    """Return the id of the session that is to be gone on with.

    ``None`` if there is none yet, or if it is not one of this home: nobody here runs it.
    """
    if options.resume is not None:
        place = resolve_session(store, options.resume)
        return None if isinstance(place, Path) else place
    return newest_session(store, working_folder(options.workspace)).session


def accept_first(store: Store, options: Options) -> str | None:
    """Accept the session that is meant, if ``--trust`` says so; return what to tell the user."""
    if not options.trust or not options.goes_on:
        return None
    if options.resume is not None:
        place: str | Path | None = resolve_session(store, options.resume)
    else:
        place = newest_session(store, working_folder(options.workspace)).session
    return None if place is None else accepted(store, place)


def accepted(store: Store, place: str | Path) -> str | None:
    """Accept what a session received from elsewhere; return what to tell the user, if anything."""
    before = store.accept(place)
    if not before.any_foreign:
        return None
    name = place.name if isinstance(place, Path) else place
    return f"accepted: session {name}, {source_of(before)}"


def ask_first(store: Store, options: Options) -> None:
    """Ask on a terminal whether to accept the session that is meant, if it would act.

    Without a terminal, or if the answer is no, nothing changes: what would act is then rejected.
    """
    acts = options.continue_turn or options.run_queue
    if not acts or options.trust or not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        return
    place: str | Path | None
    if options.resume is not None:
        place = resolve_session(store, options.resume)
    else:
        place = newest_session(store, working_folder(options.workspace)).session
    if place is None or not store.provenance(place).any_foreign:
        return
    from holdfast.runtime.agent.foreign import facts_of  # noqa: PLC0415  only for these sessions

    with store.open(place, mode="read") as session:
        facts = facts_of(session)
    if facts is None:
        return
    if (options.continue_turn and facts.calls) or (options.run_queue and facts.prompts):
        confirm_acceptance(store, place, facts)


def confirm_acceptance(store: Store, place: str | Path, facts: ForeignContent) -> bool:
    """Show what accepting a session would allow and ask; tell whether it is accepted."""
    import click  # noqa: PLC0415  only where somebody is asked

    for line in facts.lines():
        click.echo(line, err=True)
    if not click.confirm("Accept this session?", err=True):
        return False
    # What was received while the question stood open was not shown.
    store.accept(place, upto=facts.last_seq)
    return True


def session_for(store: Store, options: Options, mode: Literal["read", "write"] = "write") -> Found:
    """Return the session that is meant, opened or new.

    Raises:
        UsageError, SessionNotFound, SessionLocked: there is none that can be gone on with.
    """
    if options.resume is not None:
        return _taken_up(store, resolve_session(store, options.resume), options, mode)
    folder = working_folder(options.workspace)
    notes: tuple[str, ...] = ()
    if options.latest:
        newest = newest_session(store, folder)
        notes += newest.notes
        if newest.session is not None:
            found = _taken_up(store, newest.session, options, mode)
            return structs.replace(found, notes=notes)
        if not options.needs_prompt:
            raise UsageError(" ".join([f"There is no session in {folder} to continue.", *notes]))
        from holdfast.cli.run.output import note  # noqa: PLC0415  slow to import

        note(f"there is no session in {folder} yet; starting a new one")
    session = store.create(workspace=folder, session_id=options.session_id)
    return Found(session, folder, is_new=True, notes=notes)


def launch_of(store: Store, found: Found, options: Options) -> Launch:
    """Return what a runner of a session is started with; somebody can be asked.

    Raises:
        UsageError: it is not a session of this home.
    """
    session_id = found.session.id
    if not found.is_new and not options.fork:
        session_id = local_session_id(store, found.session.location)
    return Launch(
        home=str(store.local_folder),
        session=session_id,
        workspace=str(found.workspace),
        is_new=found.is_new,
        meta={} if options.title is None else {"title": options.title},
        wishes=structs.replace(options.wishes, attended=True),
    )


def _taken_up(
    store: Store, place: str | Path, options: Options, mode: Literal["read", "write"]
) -> Found:
    try:
        session = store.open(place, mode="read" if options.fork else mode)
    except SessionLocked as error:
        told = f"Session {error.session} is being written by {error.holder}"
        error.args = (f"{told}. Wait until that process ends, or continue in a copy with --fork.",)
        raise
    workspace, moved = session_workspace(session, options.workspace)
    return Found(session, workspace, moved=moved, notice=notice(session, workspace))
