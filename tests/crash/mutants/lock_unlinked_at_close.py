"""Whoever lets go of the lock removes its file: two who find different files may both write."""

from __future__ import annotations

import os

from holdfast.store.local.lock import Lock

CAUGHT_BY = ("A",)


def apply() -> None:
    release = Lock.release

    def release_and_remove(self: Lock) -> None:
        path = None
        if self.held and self._descriptor >= 0:
            path = os.readlink(f"/proc/self/fd/{self._descriptor}")
        release(self)
        if path is not None and os.path.exists(path):
            os.unlink(path)

    Lock.release = release_and_remove  # type: ignore[method-assign]  # the defect itself
