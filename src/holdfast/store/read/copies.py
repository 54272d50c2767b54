"""Which sessions have copies of another's entries: forks, and what they were forked from.

A fork copies lines byte for byte, numbers and checksums included, and its header says which session
it came from. Deleted sessions are looked at, too. A session that cannot be read has no copy.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.model.entry import Header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.store.backend import Backend, Log
    from holdfast.store.types import Deleted


class Relatives:
    """The sessions of a store, and which of them was forked from which. ``gone``: in the trash."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.gone: dict[str, list[Deleted]] = {}
        self._origins: dict[str, set[str]] = {}
        for session_id in backend.ids():
            self._look(session_id, partial(backend.read, backend.ref(session_id)))
        for deleted in backend.trash.deleted():
            self.gone.setdefault(deleted.id, []).append(deleted)
            self._look(deleted.id, partial(backend.trash.log, deleted))

    def _look(self, session_id: str, opened: Callable[[], Log]) -> None:
        origins = self._origins.setdefault(session_id, set())
        for log in _readable(opened):
            body = log.header.body if log.header is not None else None
            if isinstance(body, Header) and body.forked_from is not None:
                origins.add(body.forked_from.session)

    def forks_of(self, session_id: str) -> list[str]:
        """Return the forks of a session, their forks, and so on."""
        found: list[str] = []
        waiting = [session_id]
        while waiting:
            origin = waiting.pop()
            for each, origins in self._origins.items():
                if origin in origins and each != session_id and each not in found:
                    found.append(each)
                    waiting.append(each)
        return sorted(found)

    def with_entry(self, session_id: str, seq: int, line_sum: str) -> list[str]:
        """Return the other sessions of the family that have an entry of that checksum."""
        family, before = {session_id}, 0
        while len(family) != before:
            before = len(family)
            for each, origins in self._origins.items():
                if each in family:
                    family |= origins
                elif origins & family:
                    family.add(each)
        others = (family & self._origins.keys()) - {session_id}
        return sorted(each for each in others if self._has(each, seq, line_sum.encode()))

    def _has(self, session_id: str, seq: int, line_sum: bytes) -> bool:
        backend = self._backend
        for log in _readable(partial(backend.read, backend.ref(session_id))):
            if _is_in(log, seq, line_sum):
                return True
        for deleted in self.gone.get(session_id, ()):
            for log in _readable(partial(backend.trash.log, deleted)):
                if _is_in(log, seq, line_sum):
                    return True
        return False


def _is_in(log: Log, seq: int, line_sum: bytes) -> bool:
    for entry in (log.find(seq), log.find_archived(seq)):
        if entry is not None and entry.type != "gap" and entry.sum == line_sum:
            return True
    return False


def _readable(opened: Callable[[], Log]) -> Iterator[Log]:
    """Yield a log, if it can be read."""
    try:
        with opened() as log:
            yield log
    except (OSError, HoldfastError):
        return
