"""Streamed text is shown before it is written: killing the process takes what a client has seen.

Followers of this process are handed events as they come, while the live file gets them only
together with its next sync.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from weakref import WeakKeyDictionary

from holdfast.model.event import Event
from holdfast.store.local.layout import LIVE_NAME
from holdfast.store.local.live import LiveFile
from holdfast.store.read.follower import Follower

CAUGHT_BY = ("D",)


def apply() -> None:
    unwritten: dict[Path, list[Event]] = {}
    known: dict[Path, list[Event]] = {}
    given: WeakKeyDictionary[Follower, int] = WeakKeyDictionary()
    append_now, sync_now, clear_now = LiveFile.append, LiveFile.sync, LiveFile.clear

    def append(self: LiveFile, events: Iterable[Event]) -> None:
        new = list(events)
        unwritten.setdefault(self._path, []).extend(new)
        known.setdefault(self._path, []).extend(new)

    def sync(self: LiveFile) -> None:
        append_now(self, unwritten.pop(self._path, []))
        sync_now(self)

    def clear(self: LiveFile) -> None:
        unwritten.pop(self._path, None)
        clear_now(self)

    def new_events(self: Follower) -> list[Event]:
        events = known.get(Path(self._ref.location) / LIVE_NAME, [])[given.get(self, 0) :]
        given[self] = given.get(self, 0) + len(events)
        return events

    LiveFile.append = append  # type: ignore[method-assign]  # the defect itself
    LiveFile.sync = sync  # type: ignore[method-assign]  # the defect itself
    LiveFile.clear = clear  # type: ignore[method-assign]  # the defect itself
    Follower._new_events = new_events  # type: ignore[method-assign]  # the defect itself
