"""Names: of sessions, of sessions known by a caller's key, of files and streams.

A session id reads well and sorts by time: ``20261115-194012-k3v9q2ab``. A caller's own key gets an
id made from its hash, so that no two keys can collide and none can reach into the file system.
Every id that comes from outside is matched against ``SESSION_ID`` before it touches a path.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable

from holdfast.errors import SessionNotFound, UsageError

# No l, o, 0, 1: ids are read aloud and typed.
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_KEY_PREFIX = "key-"

SESSION_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[a-z0-9]{8}|key-[a-z2-7]{52}")
_PART = re.compile(r"[a-z0-9-]{1,64}")
_SHOWN_CHARACTERS = 60
_MOST_SHOWN_CANDIDATES = 5


def new_session_id() -> str:
    """Return a fresh id that starts with the current time (UTC)."""
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + new_name()


def new_name() -> str:
    """Return eight random characters (40 bits), for streams, temporary files and ids."""
    return "".join(_ALPHABET[each % len(_ALPHABET)] for each in _random(8))  # 32 letters: even odds


def new_uid() -> str:
    """Return a random identity (128 bits) that tells two sessions of one id apart."""
    return _random(16).hex()


def _random(size: int) -> bytes:
    return os.urandom(size)


def key_session_id(key: str) -> str:
    """Return the id under which the session of a caller's ``key`` is kept."""
    if not isinstance(key, str) or not key:
        raise UsageError("A session key must be a non-empty string.")
    import hashlib  # noqa: PLC0415  a list of sessions needs neither
    from base64 import b32encode  # noqa: PLC0415  as above

    # A lone surrogate is a legal str and so a legal key; it must not make hashing fail.
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return _KEY_PREFIX + b32encode(digest).decode().rstrip("=").lower()


def is_keyed(session_id: str) -> bool:
    """Tell whether the id belongs to a session named by a caller's key."""
    return session_id.startswith(_KEY_PREFIX)


def folder_of(session_id: str) -> str:
    """Return the folder below ``sessions/`` that holds the session: a month, or ``keyed``."""
    return "keyed" if is_keyed(session_id) else f"{session_id[:4]}-{session_id[4:6]}"


def check_part(part: str) -> str:
    """Return ``part`` if it can be a part of an id, else raise ``UsageError``."""
    if not isinstance(part, str) or not _PART.fullmatch(part):
        shown = repr(part) if isinstance(part, str) else f"A value of type {type(part).__name__}"
        if len(shown) > _SHOWN_CHARACTERS:
            shown = f"{shown[:_SHOWN_CHARACTERS]}…"
        raise UsageError(
            f"{shown} is not a session id: use an id such as 20261115-194012-k3v9q2ab, or any "
            "part of one."
        )
    return part


def only_match(part: str, ids: Iterable[str]) -> str:
    """Return the one id that has ``part`` in it.

    Raises:
        SessionNotFound: there is none.
        UsageError: there are several.
    """
    found = sorted(each for each in ids if part in each)
    if not found:
        raise SessionNotFound(f"No session has {part!r} in its id; list() returns all sessions.")
    if len(found) > 1:
        shown = ", ".join(found[:_MOST_SHOWN_CANDIDATES])
        more = len(found) - _MOST_SHOWN_CANDIDATES
        raise UsageError(
            f"{part!r} is part of {len(found)} session ids: {shown}"
            f"{f' and {more} more' if more > 0 else ''}. Use a longer part."
        )
    return found[0]
