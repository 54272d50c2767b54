"""Opening says how far a journal is durable before it has synced it: followers believe that."""

from __future__ import annotations

from typing import Any

from holdfast.files import Files
from holdfast.store.local import open as opening
from holdfast.store.local.lock import Lock
from holdfast.store.local.reader import Journal
from holdfast.store.local.repair import Tail

CAUGHT_BY = ("B",)
VARIANT = "followed"


def apply() -> None:
    place: Any = opening._place

    def note_and_place(files: Files, journal: Journal, lock: Lock, tail: Tail) -> Any:
        lock.note_durable(journal.last.inode, tail.end)
        return place(files, journal, lock, tail)

    opening._place = note_and_place
