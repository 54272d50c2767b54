"""The writer syncs again after a failed sync and believes it: the lost pages were acknowledged.

A kernel reports an error of writing back once and throws the pages away; the second sync has
nothing to do and succeeds.
"""

from __future__ import annotations

import os
from contextlib import suppress

from holdfast.files import Files

CAUGHT_BY = ("A", "F")


def apply() -> None:
    append = Files.append

    def append_or_sync(self: Files, descriptor: int, data: bytes, end: int) -> int:
        with suppress(OSError):
            return append(self, descriptor, data, end)
        if os.fstat(descriptor).st_size != end + len(data):
            return append(self, descriptor, data, end)
        os.fdatasync(descriptor)
        return len(data)

    Files.append = append_or_sync  # type: ignore[method-assign]  # the defect itself
    Files.sync = _sync  # type: ignore[method-assign]  # the same


def _sync(self: Files, descriptor: int) -> None:
    with suppress(OSError):
        os.fdatasync(descriptor)
        return
    os.fdatasync(descriptor)
