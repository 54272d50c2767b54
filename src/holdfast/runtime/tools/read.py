"""The read tool: lines of a text file with their numbers, or an image."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import Annotated

from msgspec import Meta

from holdfast.model.message import Image
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
)
from holdfast.runtime.tools.read_tracking import Seen
from holdfast.runtime.tools.text_encoding import decode, is_binary, with_feeds
from holdfast.runtime.tools.workspace import Content, Workspace, WorkspacePath

MOST_LINES = 2000
MOST_CHARACTERS = 100_000
LONGEST_LINE = 2000
LARGEST_IMAGE_BYTES = 5_000_000 * 3 // 4  # providers count the base64 text
_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
    (b"\xff\xd8\xff", 0, "image/jpeg"),
    (b"GIF87a", 0, "image/gif"),
    (b"GIF89a", 0, "image/gif"),
    (b"WEBP", 8, "image/webp"),
)


class ReadArguments(Arguments, frozen=True):
    """``offset`` is the first line, counted from 1."""

    path: str
    offset: Annotated[int, Meta(ge=1)] = 1
    limit: Annotated[int, Meta(ge=1)] = MOST_LINES


class Read(FileTool[ReadArguments]):
    """Shows a file to the model."""

    effect: Effect = "reads"
    arguments = ReadArguments
    spec = ToolSpec(
        name="read",
        description=(
            "Read a file. Text comes with line numbers; an image comes as an image. At most "
            f"{MOST_LINES} lines or {MOST_CHARACTERS:,} characters at once: use offset and limit "
            "for the rest."
        ),
        parameters=schema(
            ("path",),
            path={"type": "string", "description": "Relative to the workspace, or absolute."},
            offset={"type": "integer", "minimum": 1, "description": "First line, from 1."},
            limit={"type": "integer", "minimum": 1, "description": "How many lines."},
        ),
    )

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    async def work(self, call: Call, arguments: ReadArguments) -> Done:
        """Read it."""
        return await asyncio.to_thread(self._read, call, arguments)

    def _read(self, call: Call, arguments: ReadArguments) -> Done:
        workspace = Workspace(call.workspace, call.allowed)
        place = workspace.locate(arguments.path)
        if workspace.is_folder(place):
            raise Refusal(f"{place.shown} is a folder; list its files with glob.")
        content = workspace.read(place)
        self._seen.note(place, content.digest)
        media_type = _image_type(content.data)
        if media_type is not None:
            return _image(place, content, media_type)
        if is_binary(content.data):
            raise Refusal(
                f"{place.shown} is a binary file of {len(content.data):,} bytes; "
                "look at it with bash, for example with file, strings or xxd."
            )
        return done(_lines(place, content, arguments))


def _image_type(data: bytes) -> str | None:
    for magic, offset, media_type in _IMAGES:
        if data.startswith(magic, offset) and (offset == 0 or data.startswith(b"RIFF")):
            return media_type
    return None


def _image(place: WorkspacePath, content: Content, media_type: str) -> Done:
    size = len(content.data)
    if size > LARGEST_IMAGE_BYTES:
        raise Refusal(
            f"{place.shown} is an image of {size:,} bytes; only images of up to "
            f"{LARGEST_IMAGE_BYTES:,} can be shown. Make a smaller copy with bash."
        )
    image = Image(media_type=media_type, data=b64encode(content.data).decode())
    return done(f"{place.shown}: {media_type}, {size:,} bytes.", image)


def _lines(place: WorkspacePath, content: Content, arguments: ReadArguments) -> str:
    text, form = decode(content.data)
    if not text:
        return f"[{place.shown} is empty]"
    lines = with_feeds(text, form).split("\n")
    ended = not lines[-1]
    if ended:
        lines.pop()
    first = arguments.offset
    if first > len(lines):
        raise Refusal(f"{place.shown} has only {counted(len(lines), 'line')}.")
    wanted = lines[first - 1 : first - 1 + min(arguments.limit, MOST_LINES)]
    shown: list[str] = []
    room = MOST_CHARACTERS
    for number, line in enumerate(wanted, first):
        shown.append(f"{number:6}\t{_shortened(line)}")
        room -= len(shown[-1]) + 1
        if room <= 0:
            break
    last = first + len(shown) - 1
    notes = []
    if last < len(lines):
        notes.append(f"lines {first} to {last} of {len(lines)}; continue with offset={last + 1}")
    elif not ended:
        notes.append("no line end at the end of the file")
    if form.described:
        notes.append(form.described)
    return "\n".join([*shown, *(f"[{note}]" for note in notes)])


def _shortened(line: str) -> str:
    left_out = len(line) - LONGEST_LINE
    if left_out <= 0:
        return line
    return f"{line[:LONGEST_LINE]}… [{counted(left_out, 'more character')} in this line]"
