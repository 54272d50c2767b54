"""What the files of a session are called: known to those who look without reading."""

from __future__ import annotations

JOURNAL_NAME = "journal.jsonl"
LIVE_NAME = "live.jsonl"


def segment_name(number: int) -> str:
    """Return the name of the ``number``-th journal file of a session."""
    return JOURNAL_NAME if number == 1 else f"journal.{number}.jsonl"
