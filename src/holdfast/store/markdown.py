"""A conversation as Markdown: to be read, pasted and printed by people, not to be read back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from holdfast.model.codec import dumps
from holdfast.model.message import (
    File,
    Image,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.model.message import AnyPart, Message

_ROLES = {"user": "User", "assistant": "Assistant", "tool": "Tool", "system": "System"}
_FACTS = ("workspace", "provider", "model")
_FENCES = re.compile("`{3,}")


def markdown(session_id: str, meta: dict[str, Any], messages: Iterable[Message]) -> str:
    """Return a whole conversation, with what is known about it at the top."""
    blocks = [f"# {_one_line(meta.get('title') or f'Session {session_id}')}"]
    facts = {"session": session_id, **{name: meta[name] for name in _FACTS if meta.get(name)}}
    blocks.append("\n".join(f"- {name}: {_code(str(value))}" for name, value in facts.items()))
    for message in messages:
        blocks.append(_heading(message))
        blocks += [block for part in message.content for block in _part(part)]
    return "\n\n".join(blocks) + "\n"


def _heading(message: Message) -> str:
    name = _ROLES.get(message.role, message.role)
    if message.stop == "interrupted":
        name += " (interrupted)"
    return f"## {_one_line(name)}"


def _part(part: AnyPart) -> Iterator[str]:
    match part:
        case Text():
            yield part.text
        case Thinking():
            yield "\n".join(f"> {line}" for line in part.text.split("\n"))
        case ToolCall():
            yield f"Calls {_code(part.name)}:"
            half = part.partial
            yield _fenced(half) if half is not None else _fenced(_json(part.arguments), "json")
        case ToolResult():
            yield f"Result ({part.outcome.replace('_', ' ')}):"
            texts = [inner.text for inner in part.content if isinstance(inner, Text)]
            if texts:
                yield _fenced("".join(texts))
            for inner in part.content:
                if not isinstance(inner, Text):
                    yield from _part(inner)
        case Image() | File():
            name = part.name if isinstance(part, File) else "image"
            where = f" at {part.url}" if part.url else ""
            yield f"*[{_one_line(name)}, {part.media_type}{where}]*"
        case Opaque():
            yield f"*[data of {_one_line(part.vendor)}]*"
        case _:
            yield f"*[{_one_line(str(part.fields.get('type')))}]*"


def _json(value: Any) -> str:
    return dumps(value).decode()


def _fenced(text: str, language: str = "") -> str:
    """Return a code block whose fence is longer than any in the text."""
    longest = max((len(run) for run in _FENCES.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return "\n".join([fence + language, text.removesuffix("\n"), fence])


def _code(text: str) -> str:
    """Return text as it stands, in a line."""
    text = _one_line(text)
    return f"`{text}`" if "`" not in text else f"`` {text} ``"


def _one_line(text: str) -> str:
    return " ".join(str(text).split())
