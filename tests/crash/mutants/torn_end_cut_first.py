"""A torn end is cut off before it is saved: a crash between the two throws it away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.files import Files
from holdfast.store.local import open as opening
from holdfast.store.local.repair import SetAside, Tail
from holdfast.store.local.segment import Segment

CAUGHT_BY = ("A", "B")
VARIANT = "followed"


def apply() -> None:
    save: Any = opening.quarantine_tail  # type: ignore[attr-defined]  # as the module itself has it

    def cut_first(files: Files, folder: Path, segment: Segment, tail: Tail) -> SetAside:
        torn = segment.read(tail.end, tail.size)
        descriptor = files.open_append(segment.path)
        try:
            files.truncate(descriptor, tail.end)
            files.sync(descriptor)
        finally:
            files.close(descriptor)
        segment.read = lambda start, end: torn  # type: ignore[method-assign]  # still in memory
        result: SetAside = save(files, folder, segment, tail)
        return result

    opening.quarantine_tail = cut_first  # type: ignore[attr-defined]  # the defect itself
