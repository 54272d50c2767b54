"""Cleanup: what has become old goes to the trash, and what never became a session goes for good.

Nobody who is writing loses anything: a session that is locked stays, and so does a folder in which
one is still being made. Which sessions are old is told by the list; ``trash`` moves them.
"""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from holdfast.errors import SessionLocked, UsageError
from holdfast.journal.lock import probe
from holdfast.store.contract import DAMAGED
from holdfast.store.home import discard_folder
from holdfast.store.trash import move_to_trash

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.store.contract import Summary
    from holdfast.store.home import Home

Moment = datetime | timedelta | float
_ABANDONED_AFTER_NS = 3600 * 1_000_000_000


def point_in_time(older_than: Moment) -> datetime:
    """Return the time before which a session is old.

    Raises:
        UsageError: it is no time, or an age that nothing has; a negative one would take everything.
    """
    if isinstance(older_than, datetime):
        return older_than
    try:
        age = older_than if isinstance(older_than, timedelta) else timedelta(seconds=older_than)
        moment = datetime.now(UTC) - age
    except (TypeError, ValueError, OverflowError):
        raise UsageError(
            f"{older_than!r} is neither a time nor an age (a timedelta, or seconds) within reach."
        ) from None
    if age < timedelta(0):
        raise UsageError(f"{older_than!r} is no age: it is less than nothing.")
    return moment


def move_all_to_trash(home: Home, summaries: Iterable[Summary]) -> int:
    """Move sessions to the trash, except those that are damaged or in use; return how many."""
    moved = 0
    for summary in summaries:
        if summary.state != DAMAGED:
            with suppress(SessionLocked, FileNotFoundError):
                move_to_trash(home, home.folder(summary.id))
                moved += 1
    return moved


def discard_abandoned(home: Home) -> None:
    """Remove what was left of sessions whose making was cut off before any acknowledgement."""
    for folder in home.abandoned(time.time_ns() - _ABANDONED_AFTER_NS):
        if probe(home.files, folder) is None:
            discard_folder(home.files, folder)
