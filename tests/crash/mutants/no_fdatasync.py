"""The writer never syncs the journal: a power cut takes what was acknowledged."""

from __future__ import annotations

from holdfast import files
from holdfast.files import Files

CAUGHT_BY = ("B", "E")


def apply() -> None:
    files._DSYNC = 0  # what is written in one call is not synced by it
    Files.sync = lambda self, descriptor: None  # type: ignore[method-assign]  # the defect itself
