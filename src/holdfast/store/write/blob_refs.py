"""Payloads too large for a line: taken out before an entry is written, put back when it is read.

A payload that was taken out is a blob, named by its SHA-256. Where blobs are stored is the medium's
business.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.model.codec import dumps, loads, plain
from holdfast.model.entry import Checkpoint, Queued, Snapshot, Tool
from holdfast.model.message import BlobRef, Message, Part, Text, Thinking, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.store.backend import BlobSource

LARGEST_INLINE_BYTES = 256 * 1024
_PREVIEW_CHARACTERS = 400

# Which field of a part may be too large, and how it stands there.
_PAYLOADS = {
    "text": ("text", "text"),
    "thinking": ("text", "text"),
    "image": ("data", "base64"),
    "file": ("data", "base64"),
    "tool_call": ("arguments", "json"),
    "opaque": ("data", "json"),
}


class Unwritten:
    """Payloads that are yet to be written, and behind them the blobs that are."""

    def __init__(self, payloads: Iterable[bytes], written: BlobSource) -> None:
        self._payloads = {sha256(data).hexdigest(): data for data in payloads}
        self._written = written

    def read_named(self, name: str) -> bytes | None:
        """Return a blob's bytes, ``None`` if it is missing or altered."""
        data = self._payloads.get(name)
        return data if data is not None else self._written.read_named(name)


def take_out(body: Any) -> tuple[Any, list[bytes]]:
    """Replace every large payload of a body by a reference; return the payloads as well."""
    payloads: list[bytes] = []

    def without(part: Any) -> Any:
        if isinstance(part, ToolResult):
            return _with_parts(part, without)
        name, kind = _PAYLOADS.get(_tag(part), ("", ""))
        if not name or part.blob is not None:
            return part
        payload = getattr(part, name)
        data, kind = _to_bytes(payload, kind)
        if len(data) <= LARGEST_INLINE_BYTES:
            return part
        payloads.append(data)
        ref = BlobRef(
            sha256=sha256(data).hexdigest(),
            size_bytes=len(data),
            media_type=_media_type(part),
            encoding=kind,
            preview=payload[:_PREVIEW_CHARACTERS] if isinstance(part, Text | Thinking) else "",
        )
        return msgspec.structs.replace(part, **{name: None if kind == "json" else ""}, blob=ref)

    if isinstance(body, Message | Queued):
        return _with_parts(body, without), payloads
    if isinstance(body, Checkpoint):
        summary = [_with_parts(message, without) for message in body.summary]
        return msgspec.structs.replace(body, summary=summary), payloads
    return body, payloads


def put_back(body: Message, blobs: BlobSource) -> Message:
    """Return a message with every blob it names in its place; a missing one stays a reference."""
    for part in body.content:
        if part.blob is not None or type(part) is ToolResult:
            break
    else:
        return body

    def restored(part: Any) -> Any:
        if isinstance(part, ToolResult):
            return _with_parts(part, restored)
        if part.blob is None:
            return part
        data = blobs.read_named(part.blob.sha256)
        if data is None:  # show what there is; the reference that stays says that it is not all
            shows = isinstance(part, Text | Thinking) and not part.text
            return msgspec.structs.replace(part, text=part.blob.preview) if shows else part
        try:
            payload = _from_bytes(data, part.blob.encoding)
        except (ValueError, RecursionError):
            return part  # the reference was altered: the payload is not of that kind
        return msgspec.structs.replace(part, **{_PAYLOADS[_tag(part)][0]: payload}, blob=None)

    restored_message: Message = _with_parts(body, restored)
    return restored_message


def references(body: Any) -> list[BlobRef]:
    """Return the blobs that stand for payloads of a body."""
    if isinstance(body, Checkpoint):
        return [ref for message in body.summary for ref in references(message)]
    if isinstance(body, Message | Queued | ToolResult):
        return [ref for part in body.content for ref in references(part)]
    return [body.blob] if isinstance(body, Part | Snapshot | Tool) and body.blob is not None else []


def blobs_of(body: Any) -> set[str]:
    """Return the names of all blobs that belong to a body, those that its results keep too."""
    messages = body.summary if isinstance(body, Checkpoint) else [body]
    kept = {
        name
        for message in messages
        if isinstance(message, Message)
        for part in message.content
        if isinstance(part, ToolResult)
        for name in part.kept
    }
    return kept | {ref.sha256 for ref in references(body)}


def _with_parts(body: Any, change: Any) -> Any:
    return msgspec.structs.replace(body, content=[change(part) for part in body.content])


def _tag(part: Any) -> str:
    return str(part.__struct_config__.tag)


def _media_type(part: Any) -> str:
    given = getattr(part, "media_type", None)
    if given is not None:
        return str(given)
    return "text/plain" if isinstance(part, Text | Thinking) else "application/json"


def _to_bytes(payload: Any, kind: str) -> tuple[bytes, str]:
    if kind == "json":
        return dumps(plain(payload)), kind
    if kind == "base64" and len(payload) > LARGEST_INLINE_BYTES:
        try:
            data = b64decode(payload, validate=True)
        except ValueError:
            data = b""
        if b64encode(data).decode() == payload:
            return data, kind
    return payload.encode("utf-8", "surrogatepass"), "text"


def _from_bytes(data: bytes, kind: str) -> Any:
    if kind == "json":
        return loads(data)
    if kind == "base64":
        return b64encode(data).decode()
    return data.decode("utf-8", "surrogatepass")
