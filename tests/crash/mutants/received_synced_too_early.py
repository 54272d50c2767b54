"""A received session is synced before its bytes are written: a power cut leaves it empty."""

from __future__ import annotations

from typing import Any

from holdfast.store.local.staging import FileStaging, StagingFolder
from tests.crash.lab.defects import SyncedTooEarly

CAUGHT_BY = ("B", "E")
VARIANT = "moved"


def apply() -> None:
    begin: Any = StagingFolder.__init__

    def begin_badly(self: StagingFolder, *given: Any) -> None:
        begin(self, *given)
        if isinstance(self, FileStaging):
            self._files = SyncedTooEarly(self._files)  # type: ignore[assignment]  # the defect itself

    StagingFolder.__init__ = begin_badly  # type: ignore[method-assign, assignment]  # the same
