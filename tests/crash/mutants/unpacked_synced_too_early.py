"""A journal that is unpacked is synced before it is written: a power cut leaves neither form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.files import Files
from holdfast.store.local import compress
from tests.crash.lab.defects import SyncedTooEarly

CAUGHT_BY = ("B", "E")
VARIANT = "moved"


def apply() -> None:
    unpack: Any = compress.unpack  # type: ignore[attr-defined]  # as the module itself has it

    def unpack_badly(files: Files, path: Path, keep: Callable[[], None]) -> None:
        unpack(SyncedTooEarly(files), path, keep)

    compress.unpack = unpack_badly  # type: ignore[attr-defined]  # the defect itself
