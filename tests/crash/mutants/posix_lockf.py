"""The lock is POSIX ``lockf``: closing any descriptor of the lock file lets a second writer in."""

from __future__ import annotations

import fcntl
from types import SimpleNamespace

from holdfast.store.local import lock

CAUGHT_BY = ("H",)


def apply() -> None:
    lock.fcntl = SimpleNamespace(  # type: ignore[attr-defined, assignment]  # the defect itself
        flock=fcntl.lockf, LOCK_EX=fcntl.LOCK_EX, LOCK_SH=fcntl.LOCK_SH, LOCK_NB=fcntl.LOCK_NB
    )
