"""The recorders that are open in this process, and what becomes of them with it.

A forked child leaves them to its parent. At the end of the interpreter what was submitted and
never waited for is written. A recorder that is dropped is not kept alive from here.
"""

from __future__ import annotations

import atexit
import logging
import os
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from holdfast.store.write.recorder import Recorder

_LOG = logging.getLogger("holdfast")
_open: WeakSet[Recorder] = WeakSet()


def add(recorder: Recorder) -> None:
    """Take note of a recorder that is open."""
    _open.add(recorder)


def discard(recorder: Recorder) -> None:
    """Forget a recorder that is closed."""
    _open.discard(recorder)


def _leave_all_to_parent() -> None:
    for recorder in list(_open):
        recorder.leave_to_parent()
    _open.clear()


os.register_at_fork(after_in_child=_leave_all_to_parent)


@atexit.register
def _close_all() -> None:
    """Write what was submitted and never waited for, before the interpreter goes."""
    for recorder in list(_open):
        try:
            recorder.close()
        except Exception as error:  # noqa: BLE001  the end of the process: close the others too
            _LOG.critical("%s", error)
