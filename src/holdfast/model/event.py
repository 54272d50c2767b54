"""What is being streamed right now: one piece of text of one stream, not yet an entry."""

from __future__ import annotations

from msgspec import Struct


class Event(Struct, frozen=True, omit_defaults=True):
    """A line of the live file.

    ``kind`` is text, thinking, tool_call or tool_output; ``after`` is the sequence number that the
    journal had reached when the stream began. ``model`` and ``name`` stand on a stream's lines
    where the finished message will need them.
    """

    stream: str
    kind: str
    after: int
    text: str
    call_id: str | None = None
    name: str | None = None
    model: str | None = None
