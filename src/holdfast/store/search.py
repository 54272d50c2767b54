"""What a search returns. How it is found is in ``finding``, which loads SQLite."""

from __future__ import annotations

from msgspec import Struct, field


class Hit(Struct, frozen=True):
    """A message, or a title, that has the words: which one, and what stands around the first.

    ``highlights`` are the places of the words in ``snippet``. ``kind`` tells where they are: text,
    thinking, tool_call, tool_result or title; ``tool`` and ``model`` tell whose. ``depth`` is 0 for
    whole words, 1 if one is the beginning of a word, 2 if it is inside of one. ``rank`` is higher
    for what is more about them. ``title``, ``workspace`` and ``agent`` are the session's.
    """

    session: str
    seq: int
    role: str
    at: str
    snippet: str
    highlights: list[tuple[int, int]] = field(default_factory=list)
    kind: str = "text"
    tool: str | None = None
    model: str | None = None
    title: str | None = None
    workspace: str | None = None
    agent: str = ""
    depth: int = 0
    rank: float = 0.0
