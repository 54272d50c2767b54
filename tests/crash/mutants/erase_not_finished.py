"""Opening does not finish an erasure that a crash broke off: the bytes stay on the disk."""

from __future__ import annotations

from holdfast.store.local import open as opening

CAUGHT_BY = ("A",)
VARIANT = "erased"


def apply() -> None:
    vars(opening)["unfinished"] = lambda *_: None  # the defect itself
