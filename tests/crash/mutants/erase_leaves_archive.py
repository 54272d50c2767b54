"""Erasing leaves what compactions archived: the bytes of an erased entry are still on the disk."""

from __future__ import annotations

from holdfast.store.local import erasure

CAUGHT_BY = ("A",)
VARIANT = "erased"


def apply() -> None:
    erasure._rewrite_archive = lambda *_: None  # the defect itself
