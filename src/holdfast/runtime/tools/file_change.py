"""Changing one file so that it can be told afterwards, and taken back.

Order: what the file was and will be are stored as blobs; the intended change is left in the spool;
the file is replaced. A process that dies anywhere in between leaves a file that is one or the
other, and ``recover_change`` tells which.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from holdfast.files import Files
from holdfast.model.message import FileChange
from holdfast.runtime.tools import autorun
from holdfast.runtime.tools.base import Call, Refusal
from holdfast.runtime.tools.read_tracking import Seen
from holdfast.runtime.tools.shell.spool import folder_of, read_small_file
from holdfast.runtime.tools.workspace import Content, Workspace, WorkspacePath

CHANGE_NAME = "change"
_files = Files()
_DECODER = msgspec.json.Decoder(FileChange)


class RecoveredChange(msgspec.Struct, frozen=True):
    """What became of a call of write or edit whose process died.

    ``completed``: the file is what the call wanted. ``never_ran``: it is as it was. ``unknown``: it
    is neither, somebody changed it since.
    """

    state: Literal["completed", "never_ran", "unknown"]
    change: FileChange | None = None


def apply(
    call: Call,
    workspace: Workspace,
    seen: Seen,
    place: WorkspacePath,
    before: Content | None,
    data: bytes,
) -> FileChange:
    """Give a file new content; ``before`` is what it holds. Blocks.

    Raises:
        Refusal: somebody changed the file in this very moment; or other programs run it by
            themselves, and the person who approved the change was not told so.
        OSError: it could not be written.
    """
    if not call.autorun and (told := autorun.sentence(place)) is not None:
        raise Refusal(
            f"{place.shown} was not written: {told}. Try it again as the only call, to be approved."
        )
    change = FileChange(
        path=place.shown,
        before=None if before is None else call.keep(before.data),
        after=call.keep(data),
    )
    folder = folder_of(call.spool, call.id)
    _files.make_folders(folder)
    _files.publish(folder / CHANGE_NAME, msgspec.json.encode(change))
    workspace.replace_file(place, data, before)
    seen.note(place, change.after)
    return change


def recover_change(spool: Path, call_id: str, workspace: Workspace) -> RecoveredChange:
    """Tell what became of a call of write or edit; blocks."""
    try:
        change = _DECODER.decode(read_small_file(folder_of(spool, call_id) / CHANGE_NAME))
    except FileNotFoundError:
        return RecoveredChange("never_ran")
    except (OSError, msgspec.MsgspecError):
        return RecoveredChange("unknown")
    try:
        now = workspace.find(workspace.locate(change.path))
    except (Refusal, OSError):
        return RecoveredChange("unknown", change)
    digest = None if now is None else now.digest
    if digest == change.after:
        return RecoveredChange("completed", change)
    return RecoveredChange("never_ran" if digest == change.before else "unknown", change)
