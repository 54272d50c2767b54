"""Taking changes of files back: what a rewind would do, and doing it.

A file is put back only if it is still what the last of the changes made it. What somebody else
edited since is left alone and named; overwriting it takes a plan in which the user said so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.message import FileChange
from holdfast.runtime.tools.autorun import sentence
from holdfast.runtime.tools.base import Refusal, os_sentence
from holdfast.runtime.tools.workspace import Content, Workspace


class UndoStep(Struct, frozen=True):
    """What a rewind does with one file.

    ``restore`` gives it back the content of blob ``before``; ``remove`` takes away a file that was
    not there; ``skip`` leaves it, and ``reason`` says why; ``nothing``: it is as it was. ``now`` is
    the digest of the file when the plan was made, ``None`` if it was not there.
    """

    path: str
    action: Literal["restore", "remove", "skip", "nothing"]
    before: str | None
    now: str | None = None
    reason: str = ""


def plan(changes: Iterable[FileChange], workspace: Workspace) -> list[UndoStep]:
    """Work out what taking back ``changes``, the newest first, would do; blocks.

    Each file gets one step, from what it is to what it was before the oldest of its changes.
    """
    newest: dict[str, FileChange] = {}
    oldest: dict[str, FileChange] = {}
    for change in changes:
        newest.setdefault(change.path, change)
        oldest[change.path] = change
    return [_step(path, newest[path].after, oldest[path].before, workspace) for path in newest]


def _step(path: str, after: str, before: str | None, workspace: Workspace) -> UndoStep:
    try:
        content = workspace.find(workspace.locate(path))
    except Refusal as refusal:
        return UndoStep(path, "skip", before, reason=str(refusal))
    except OSError as error:
        return UndoStep(path, "skip", before, reason=os_sentence(error))
    now = None if content is None else content.digest
    if now == before:
        return UndoStep(path, "nothing", before, now)
    if now != after:
        edited = "was removed" if now is None else "was changed by another program"
        return UndoStep(path, "skip", before, now, f"{path} {edited} since.")
    return UndoStep(path, "remove" if before is None else "restore", before, now)


def overwriting(step: UndoStep) -> UndoStep:
    """Return a skipped step as the user wants it who says: put it back all the same."""
    if step.action != "skip":
        return step
    gone = step.before is None and step.now is None
    action: Literal["restore", "remove"] = "remove" if step.before is None else "restore"
    return replace(step, action="nothing" if gone else action, reason="")


def guarded(step: UndoStep, workspace: Workspace) -> UndoStep:
    """Return a step as it is if nobody has agreed that files are written that run by themselves."""
    if step.action not in ("restore", "remove"):
        return step
    try:
        told = sentence(workspace.locate(step.path))
    except Refusal:
        return step  # it will be skipped for that
    if told is None:
        return step
    return replace(step, action="skip", reason=f"{step.path} was not changed: {told}.")


def carry_out(
    steps: Iterable[UndoStep],
    workspace: Workspace,
    blob: Callable[[str], bytes | None],
    *,
    autorun: bool = False,
) -> list[UndoStep]:
    """Do what a plan says; blocks. Return the steps as they came out.

    Files that other programs run by themselves are skipped unless ``autorun`` says otherwise.

    A file that is not what it was when the plan was made is skipped, and so is one whose old
    content is missing: one that cannot be put back does not keep the others from it.
    """
    judged = steps if autorun else (guarded(step, workspace) for step in steps)
    return [_carried_out(step, workspace, blob) for step in judged]


def _carried_out(
    step: UndoStep, workspace: Workspace, blob: Callable[[str], bytes | None]
) -> UndoStep:
    if step.action not in ("restore", "remove"):
        return step
    try:
        place = workspace.locate(step.path)
        content = workspace.find(place)
        if (None if content is None else content.digest) != step.now:
            raise Refusal(f"{step.path} was changed by another program just now.")
        if step.before is None:
            _remove(workspace, step.path, content)
        else:
            data = blob(step.before)
            if data is None:
                raise Refusal(f"What {step.path} was before is no longer stored.")
            workspace.replace_file(place, data, content)
    except Refusal as refusal:
        return replace(step, action="skip", reason=str(refusal))
    except OSError as error:
        return replace(step, action="skip", reason=os_sentence(error))
    return step


def _remove(workspace: Workspace, path: str, content: Content | None) -> None:
    if content is not None:
        workspace.remove_file(workspace.locate(path), content)
