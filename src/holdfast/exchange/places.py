"""From foreign ids to numbers, for millions of them in little memory.

Nearly every id that is looked up was added a moment ago. The last ones are in a dictionary; older
ones in sorted blocks of plain integers, sixteen bytes an id: of its hash, which nobody can foresee,
and of its number.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence

_BLOCK = 1 << 16
_MASK = (1 << 64) - 1


class Places:
    """Remembers a number for each id; a later one wins."""

    def __init__(self) -> None:
        self._recent: dict[str, int] = {}
        self._blocks: list[tuple[array[int], array[int]]] = []

    def put(self, id: str, number: int) -> None:
        """Remember a number, -1 or more."""
        self._recent[id] = number
        if len(self._recent) >= _BLOCK:
            self._settle()

    def put_all(self, ids: Sequence[str], number: int) -> None:
        """Remember the same number for several ids."""
        self._recent.update(dict.fromkeys(ids, number))
        if len(self._recent) >= _BLOCK:
            self._settle()

    def get(self, id: str) -> int | None:
        """Return the number, ``None`` if the id was never seen."""
        found = self._recent.get(id)
        if found is None and self._blocks:
            wanted = hash(id) & _MASK
            for keys, numbers in reversed(self._blocks):
                index = bisect_left(keys, wanted)
                if index < len(keys) and keys[index] == wanted:
                    return numbers[index]
        return found

    def _settle(self) -> None:
        pairs = sorted((hash(id) & _MASK, number) for id, number in self._recent.items())
        keys = array("Q", [key for key, _ in pairs])
        self._blocks.append((keys, array("q", [number for _, number in pairs])))
        self._recent = {}
