"""What of a message can be searched, and how text is compared.

Texts are compared *folded*: regardless of case, and of accents on Latin letters. For the index they
are *spaced* as well: scripts that are written without blanks (Chinese, Japanese, Thai …) are taken
apart into single characters, so that a phrase of them is found wherever it stands.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.model.message import Message, Text, Thinking, ToolCall, ToolResult
from holdfast.store.blobs import put_back

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.store.blobs import Blobs

MOST_CHARACTERS = 4 * 1024 * 1024
"""No more of a single text is searched."""

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
"""Scripts without blanks between words, as the inside of a set in a regular expression."""

_UNSPACED = re.compile(f"[{UNSPACED}]")
_ACCENTED = re.compile("[\u00c0-\u024f\u0300-\u036f\u1e00-\u1eff]")


class Piece(NamedTuple):
    """One text of a message. ``kind`` is text, thinking, tool_call, tool_result or title."""

    kind: str
    text: str
    tool: str | None = None


def folded(text: str) -> str:
    """Return a text as it is compared."""
    text = text.casefold()
    return text if text.isascii() else _ACCENTED.sub(_plain, text)


def _plain(found: re.Match[str]) -> str:
    return _without_accents(found[0])


@lru_cache(maxsize=1024)
def _without_accents(letter: str) -> str:
    return "".join(each for each in unicodedata.normalize("NFD", letter) if each < "\u0300")


def spaced(text: str) -> str:
    """Return a folded text as the index takes it."""
    return text if text.isascii() else _UNSPACED.sub(r" \g<0> ", text)


def pieces_of(
    message: Message, blobs: Blobs, tool_of: Callable[[str], str | None]
) -> Iterator[Piece]:
    """Yield the texts of a message; ``tool_of`` tells which tool a call was for."""
    for part in message.content:
        if isinstance(part, Text | Thinking):
            yield Piece(str(part.__struct_config__.tag), _text(part, blobs))
        elif isinstance(part, ToolCall):
            given = "\n".join(_strings(_whole(part, blobs).arguments))
            text = f"{part.name}\n{given}{part.partial or ''}"
            yield Piece("tool_call", text[:MOST_CHARACTERS], part.name)
        elif isinstance(part, ToolResult):
            inner = (each for each in part.content if isinstance(each, Text | Thinking))
            text = "\n".join(_text(each, blobs) for each in inner)
            yield Piece("tool_result", text[:MOST_CHARACTERS], tool_of(part.call_id))


def _text(part: Text | Thinking, blobs: Blobs) -> str:
    whole = _whole(part, blobs)
    text = whole.text or (whole.blob.preview if whole.blob is not None else "")
    return str(text[:MOST_CHARACTERS])


def _whole(part: Any, blobs: Blobs) -> Any:
    """Return a part with its payload, unless that is too large to be searched, or is lost."""
    if part.blob is None or part.blob.size_bytes > MOST_CHARACTERS:
        return part
    return put_back(Message(role="", content=[part]), blobs).content[0]


def _strings(value: Any) -> Iterable[str]:
    """Yield what is said in JSON data, keys included; nested however deep."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            for key, item in reversed(each.items()):
                waiting += (item, key)
        elif isinstance(each, list):
            waiting += reversed(each)
        elif isinstance(each, str | int | float):
            yield str(each)
