"""A conversation as Markdown: to be read, pasted and printed by people, not to be read back.

It comes in pieces, so that a long one needs no memory. Whatever a text holds, no piece can steer a
terminal, and none is more than text in a page that is made of it (``markdown_text``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.model.codec import dumps
from holdfast.model.message import (
    File,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from holdfast.store.read.markdown_escape import code, contained, fenced, literal, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.model.message import AnyPart

_ROLES = {"user": "User", "assistant": "Assistant", "tool": "Tool", "system": "System"}
_FACTS = ("workspace", "provider", "model")
_CONDENSED = "*From here on the model sees a summary of what came before:*"


def markdown(
    session_id: str, meta: dict[str, Any], said: Iterable[Message | list[Message]]
) -> Iterator[str]:
    """Yield a whole conversation, with what is known about it at the top.

    A list among the messages is the summary of a compaction.
    """
    yield f"# {literal(str(meta.get('title') or f'Session {session_id}'))}"
    facts = {"session": session_id, **{name: meta[name] for name in _FACTS if meta.get(name)}}
    lines = "\n".join(f"- {name}: {code(str(value))}" for name, value in facts.items())
    yield f"\n\n{lines}"
    for each in said:
        for block in _message(each) if isinstance(each, Message) else _condensed(each):
            yield f"\n\n{block}"
    yield "\n"


def _message(message: Message) -> Iterator[str]:
    name = _ROLES.get(message.role, message.role)
    if message.stop == "interrupted":
        name += " (interrupted)"
    yield f"## {literal(name)}"
    for part in message.content:
        yield from _part(part)


def _condensed(summary: list[Message]) -> Iterator[str]:
    yield _CONDENSED
    for message in summary:
        for part in message.content:
            if isinstance(part, Text):
                yield quoted(part.text)
            else:
                yield from _part(part)


def _part(part: AnyPart) -> Iterator[str]:
    match part:
        case Text():
            yield contained(part.text)
        case Thinking():
            yield quoted(part.text)
        case ToolCall():
            yield f"Calls {code(part.name)}:"
            half = part.partial
            yield fenced(half) if half is not None else fenced(_json(part.arguments), "json")
        case ToolResult():
            yield f"Result ({literal(part.outcome.replace('_', ' '))}):"
            texts = [inner.text for inner in part.content if isinstance(inner, Text)]
            if texts:
                yield fenced("".join(texts))
            for inner in part.content:
                if not isinstance(inner, Text):
                    yield from _part(inner)
        case Image() | File():
            name = part.name if isinstance(part, File) else "image"
            where = f" at {part.url}" if part.url else ""
            yield _note(f"{name}, {part.media_type}{where}")
        case Opaque():
            yield _note(f"data of {part.vendor}")
        case _:
            yield _note(str(part.fields.get("type")))


def _json(value: Any) -> str:
    return dumps(value).decode()


def _note(text: str) -> str:
    return f"*[{literal(text)}]*"
