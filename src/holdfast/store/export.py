"""A conversation as one text: for programs, or to be read.

The formats that a session writes by itself, with nothing but this library, also when its disk has
failed. What other programs understand is made by the exporters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.model.codec import dumps, plain
from holdfast.store.markdown import markdown

if TYPE_CHECKING:
    from holdfast.model.message import Message

FORMATS = ("json", "jsonl", "markdown")


def text_of(
    format: str,  # noqa: A002  as users say it
    session_id: str,
    meta: dict[str, Any],
    messages: list[Message],
    incomplete: str | None,
) -> str:
    """Return a conversation in one of the ``FORMATS``; JSON says why it is incomplete, if it is."""
    if format == "markdown":
        return "".join(markdown(session_id, meta, messages))
    if format == "jsonl":
        return "".join(dumps(plain(message)).decode() + "\n" for message in messages)
    whole = {
        "session": session_id,
        "meta": meta,
        "messages": [plain(message) for message in messages],
    }
    if incomplete is not None:
        whole["incomplete"] = incomplete
    return dumps(whole).decode()
