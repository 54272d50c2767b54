"""What the files of a session are called: known to those who look without reading."""

from __future__ import annotations

JOURNAL_NAME = "journal.jsonl"
LIVE_NAME = "live.jsonl"
