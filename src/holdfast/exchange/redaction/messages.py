"""Secrets taken out of messages, wherever in a message they stand.

``redact`` knows what a secret looks like; this module knows where text can be: in parts and in the
parts of results, in names and arguments, in files that hold text, in fields that nobody knows. The
texts of a message are looked at one by one and as one, since formats join them. A payload that was
signed or encrypted by its vendor loses its signature if a word of it was replaced.

The same secret always gets the same mark: results find their calls as before.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from typing import Any

import msgspec

from holdfast.exchange.redaction.redactor import Redactor
from holdfast.model.message import (
    AnyPart,
    BlobRef,
    File,
    FileChange,
    Image,
    Message,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UnknownPart,
)

_DATA_URL = re.compile(r"data:[^,]{0,200};base64,")
_ANY_BYTES = "latin-1"
_HALF_ZEROS = 0.4  # of every other byte: UTF-16 of a text in Latin letters
_LOOKED_AT_BYTES = 4096


def redact_message(message: Message, redactor: Redactor, where: str) -> Message:
    """Return a message without secrets."""
    return msgspec.structs.replace(
        message,
        role=redactor.text(message.role, where),
        content=cleaned_parts(message.content, redactor, where),
        model=_optional(message.model, redactor, where),
        stop=_optional(message.stop, redactor, where),
        stream=_optional(message.stream, redactor, where),
        request=_optional(message.request, redactor, where),
        extra=redactor.value(message.extra, where),
    )


def cleaned_parts(parts: list[AnyPart], redactor: Redactor, where: str) -> list[AnyPart]:
    """Return parts without secrets, not even one that is spread over several of them."""
    texts = iter(redactor.texts([each.text for each in parts if isinstance(each, Text)], where))
    done: list[AnyPart] = []
    for part in parts:
        if isinstance(part, UnknownPart):
            done.append(UnknownPart(fields=redactor.value(part.fields, where)))
            continue
        changed: dict[str, Any] = (
            {"text": next(texts)} if isinstance(part, Text) else _own_fields(part, redactor, where)
        )
        if part.extra:
            changed["extra"] = redactor.value(part.extra, where)
        if part.blob is not None:
            changed["blob"] = _cleaned_reference(part.blob, redactor, where)
        done.append(msgspec.structs.replace(part, **changed))
    return done


def _optional(text: str | None, redactor: Redactor, where: str) -> str | None:
    return None if text is None else redactor.text(text, where)


def _own_fields(part: AnyPart, redactor: Redactor, where: str) -> dict[str, Any]:
    match part:
        case Thinking():
            text = redactor.text(part.text, where)
            return {"text": text, "signature": part.signature if text == part.text else None}
        case ToolCall():
            return {
                "id": redactor.text(part.id, where),
                "name": redactor.text(part.name, where),
                "arguments": redactor.value(part.arguments, where),
                "partial": _optional(part.partial, redactor, where),
            }
        case ToolResult():
            return {
                "call_id": redactor.text(part.call_id, where),
                "outcome": redactor.text(part.outcome, where),
                "content": cleaned_parts(part.content, redactor, where),
                "changes": [_cleaned_change(each, redactor, where) for each in part.changes],
            }
        case Image() | File():
            return _cleaned_media(part, redactor, where)
        case Opaque():
            vendor = redactor.text(part.vendor, where)
            return {"vendor": vendor, "data": redactor.value(part.data, where)}
        case _:
            return {}


def _cleaned_media(part: Image | File, redactor: Redactor, where: str) -> dict[str, Any]:
    changed: dict[str, Any] = {"media_type": redactor.text(part.media_type, where)}
    if part.url is not None:
        changed["url"] = _cleaned_url(part.url, redactor, where)
    if isinstance(part, File):
        changed["name"] = redactor.text(part.name, where)
    if part.data:
        changed["data"] = _cleaned_base64(part.data, redactor, where)
    return changed


def _cleaned_url(url: str, redactor: Redactor, where: str) -> str:
    head = _DATA_URL.match(url)
    if head is None:
        return redactor.text(url, where)
    return redactor.text(head[0], where) + _cleaned_base64(url[head.end() :], redactor, where)


def _cleaned_base64(encoded: str, redactor: Redactor, where: str) -> str:
    """Return the payload of a file without secrets if it holds text; else untouched."""
    try:
        data = b64decode(encoded, validate=True)
    except ValueError:
        return redactor.text(encoded, where)  # whatever it is, it is not what it should be
    clean = cleaned_bytes(data, redactor, where)
    return encoded if clean == data else b64encode(clean).decode()


def cleaned_bytes(data: bytes, redactor: Redactor, where: str) -> bytes:
    """Return the bytes of a file, without secrets if it holds text."""
    encoding = _encoding(data)
    if encoding is None:
        return data
    text = data.decode(encoding)
    clean = redactor.text(text, where)
    return data if clean == text else clean.encode(encoding)


def _encoding(data: bytes) -> str | None:
    """Return how a text is encoded, ``None`` if the bytes are no text.

    Marks of the order of bytes stay part of the text. Bytes of another kind that have no zero among
    them, as in older encodings, are taken one by one.
    """
    zeros = data[:_LOOKED_AT_BYTES]
    if data.startswith(BOM_UTF16_LE) or zeros[1::2].count(0) > _HALF_ZEROS * len(zeros[1::2]):
        return "utf-16-le" if _decodes(data, "utf-16-le") else None
    if data.startswith(BOM_UTF16_BE) or zeros[::2].count(0) > _HALF_ZEROS * len(zeros[::2]):
        return "utf-16-be" if _decodes(data, "utf-16-be") else None
    if b"\0" in data:
        return None
    return "utf-8" if _decodes(data, "utf-8") else _ANY_BYTES


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _cleaned_change(change: FileChange, redactor: Redactor, where: str) -> FileChange:
    return msgspec.structs.replace(change, path=redactor.text(change.path, where))


def _cleaned_reference(blob: BlobRef, redactor: Redactor, where: str) -> BlobRef:
    """Return a reference whose payload could not be read: the beginning of it shows."""
    return msgspec.structs.replace(
        blob,
        preview=redactor.text(blob.preview, where),
        media_type=redactor.text(blob.media_type, where),
    )


def text_in(part: Part) -> str | None:
    """Return the text that a file holds in UTF-8, ``None`` if it holds anything else."""
    if not isinstance(part, File) or not part.data:
        return None
    try:
        data = b64decode(part.data, validate=True)
    except ValueError:
        return None
    return data.decode() if _encoding(data) == "utf-8" else None
