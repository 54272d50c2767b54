"""JSON in the shape of the journal: one object, or a message a line.

Every field that a message has is in it, those of later versions too; each message also has its
number and its time. What is not in it: other branches, what requests cost one by one, approvals,
queued prompts, events.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.exchange.exporting.transcript import Line, Transcript
from holdfast.model.codec import dumps, plain


class JsonExporter:
    """A conversation as one JSON object."""

    name = "json"
    title = "JSON"

    def file_name(self, transcript: Transcript) -> str:
        """Return the session's id with the usual ending."""
        return f"{transcript.id}.json"

    def chunks(self, transcript: Transcript) -> Iterator[bytes]:
        """Yield the object, message by message."""
        head = {
            "session": transcript.id,
            "started": transcript.started,
            "updated": transcript.updated,
            "meta": transcript.meta,
            "totals": msgspec.to_builtins(transcript.state.totals),
        }
        yield dumps(head)[:-1] + b',"messages":['
        comma = b""
        for line in transcript.lines():
            yield comma + dumps(_row(line))
            comma = b","
        yield b"]}\n"


class JsonLinesExporter:
    """A conversation as JSON, a message a line."""

    name = "jsonl"
    title = "JSON Lines"

    def file_name(self, transcript: Transcript) -> str:
        """Return the session's id with the usual ending."""
        return f"{transcript.id}.jsonl"

    def chunks(self, transcript: Transcript) -> Iterator[bytes]:
        """Yield the lines."""
        for line in transcript.lines():
            yield dumps(_row(line)) + b"\n"


def _row(line: Line) -> dict[str, Any]:
    return {"seq": line.seq, "at": line.at, **plain(line.message)}
