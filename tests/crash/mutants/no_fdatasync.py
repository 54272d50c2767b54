"""The writer never syncs the journal: a power cut takes what was acknowledged."""

from __future__ import annotations

from holdfast.journal.files import Files

CAUGHT_BY = ("B", "E")


def apply() -> None:
    Files.in_one = False  # so that the journal is written by what is broken here
    Files.sync = lambda self, descriptor: None  # type: ignore[method-assign]  # the defect itself
