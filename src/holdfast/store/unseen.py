"""A session's folder under a name that nobody looks at, until it is given its place.

What a process leaves that dies meanwhile is swept away by ``cleanup``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.journal.lock import Lock
from holdfast.store.home import discard_folder
from holdfast.store.refusals import os_errors
from holdfast.version import __version__

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from holdfast.store.home import Home


class Unseen:
    """A session that is being made, locked. Used by one thread, as a context manager."""

    def __init__(self, home: Home, session_id: str) -> None:
        self.id = session_id
        self._home = home
        self._files = home.files
        with os_errors(f"{home.root} cannot be written", home.root):
            self._folder = home.make_folder()
            self._lock = Lock.acquire(self._files, self._folder, __version__)
        self._open = True

    def _give_place(self) -> None:
        """Let everybody see it; from here on it is a session like any other."""
        self._home.publish(self._folder, self.id)
        self._let_go()
        self._files.sync_folder(self._home.sessions)

    def _let_go(self) -> None:
        self._open = False
        self._lock.release()

    def discard(self) -> None:
        """Leave nothing of it, if it was not published."""
        if self._open:
            with suppress(OSError):
                discard_folder(self._files, self._folder)
            self._let_go()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Discard what was not published."""
        self.discard()
