"""Opening empties the live file before what was in it is durable: a second crash takes the text."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from holdfast.store.write.streams import Streams

CAUGHT_BY = ("C",)


def apply() -> None:
    """Give this process the defect."""
    adopt: Any = Streams.adopt

    def adopt_and_empty(self: Streams, names: Collection[str]) -> None:
        adopt(self, names)
        if self._file is not None:
            self._file.clear()

    Streams.adopt = adopt_and_empty  # type: ignore[method-assign]  # the defect itself
