"""A torn end is cut off before it is saved: a crash between the two throws it away."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryFile
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
        with TemporaryFile() as still_there:
            os.pwrite(still_there.fileno(), torn, tail.end)
            journal, segment.descriptor = segment.descriptor, still_there.fileno()
            try:
                result: SetAside = save(files, folder, segment, tail)
            finally:
                segment.descriptor = journal
        return result

    opening.quarantine_tail = cut_first  # type: ignore[attr-defined]  # the defect itself
