"""A staged session gets its place without a sync of its files: a power cut leaves it empty."""

from __future__ import annotations

from typing import Any

from holdfast.store.local.staging import Staging, StagingFolder
from tests.crash.lab.defects import Unsynced

CAUGHT_BY = ("B", "E")
VARIANT = "moved"


def apply() -> None:
    begin: Any = StagingFolder.__init__

    def begin_badly(self: StagingFolder, *given: Any) -> None:
        begin(self, *given)
        if isinstance(self, Staging):
            self._files = Unsynced(self._files)  # type: ignore[assignment]  # the defect itself

    StagingFolder.__init__ = begin_badly  # type: ignore[method-assign, assignment]  # the same
