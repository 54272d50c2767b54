"""What the index keeps of one session, in values that SQLite takes and gives back.

Whatever another program wrote into a journal, a row either holds it unchanged or cannot be made:
making one raises before SQLite is asked.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.store.contract import Summary

_SUMMARY = msgspec.msgpack.Decoder(Summary)


class Row(msgspec.Struct, frozen=True):
    """What the index knows of one session; ``values`` are its columns, in their order."""

    turn_open: bool
    has_live: bool
    summary: Summary
    values: tuple[Any, ...]


def row_of(summary: Summary, fingerprint: bytes, *, turn_open: bool, has_live: bool) -> Row:
    """Return the row of a session whose journal had that fingerprint."""
    values = (
        summary.id,
        fingerprint,
        speakable(summary.updated),
        column(summary.workspace),
        column(summary.project),
        turn_open,
        has_live,
        packed(summary),
    )
    return Row(turn_open, has_live, summary, values)


def column(text: str | None) -> bytes | None:
    """Return text as it is compared: a path may have bytes that are not UTF-8."""
    return None if text is None else text.encode("utf-8", "surrogatepass")


def speakable(text: str) -> str:
    """Return text that SQLite takes: without halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def packed(summary: Summary) -> bytes:
    """Return a summary as bytes."""
    try:
        return msgspec.msgpack.encode(summary)
    except (UnicodeEncodeError, OverflowError):
        # A lone surrogate, or a number of more than 64 bits. The standard library's JSON holds
        # them, and unlike ours an infinite sum of costs beside them.
        import json  # noqa: PLC0415  few need it, and most lists have no time for it

        return json.dumps(msgspec.to_builtins(summary)).encode()


def unpacked(data: bytes) -> Summary:
    """Return the summary that was packed; what it raises if there is none in it may be anything."""
    if not data.startswith(b"{"):  # which no MessagePack object starts with
        return _SUMMARY.decode(data)
    import json  # noqa: PLC0415  as above

    return msgspec.convert(json.loads(data), Summary)
