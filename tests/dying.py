"""A process that dies at one call that changes the disk: before it, after it, or in a write."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from tests.disk import FakeUnsyncedFiles

_CHANGING = (
    "open_append",
    "open_lock",
    "write",
    "write_at",
    "truncate",
    "sync",
    "sync_folder",
    "make_folder",
    "rename",
    "link",
    "unlink",
    "remove_folder",
    "touch",
    "set_mode",
)
_ENDED, _DIED, _FAILED = 0, 3, 4


class FakeDyingFiles(FakeUnsyncedFiles):
    """Counts the calls that change the disk, and ends the process at one of them."""

    def __init__(self, number: int = -1, moment: str = "") -> None:
        self.count = 0
        self._number = number
        self._moment = moment

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        real = functools.partial(getattr(FakeUnsyncedFiles, method), self, *args, **kwargs)
        counts = method == "write" or self._moment != "torn"
        here = counts and self.count == self._number
        self.count += counts
        if here and self._moment == "before":
            os._exit(_DIED)
        if here and self._moment == "torn":
            os.write(args[0], args[1][: len(args[1]) // 2])
            os._exit(_DIED)
        result = real()
        if here:
            os._exit(_DIED)
        return result


def _counted(method: str) -> Callable[..., Any]:
    def call(self: FakeDyingFiles, *args: Any, **kwargs: Any) -> Any:
        return self._call(method, *args, **kwargs)

    return call


for _method in _CHANGING:
    if hasattr(FakeUnsyncedFiles, _method):
        setattr(FakeDyingFiles, _method, _counted(_method))

MOMENTS = ("before", "after", "torn")


def dies(work: Callable[[FakeDyingFiles], object], number: int, moment: str) -> bool:
    """Do ``work`` in a process of its own that dies at a call; tell whether it got so far."""
    child = os.fork()
    if not child:
        code = _FAILED
        try:
            work(FakeDyingFiles(number, moment))
            code = _ENDED
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (_ENDED, _DIED), f"the work failed by itself, with {code}"
    return code == _DIED
