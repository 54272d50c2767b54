"""What a model sees: messages and the parts they are made of.

Messages are pure values. They have no identity: numbers, parents and times belong to the entry
that stores them, so two equal messages are equal wherever they came from.

Every struct carries ``extra``: fields that this version does not know, kept so that they can be
written back. On disk they stand beside the known ones (the codec sees to that).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, cast

from msgspec import Meta, Struct, field

# The wire name of ``extra`` is legal JSON and may be met, but no text can fill the field: fast
# decoding fails, and the codec takes the object apart by hand.
EXTRA_NAME = ""
_Undecodable = Annotated[dict[str, Any], Meta(min_length=2**40)]


class Value(
    Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True, kw_only=True, gc=False
):
    """Base of everything that is stored: strict when decoded fast, lossless when decoded slow.

    Not tracked by the garbage collector: decoded values hold no cycles, and there are many.
    """

    extra: _Undecodable = field(default_factory=dict, name=EXTRA_NAME)


class BlobRef(Value, frozen=True):
    """A payload too large for a line: it is in ``blobs/<sha256>``.

    ``encoding`` says how the payload stood in the part: ``text`` (UTF-8), ``base64`` (the blob has
    the decoded bytes) or ``json``.
    """

    sha256: str
    size_bytes: int
    media_type: str
    encoding: str
    preview: str = ""


class Part(Value, tag_field="type", frozen=True, kw_only=True):
    """One piece of a message's content."""

    blob: BlobRef | None = None


class Text(Part, tag="text", frozen=True):
    """Plain text."""

    text: str


class Thinking(Part, tag="thinking", frozen=True):
    """A model's reasoning, with the provider's opaque signature if it gave one."""

    text: str
    signature: str | None = None


class Image(Part, tag="image", frozen=True):
    """An image: base64 ``data``, or a ``url``."""

    media_type: str
    data: str = ""
    url: str | None = None


class File(Part, tag="file", frozen=True):
    """An attached file: base64 ``data``, or a ``url``."""

    name: str
    media_type: str
    data: str = ""
    url: str | None = None


class ToolCall(Part, tag="tool_call", frozen=True):
    """A model's wish to call a tool.

    ``partial`` is what had arrived of the arguments when the stream broke off; such a call is kept
    for people to see and is never sent to a provider or run.
    """

    id: str
    name: str
    arguments: Any
    partial: str | None = None


class FileChange(Value, frozen=True):
    """A file that a tool changed: the blobs of what it was (``None``: not there) and became.

    ``path`` is relative to the workspace, so that it holds when the folder moves; absolute for a
    file in a folder that is allowed beside it. A blob's name is the SHA-256 of its bytes.
    """

    path: str
    before: str | None
    after: str


class ToolResult(Part, tag="tool_result", frozen=True):
    """What a tool call came to.

    ``outcome`` is one of completed, failed, cancelled, denied, never_ran, unknown. ``changes`` are
    the files that it changed; ``kept`` names all blobs that belong to the result: those of the
    changes, and output that was too long to be shown.
    """

    call_id: str
    content: list[AnyPart]
    outcome: str
    changes: list[FileChange] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


class Opaque(Part, tag="opaque", frozen=True):
    """A vendor's block that only that vendor understands; sent back to it unchanged."""

    vendor: str
    data: Any


class UnknownPart(Part, tag="\0unknown", frozen=True):
    """A part of a type that this version does not know, kept whole in ``fields``."""

    fields: _Undecodable


AnyPart = Text | Thinking | Image | File | ToolCall | ToolResult | Opaque | UnknownPart


class Message(Value, frozen=True):
    """One message of a conversation.

    ``role`` is user, assistant, tool or system. ``stop`` says how an assistant message ended
    (``interrupted`` included), ``stream`` names the live stream it finishes, ``queued`` the queued
    prompt it was made from, ``request`` the provider's own id of the request.
    """

    role: str
    content: list[AnyPart]
    model: str | None = None
    stop: str | None = None
    stream: str | None = None
    request: str | None = None
    queued: int | None = None

    @property
    def text(self) -> str:
        """The message's text parts, joined."""
        return "".join(part.text for part in self.content if isinstance(part, Text))


Content = str | AnyPart | Sequence[AnyPart]


def _parts(content: Content) -> list[AnyPart]:
    if isinstance(content, str):
        return [Text(text=content)]
    if isinstance(content, list | tuple):
        return list(content)
    return [cast("AnyPart", content)]  # whatever it is: encoding will refuse what it is not


def user(content: Content) -> Message:
    """Make a user message from text, a part or a list of parts."""
    return Message(role="user", content=_parts(content))


def assistant(content: Content, *, model: str | None = None, stop: str | None = None) -> Message:
    """Make an assistant message from text, a part or a list of parts."""
    return Message(role="assistant", content=_parts(content), model=model, stop=stop)


def system(content: Content) -> Message:
    """Make a system message from text, a part or a list of parts."""
    return Message(role="system", content=_parts(content))


def tool_result(call_id: str, content: Content, *, outcome: str = "completed") -> Message:
    """Make the tool message that answers one call."""
    result = ToolResult(call_id=call_id, content=_parts(content), outcome=outcome)
    return Message(role="tool", content=[result])
