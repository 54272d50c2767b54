"""Who holds a session's lock, as that writer described itself."""

from __future__ import annotations

from msgspec import Struct


class Holder(Struct, frozen=True):
    """A writer's own description of itself, read from the lock file.

    It is information for people. Whether the lock is held is decided by ``flock`` alone: a process
    id may be reused, and the text may be older than the lock.
    """

    pid: int | None = None
    host: str = ""
    since: str = ""
    version: str = ""

    def __str__(self) -> str:
        """Return e.g. ``process 4711 on tower since 2026-11-15T19:40:12.001Z``."""
        if self.pid is None:
            return "another process"
        return f"process {self.pid} on {self.host} since {self.since}"
