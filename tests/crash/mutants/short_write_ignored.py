"""The writer takes a short write for a whole one: it acknowledges half an entry."""

from __future__ import annotations

import os

from holdfast.files import Files

CAUGHT_BY = ("A",)


def apply() -> None:
    append = Files.append

    def append_something(self: Files, descriptor: int, data: bytes, end: int) -> int:
        append(self, descriptor, data, end)
        return len(data)

    Files.append = append_something  # type: ignore[method-assign]  # the defect itself
    Files.write = _write  # type: ignore[method-assign]  # the same


def _write(self: Files, descriptor: int, data: bytes) -> int:
    os.write(descriptor, data)
    return len(data)
