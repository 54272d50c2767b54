"""What a session knows of files: the digest of each as it last read or wrote it.

An edit of a file that somebody else changed in between would be made on a false picture of it.
The memory is the process's: after a restart a file has to be read again before it is overwritten.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.runtime.tools.base import Refusal
from holdfast.runtime.tools.workspace import Content, WorkspacePath


class Seen:
    """Digests by absolute path, shared by the tools of one session; safe in threads."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._mutex = threading.Lock()

    @contextmanager
    def alone(self, place: WorkspacePath) -> Iterator[None]:
        """Let one call at a time change a file: parallel calls may name the same."""
        with self._mutex:
            lock = self._locks[place.path]
        with lock:
            yield

    def note(self, place: WorkspacePath, digest: str) -> None:
        """Remember what a file is now."""
        self._digests[place.path] = digest

    def knows(self, place: WorkspacePath) -> bool:
        """Tell whether the file was read or written before."""
        return place.path in self._digests

    def check(self, place: WorkspacePath, content: Content) -> None:
        """See that a file is what it was when last seen, if it ever was.

        Raises:
            Refusal: it is not.
        """
        if self._digests.get(place.path, content.digest) != content.digest:
            raise Refusal(
                f"{place.shown} was changed by another program since you last read it; "
                "read it again first."
            )
