"""A conversation as one text: for programs, or to be read.

The formats that a session writes by itself, with nothing but this library, also when its disk has
failed. What other programs understand is made by the exporters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw

from holdfast.errors import UsageError
from holdfast.model.codec import dumps, encode_body, plain
from holdfast.store.read.markdown import markdown

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
    """Return a conversation in one of the ``FORMATS``; JSON says if and why it is incomplete.

    Raises:
        UsageError: it is nested too deeply for the recursion limit.
    """
    try:
        if format == "markdown":
            return "".join(markdown(session_id, meta, messages))
        if format == "jsonl":
            return "".join(_json(message).decode() + "\n" for message in messages)
        return _object(session_id, meta, messages, incomplete)
    except RecursionError:
        raise UsageError(
            f"Session {session_id} is nested too deeply to be exported here: "
            "try again with a higher recursion limit, or from a less deep call stack."
        ) from None


def _object(
    session_id: str, meta: dict[str, Any], messages: list[Message], incomplete: str | None
) -> str:
    whole = {
        "session": session_id,
        "meta": meta,
        "messages": [Raw(_json(message)) for message in messages],
    }
    if incomplete is not None:
        whole["incomplete"] = incomplete
    return dumps(whole).decode()


def _json(message: Message) -> bytes:
    try:
        return dumps(plain(message))
    except RecursionError as error:
        # The way into a journal goes deeper: it needs no Python call for each level.
        try:
            return encode_body(message)[0]
        except UsageError:
            raise error from None
