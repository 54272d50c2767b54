"""A mark says other totals than its entries come to: opening believes it and reads no further."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.model.entry import Mark
from holdfast.model.state import State
from holdfast.store.write import encode

CAUGHT_BY = ("D", "A")


def apply() -> None:
    mark_of: Any = encode.mark_of  # type: ignore[attr-defined]  # as the module itself has it

    def mark_twice(state: State) -> Mark:
        totals = msgspec.structs.replace(state.totals, input=2 * state.totals.input)
        mark: Mark = mark_of(msgspec.structs.replace(state, totals=totals))
        return mark

    encode.mark_of = mark_twice  # type: ignore[attr-defined]  # the defect itself
