"""A follower shows entries that are not synced: a power cut takes back what was seen."""

from __future__ import annotations

from holdfast.store.local.reader import Journal
from holdfast.store.local.watch import FileWatch

CAUGHT_BY = ("B",)
VARIANT = "followed"


def apply() -> None:
    def believe(self: FileWatch, journal: Journal, end: int) -> bool:
        del self, journal, end
        return True

    FileWatch._is_durable = believe  # type: ignore[method-assign]  # the defect itself
