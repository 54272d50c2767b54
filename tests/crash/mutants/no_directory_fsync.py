"""No folder is ever synced: a power cut takes the names of files whose bytes are safe."""

from __future__ import annotations

from holdfast.files import Files

CAUGHT_BY = ("B",)


def apply() -> None:
    Files.sync_folder = lambda self, folder: None  # type: ignore[method-assign]  # the defect itself
