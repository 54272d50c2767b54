"""The writer takes a short write for a whole one: it acknowledges half an entry."""

from __future__ import annotations

import os

from holdfast.journal.files import Files

CAUGHT_BY = ("A",)


def apply() -> None:
    Files.in_one = False  # so that the journal is written by what is broken here
    Files.write = _write  # type: ignore[method-assign]  # the defect itself


def _write(self: Files, descriptor: int, data: bytes) -> int:
    os.write(descriptor, data)
    return len(data)
