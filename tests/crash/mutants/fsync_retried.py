"""The writer syncs again after a failed sync and believes it: the lost pages were acknowledged.

A kernel reports an error of writing back once and throws the pages away; the second sync has
nothing to do and succeeds.
"""

from __future__ import annotations

import os
from contextlib import suppress

from holdfast.journal.files import Files

CAUGHT_BY = ("A", "F")


def apply() -> None:
    Files.in_one = False  # so that the journal is written by what is broken here
    Files.sync = _sync  # type: ignore[method-assign]  # the defect itself


def _sync(self: Files, descriptor: int) -> None:
    with suppress(OSError):
        os.fdatasync(descriptor)
        return
    os.fdatasync(descriptor)
