"""How a session comes to be on disk: with its first entries, whole, or not at all.

``Home.make_session`` does it. An interrupt right after it leaves a session that nobody was told of;
whoever then tries again finds it in the way. It is discarded if it is ours beyond doubt: nobody
holds it, and it has nothing that we are not about to write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import SessionExists, SessionLocked
from holdfast.store.local.layout import JOURNAL_NAME
from holdfast.store.local.lock import Lock
from holdfast.version import __version__

if TYPE_CHECKING:
    from holdfast.store.local.layout import Home
    from holdfast.store.local.lock import AppendTarget


def make_session(home: Home, session_id: str, data: bytes, payloads: list[bytes]) -> AppendTarget:
    """Make the session on disk with its first lines, durable on return.

    Raises:
        SessionExists: there is one of that id, which is not what we left there.
    """
    try:
        return home.make_session(session_id, [data], payloads, [])
    except SessionExists:
        if not _discard_leaving(home, session_id, data):
            raise
    return home.make_session(session_id, [data], payloads, [])


def _discard_leaving(home: Home, session_id: str, data: bytes) -> bool:
    """Discard what an interrupt left when we made the session, before anybody was told.

    Only if nobody else holds it or has written to it.
    """
    folder = home.folder(session_id)
    try:
        if not _is_leaving(home, session_id, data):
            return False  # before a lock file is made, or a link followed
        lock = Lock.acquire(home.files, folder, __version__)
    except (OSError, SessionLocked):
        return False
    try:
        ours = _is_leaving(home, session_id, data)
        if ours:
            home.files.remove_tree(folder)
        return ours
    finally:
        lock.release()


def _is_leaving(home: Home, session_id: str, data: bytes) -> bool:
    journal = home.folder(session_id) / JOURNAL_NAME
    if not home.has(session_id):
        return False
    there = home.files.read_small(journal, len(data))
    return there is not None and data.startswith(there)
