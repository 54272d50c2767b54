"""The file that says as which process a command runs is synced before it is written."""

from __future__ import annotations

import os

from holdfast.runtime.tools.shell import wrapper

CAUGHT_BY = ("B",)
VARIANT = "wrapped"


def apply() -> None:
    def write(path: str, content: bytes, *, sync: bool) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            if sync:
                os.fsync(descriptor)
            os.write(descriptor, content)
        finally:
            os.close(descriptor)

    wrapper._write = write
