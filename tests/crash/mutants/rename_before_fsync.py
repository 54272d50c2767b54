"""A new file gets its name before its bytes are synced: the name may be all that is left.

Files are written under names that begin with a dot, or in folders whose names do, and then renamed.
Their sync is put off until after the rename; when the call returns, everything is durable.
"""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.files import Files

CAUGHT_BY = ("B",)


def apply() -> None:
    sync, rename = Files.sync, Files.rename
    put_off: list[int] = []

    def sync_unless_temporary(self: Files, descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.name.startswith(".") or path.parent.name.startswith("."):
            put_off.append(os.dup(descriptor))
        else:
            sync(self, descriptor)

    def rename_and_sync(self: Files, source: Path, target: Path) -> None:
        rename(self, source, target)
        while put_off:
            descriptor = put_off.pop()
            sync(self, descriptor)
            os.close(descriptor)

    Files.sync = sync_unless_temporary  # type: ignore[method-assign]  # the defect itself
    Files.rename = rename_and_sync  # type: ignore[method-assign]  # the defect itself
