"""Going back: the conversation to an earlier entry, files to what they were then, or both.

Nothing is destroyed. The conversation's head is moved; what tools changed is taken back from the
blobs that they left; a file that somebody else has edited since is left alone unless the user says
otherwise, and then what is overwritten is kept in a blob first.

Order: a ``files.restored`` event with the plan, the files one by one, then in one batch the event
again with how it came out (``complete``) and the new head. A process that dies anywhere in between
leaves the head where it was: the same call finds the files that are done, does the rest and moves
the head. A turn that was interrupted and is taken back is ended in the same batch.

What commands did to files nobody recorded; a plan says how many were run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, field

from holdfast.errors import IdConflict, UsageError
from holdfast.model.entry import Body, Custom, Entry, Head, Tool, Turn
from holdfast.model.message import FileChange
from holdfast.runtime.agent import foreign
from holdfast.runtime.agent.recovery import Interrupted, examine
from holdfast.runtime.agent.rewind_points import changes_of, not_there
from holdfast.runtime.agent.services import TurnServices
from holdfast.runtime.providers.rehearsal import Rehearsal
from holdfast.runtime.tools import undo
from holdfast.runtime.tools.base import Refusal
from holdfast.runtime.tools.undo import UndoStep, overwriting
from holdfast.runtime.tools.workspace import Workspace
from holdfast.store.session import Session
from holdfast.store.types import Provenance

RESTORED = "files.restored"
TAKEN_BACK = "taken back"
_DOES_SOMETHING = frozenset({"restore", "remove"})


class RewindPlan(Struct, frozen=True):
    """What going back to entry ``to`` would do with files.

    ``commands`` counts those that were run since; ``running`` are those that still do. ``begun`` is
    what a process that died had set out to do. ``autorun`` are files that are left alone because
    other programs run them by themselves.
    """

    to: int | None
    steps: list[UndoStep]
    commands: int = 0
    running: list[str] = field(default_factory=list)
    begun: list[UndoStep] = field(default_factory=list)
    autorun: list[str] = field(default_factory=list)

    @property
    def does_something(self) -> bool:
        """Whether any file would be changed."""
        return any(step.action in _DOES_SOMETHING for step in self.steps)


class _Restoration(Struct, frozen=True):
    """The data of a ``files.restored`` event."""

    to: int | None
    steps: list[UndoStep]


# What it would do


def plan(
    session: Session,
    to: int | None,
    folder: Path | None,
    *,
    allowed: Sequence[Path] = (),
    overwrite: bool = False,
    autorun: bool = False,
) -> RewindPlan:
    """Work out what going back to ``to`` does with files; changes nothing. Blocks.

    Args:
        session: may be open for reading only.
        to: the last entry that stays, ``None`` for the beginning.
        folder: the workspace; ``None`` if nobody knows it.
        allowed: folders beside it whose files may be restored.
        overwrite: put files back also where somebody else has edited them since.
        autorun: put files back also if other programs run them by themselves.

    Raises:
        UsageError: ``to`` is not on the current branch; or files were changed and there is no
            folder.
        ForeignSession: changes to take back were recorded elsewhere and not accepted.
    """
    provenance = session.provenance()
    changes, commands = _since(session, to, provenance, folder)
    if folder is None:
        if changes:
            raise UsageError(
                "The folder in which this session changed files is not recorded. Name it with "
                "-C DIR, or undo only the conversation."
            )
        return RewindPlan(to, [], commands)
    interrupted = _interrupted(session, folder, allowed)
    unrecorded = _unrecorded(interrupted)
    known, begun = _left_by_us(session, to, provenance)
    for change in reversed(unrecorded):
        known[change.path] = {change.after}
    workspace = Workspace(folder, allowed)
    steps = [
        _forced(step, workspace) if overwrite or step.now in known[step.path] else step
        for step in undo.plan([*unrecorded, *changes], workspace)
    ]
    if autorun:
        return RewindPlan(to, steps, commands, _running(interrupted), begun)
    safe = [undo.guarded(step, workspace) for step in steps]
    left = [was.path for was, now in zip(steps, safe, strict=True) if was is not now]
    return RewindPlan(to, safe, commands, _running(interrupted), begun, left)


def _forced(step: UndoStep, workspace: Workspace) -> UndoStep:
    """Return a skipped step as one that puts the file back, if the file can be reached at all."""
    try:
        workspace.find(workspace.locate(step.path))
    except (Refusal, OSError):
        return step
    return overwriting(step)


def _since(
    session: Session, to: int | None, provenance: Provenance, folder: Path | None
) -> tuple[list[FileChange], int]:
    """Return what tools changed behind an entry, newest first, and how many commands were run.

    Raises:
        ForeignSession: some of it was recorded elsewhere: the sender chose files and contents.
    """
    changes: list[FileChange] = []
    received: dict[str, None] = {}
    commands = 0
    for entry in session.branch():
        if entry.seq == to:
            break
        changed = changes_of(entry)
        changes += changed
        if provenance.is_foreign(entry.seq):
            received.update((change.path, None) for change in changed)
        if isinstance(entry.body, Tool) and entry.body.effect == "unknown":
            commands += 1
    else:
        if to is not None:
            raise not_there(to)
    foreign.check_files(session, list(received), folder)
    return changes, commands


def _interrupted(session: Session, folder: Path, allowed: Sequence[Path]) -> Interrupted | None:
    """Look at a turn that a crash left open; nobody answers and nothing runs."""
    looking = TurnServices(session, Rehearsal(), "", folder, allowed=tuple(allowed))
    return examine(looking, claim=False)


def _unrecorded(interrupted: Interrupted | None) -> list[FileChange]:
    """Return changes that are in no result yet, because the process died before it."""
    found = [] if interrupted is None else interrupted.open
    return [change for each in reversed(found) if each.done for change in each.done.changes]


def _running(interrupted: Interrupted | None) -> list[str]:
    found = [] if interrupted is None else interrupted.open
    return [str(each) for each in found if each.state == "running"]


def _left_by_us(
    session: Session, to: int | None, provenance: Provenance
) -> tuple[dict[str, set[str | None]], list[UndoStep]]:
    """Return in which states tools and rewinds, on any branch, left each file; and what is begun.

    A file in such a state was not edited by anybody else, also if a rewind took its changes back
    and the conversation stayed, or the other way round.
    """
    known: dict[str, set[str | None]] = {}
    begun: list[UndoStep] = []
    followed = session.follow(after=-1 if to is None else to, wait=False)
    for entry in (each for each in followed if isinstance(each, Entry)):
        if provenance.is_foreign(entry.seq):
            continue  # what others say that they left must not look like our own work
        for change in reversed(changes_of(entry)):
            known[change.path] = {change.after}
        restoration = _restoration(entry)
        if restoration is None:
            continue
        finished = isinstance(entry.body, Custom) and entry.body.complete is True
        done = [step for step in restoration.steps if step.action in _DOES_SOMETHING]
        for step in done:
            before = set() if finished else known.get(step.path, set())
            known[step.path] = {*before, step.before}
        begun = [] if finished else done
    return known, begun


def _restoration(entry: Entry) -> _Restoration | None:
    if not isinstance(entry.body, Custom) or entry.body.name != RESTORED:
        return None
    try:
        return msgspec.convert(entry.body.data, _Restoration)
    except msgspec.ValidationError:  # another version's
        return None


# Doing it


def carry_out(
    session: Session,
    planned: RewindPlan,
    folder: Path | None,
    *,
    allowed: Sequence[Path] = (),
    files: bool = True,
    conversation: bool = True,
    autorun: bool = False,
    id: str | None = None,
) -> list[UndoStep]:
    """Go back as planned and return what became of each file. Blocks.

    What is recorded last has ``id``, if one is given; ``autorun`` is as in ``plan``. A file that
    cannot be put back is skipped and says why; the others and the conversation go back all the
    same.

    Raises:
        StorageError: the session could not be written. What was done is done, and the same call
            goes on from there.
    """
    entries: list[Body] = []
    done: list[UndoStep] = []
    if files and folder is not None:
        done = planned.steps
        if planned.does_something:
            workspace = Workspace(folder, allowed)
            _keep_edits(session, done, workspace)
            session.append(_event(planned.to, done, complete=False))
            done = undo.carry_out(done, workspace, session.blob, autorun=autorun)
        if planned.does_something or planned.begun:
            entries.append(_event(planned.to, _with_begun(done, planned.begun), complete=True))
    if conversation:
        entries += closing(session, planned.to)
        entries.append(Head(planned.to))
    if entries:
        try:
            session.append(entries, id)
        except IdConflict:  # recorded by this call before, when less had been done
            if session.trouble is not None:
                raise session.trouble from None  # it still waits
    return done


def closing(session: Session, to: int | None) -> list[Body]:
    """Return the end of an interrupted turn that is taken back: none is left open. Blocks."""
    for entry in session.branch():
        if entry.seq == to:
            break
        if isinstance(entry.body, Turn):
            left_open = entry.body.state in ("started", "waiting")
            return [Turn("cancelled", TAKEN_BACK)] if left_open else []
    return []


def _keep_edits(session: Session, steps: Iterable[UndoStep], workspace: Workspace) -> None:
    """Store what is about to be overwritten; what tools wrote is stored already."""
    for step in steps:
        if step.action in _DOES_SOMETHING and step.now and session.blob(step.now) is None:
            try:
                content = workspace.find(workspace.locate(step.path))
            except (Refusal, OSError):
                continue  # it will not be overwritten either
            if content is not None and content.digest == step.now:
                session.keep(content.data)


def _with_begun(done: list[UndoStep], begun: list[UndoStep]) -> list[UndoStep]:
    """Return what was done with what a process that died had done before."""
    earlier = {(step.path, step.before): step for step in begun}
    return [
        earlier.get((step.path, step.before), step) if step.action == "nothing" else step
        for step in done
    ]


def _event(to: int | None, steps: list[UndoStep], *, complete: bool) -> Custom:
    return Custom(RESTORED, msgspec.to_builtins(_Restoration(to, steps)), complete)
