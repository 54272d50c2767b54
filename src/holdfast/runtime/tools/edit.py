"""The edit tool: one text in a file for another."""

from __future__ import annotations

import msgspec

from holdfast.runtime.providers.base import ToolSpec
from holdfast.runtime.tools.base import (
    Arguments,
    Call,
    Done,
    Effect,
    FileTool,
    Refusal,
    counted,
    done,
    schema,
    settled,
)
from holdfast.runtime.tools.file_change import apply
from holdfast.runtime.tools.read_tracking import Seen
from holdfast.runtime.tools.text_encoding import decode, encode, is_binary, substitute, with_feeds
from holdfast.runtime.tools.workspace import Workspace, WorkspacePath

_LINES_NAMED = 10


class EditArguments(Arguments, frozen=True):
    """``old`` must be in the file exactly once, unless ``replace_all``."""

    path: str
    old: str
    new: str
    replace_all: bool = False


class Edit(FileTool[EditArguments]):
    """Changes files in places. Mode, encoding and line ends stay; the file is replaced at once."""

    effect: Effect = "writes"
    arguments = EditArguments
    spec = ToolSpec(
        name="edit",
        description=(
            "Replace a text in a file. The old text must be there exactly, white space included, "
            "and only once: give enough lines around it, or set replace_all. Rejected if "
            "another program changed the file since it was read."
        ),
        parameters=schema(
            ("path", "old", "new"),
            path={"type": "string", "description": "Relative to the workspace, or absolute."},
            old={"type": "string", "description": "The text to replace, without line numbers."},
            new={"type": "string", "description": "What to put in its place; may be empty."},
            replace_all={"type": "boolean", "description": "Replace every occurrence."},
        ),
    )

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    async def work(self, call: Call, arguments: EditArguments) -> Done:
        """Change it."""
        if not arguments.old:
            raise Refusal("The old text is empty; to write a whole file use write.")
        if arguments.old == arguments.new:
            raise Refusal("The old and the new text are the same.")
        return await settled(self._edit, call, arguments)

    def _edit(self, call: Call, arguments: EditArguments) -> Done:
        workspace = Workspace(call.workspace, call.allowed)
        place = workspace.locate(arguments.path)
        with self._seen.alone(place):
            before = workspace.read(place)
            self._seen.check(place, before)
            if is_binary(before.data):
                raise Refusal(f"{place.shown} is a binary file; change it with bash.")
            text, form = decode(before.data)
            result, lines = substitute(text, form, arguments.old, arguments.new)
            _require_one(place, arguments, with_feeds(text, form), lines)
            change = apply(call, workspace, self._seen, place, before, encode(result, form))
        where = f"line {lines[0]}" if len(lines) == 1 else f"lines {_listed(lines)}"
        answer = done(f"Replaced {counted(len(lines), 'place')} in {place.shown} ({where}).")
        return msgspec.structs.replace(answer, changes=[change])


def _require_one(
    place: WorkspacePath, arguments: EditArguments, text: str, lines: list[int]
) -> None:
    if not lines:
        loose = " ".join(arguments.old.split())
        hint = (
            " It is there with other white space: read the file and copy the text exactly."
            if loose and loose in " ".join(text.split())
            else ""
        )
        raise Refusal(f"The old text is not in {place.shown}.{hint}")
    if len(lines) > 1 and not arguments.replace_all:
        raise Refusal(
            f"The old text is in {place.shown} {len(lines)} times (lines {_listed(lines)}): "
            "give more of the text around it, or set replace_all."
        )


def _listed(lines: list[int]) -> str:
    named = ", ".join(map(str, lines[:_LINES_NAMED]))
    return f"{named} and more" if len(lines) > _LINES_NAMED else named
