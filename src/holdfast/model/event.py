"""What is being streamed right now: one piece of text of one stream, not yet an entry."""

from __future__ import annotations

from msgspec import Struct
from msgspec.json import Decoder


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


# msgspec looks a type up when it is first used, and two threads that do so at the same time crash
# the process (0.22). So it is looked up now, while modules are imported one by one.
Decoder(Event)
