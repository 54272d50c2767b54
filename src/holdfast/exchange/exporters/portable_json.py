"""What formats of vendors and of other agents have in common.

What one vendor signed or encrypted means nothing to another. And not everybody reads what JSON
allows: half of a surrogate pair ends many parsers, so a replacement character takes its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from uuid import UUID, uuid5

import msgspec

from holdfast.model.codec import dumps
from holdfast.model.message import File, Image, Message, Text

_NAMES = UUID("6f5a3c1e-8d54-5b0e-9a53-2f4b1d7c9e60")
_LONGEST_FOLDER_BYTES = 200
_HALF = re.compile("[\ud800-\udfff]")
_MODELS = {
    "anthropic": re.compile(r"claude"),
    "openai": re.compile(r"(?:^|/)(?:gpt|chatgpt|codex|o\d)"),
}


def is_of(vendor: str, message: Message, provider: str) -> bool:
    """Tell whether a vendor's model said a message; ``provider`` is the session's.

    The model's name tells, where there is one that somebody knows.
    """
    if message.model:
        for name, pattern in _MODELS.items():
            if pattern.search(message.model):
                return name == vendor
    return provider == vendor


def data_url(part: Image | File) -> str:
    """Return the address of what a part holds; what is inside the part becomes a ``data:`` URL."""
    if part.data:
        return f"data:{part.media_type};base64,{part.data}"
    return part.url or ""


def line(value: Any) -> bytes:
    """Return a JSON line that every parser reads."""
    return _encoded(value) + b"\n"


def inside(value: Any) -> str:
    """Return JSON that stands in a string, as vendors write the arguments of calls."""
    return _encoded(value).decode()


def _encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return dumps(_whole(value))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return _HALF.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_whole(key): _whole(held) for key, held in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return value


def folder_name(text: str) -> str:
    """Return text as part of a folder's name: such as every file system takes, and not too long."""
    return _HALF.sub("\ufffd", text).encode()[:_LONGEST_FOLDER_BYTES].decode(errors="ignore")


def uuid_of(*names: object) -> str:
    """Return a UUID that is the same whenever the names are: a second export is the same file."""
    return str(uuid5(_NAMES, "/".join(map(str, names))))


def words_in(messages: Iterable[Message]) -> str:
    """Return the text of a summary."""
    texts = [part.text for message in messages for part in message.content if type(part) is Text]
    return "\n\n".join(text for text in texts if text)
