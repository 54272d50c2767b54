"""What every wire protocol shares on the way out: plain JSON, and words for what cannot be sent.

A request must not fail because of what a tool printed or another program wrote into a session. Lone
surrogates and numbers that JSON lacks are replaced; a part that a provider has no block for becomes
a line that says so. The journal keeps the original.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode
from binascii import Error as NotBase64
from secrets import token_hex
from typing import Any

from holdfast.errors import UsageError
from holdfast.model.codec import encode_body
from holdfast.model.entry import Custom
from holdfast.model.message import File, Image

_SURROGATE = re.compile("[\ud800-\udfff]")
NO_OUTPUT = "(no output)"
"""What a tool result without content says: some servers refuse an empty one."""


def sendable(value: Any) -> Any:
    """Return ``value`` with everything replaced that cannot be written as JSON in UTF-8."""
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {sendable(key): sendable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [sendable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def image_url(part: Image | File) -> str | None:
    """Return an address for a payload: its own, or a data URL; ``None`` if it is gone."""
    if part.url:
        return part.url
    return f"data:{part.media_type};base64,{part.data}" if part.data else None


def text_of(part: File) -> str | None:
    """Return what a text file says, ``None`` if it is no text or not here."""
    if not part.data or not part.media_type.startswith("text/"):
        return None
    try:
        return b64decode(part.data, validate=True).decode()
    except (NotBase64, UnicodeDecodeError):
        return None


def file_as_text(name: str, text: str) -> str:
    """Return a text file as it stands in a prompt."""
    return f'<file name="{name}">\n{text}\n</file>'


def note(part: Image | File) -> str:
    """Return the words that stand for an image or a file that cannot be sent."""
    if isinstance(part, Image):
        return f"[image not shown: {part.media_type}]"
    return f"[file not shown: {part.name}, {part.media_type}]"


def new_id() -> str:
    """Return an id for a call whose server gave none."""
    return f"call_{token_hex(12)}"


def arguments_of(text: str) -> Any:
    """Return the arguments of a tool call from their JSON text.

    Nothing at all and ``null`` are no arguments; an object that was encoded twice is decoded twice.
    Text that is no JSON, or holds what no journal can (NaN, numbers beyond all bounds, nesting
    without end), comes back as it is: the tool tells the model what is wrong with it.
    """
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
        if isinstance(value, str):
            value = json.loads(value)
        encode_body(Custom("arguments", value))
    except (ValueError, RecursionError, UsageError):
        return text
    return {} if value is None else value
