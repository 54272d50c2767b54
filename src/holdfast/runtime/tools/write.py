"""The write tool: a whole new file, or new content for one that is there."""

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
from holdfast.runtime.tools.text_encoding import Form, decode, encode, is_binary, with_ends
from holdfast.runtime.tools.workspace import Content, Workspace


class WriteArguments(Arguments, frozen=True):
    """What to write, and where."""

    path: str
    content: str


class Write(FileTool[WriteArguments]):
    """Writes files.

    A file that is there is overwritten only if this session has read it and nobody has changed it
    since; its mode, encoding and line ends stay.
    """

    effect: Effect = "writes"
    arguments = WriteArguments
    spec = ToolSpec(
        name="write",
        description=(
            "Write a file, making folders as needed. The content replaces all that is there; an "
            "existing file must have been read before. For a small change use edit."
        ),
        parameters=schema(
            ("path", "content"),
            path={"type": "string", "description": "Relative to the workspace, or absolute."},
            content={"type": "string", "description": "The whole content."},
        ),
    )

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    async def work(self, call: Call, arguments: WriteArguments) -> Done:
        """Write it."""
        return await settled(self._write, call, arguments)

    def _write(self, call: Call, arguments: WriteArguments) -> Done:
        workspace = Workspace(call.workspace, call.allowed)
        place = workspace.locate(arguments.path)
        with self._seen.alone(place):
            before = workspace.find(place)
            if before is not None:
                self._seen.check(place, before)
                if before.data and not self._seen.knows(place):
                    raise Refusal(f"{place.shown} already exists; read it first.")
            form = _form(before, arguments.content)
            data = encode(_in_form(arguments.content, form), form)
            change = apply(call, workspace, self._seen, place, before, data)
        verb = "Wrote" if before is None else "Replaced"
        kept = f" ({form.described})" if form.described else ""
        answer = done(f"{verb} {place.shown}: {counted(len(data), 'byte')}{kept}.")
        return msgspec.structs.replace(answer, changes=[change])


def _form(before: Content | None, content: str) -> Form:
    """Return the form that a file has, or UTF-8 with line feeds where it cannot be kept."""
    if before is None or not before.data or is_binary(before.data):
        return Form()
    text, form = decode(before.data)
    if form.line_end == "\r\n" and text.count("\n") != text.count("\r\n"):
        form = msgspec.structs.replace(form, line_end="\n")  # it mixes them
    if form.encoding == "latin-1" and any(character > "\xff" for character in content):
        form = msgspec.structs.replace(form, encoding="utf-8")
    return form


def _in_form(content: str, form: Form) -> str:
    # Line ends that the model spelled out are meant.
    return content if "\r" in content else with_ends(content, form)
