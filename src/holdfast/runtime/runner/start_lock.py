"""The lock of starts: one runner of a home begins at a time, and whoever waits stays responsive.

The lock is a file in the folder of a home's runners. Where that folder is below ``/tmp``, the last
runner removes both; so whoever has got the lock sees whether it is still the one that others find.
"""

from __future__ import annotations

import asyncio
import fcntl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.files import Files
from holdfast.runtime.protocol.socket_path import is_short_lived, prepare_folder, run_folder

LOCK_NAME = "starting"
LONGEST_SECONDS = 30.0
_LOOK_AGAIN_SECONDS = 0.05
_files = Files()


class StartsBlocked(StorageError):
    """Somebody else's start of a runner does not come to an end."""

    exit_code = 75


@asynccontextmanager
async def starting(home: Path) -> AsyncIterator[None]:
    """Let one runner start at a time.

    Raises:
        StartsBlocked: another start takes too long.
        StorageError, OSError: there is no place for the lock.
    """
    deadline = time.monotonic() + LONGEST_SECONDS
    while (descriptor := _locked(prepare_folder(home) / LOCK_NAME)) is None:
        if time.monotonic() > deadline:
            raise StartsBlocked(
                f"Another process has been starting a runner for {LONGEST_SECONDS:.0f} seconds and "
                f"holds {run_folder(home) / LOCK_NAME}. Try again, or end that process "
                "(find it with fuser)."
            )
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)
    try:
        yield
    finally:
        _files.close(descriptor)


def _locked(lock: Path) -> int | None:
    """Return a descriptor that holds the lock, ``None`` if somebody else does."""
    try:
        descriptor = _files.open_lock(lock)
    except FileNotFoundError:  # the folder was removed just now
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _files.status(descriptor).st_ino == _files.status_of(lock).st_ino:
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        _files.close(descriptor)
        raise
    _files.close(descriptor)
    return None


def tidy(home: Path) -> None:
    """Remove the folder of a home's runners if it is below ``/tmp`` and nothing is in it any more.

    Nobody who starts a runner meanwhile is disturbed: it is removed under the lock or not at all.
    """
    folder = run_folder(home)
    if not is_short_lived(folder):
        return
    with suppress(OSError):
        descriptor = _locked(folder / LOCK_NAME)
        if descriptor is None:
            return
        try:
            if _files.names(folder) == [LOCK_NAME]:
                _files.unlink(folder / LOCK_NAME)
                _files.remove_folder(folder)
        finally:
            _files.close(descriptor)
