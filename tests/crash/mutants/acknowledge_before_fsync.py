"""A sync is made one call too late: what was acknowledged last is not durable yet."""

from __future__ import annotations

import os

from holdfast.files import Files

CAUGHT_BY = ("B", "E")


def apply() -> None:
    sync = Files.sync
    late: list[int] = []

    def acknowledge_first(self: Files, descriptor: int) -> None:
        late.append(os.dup(descriptor))
        if len(late) > 1:
            earlier = late.pop(0)
            try:
                sync(self, earlier)
            finally:
                os.close(earlier)

    def append_and_sync_later(self: Files, descriptor: int, data: bytes, end: int) -> int:
        del end
        return self.append_in_two(descriptor, data)

    Files.append = append_and_sync_later  # type: ignore[method-assign]  # the defect itself
    Files.sync = acknowledge_first  # type: ignore[method-assign]  # the same
