"""Damage in the middle has the journal cut off there: everything behind it is lost to the session.

What is cut is kept aside, as after a crash, so that nothing but the session shows it.
"""

from __future__ import annotations

import msgspec

from holdfast.journal.damage import Damage
from holdfast.store.local import open as opening
from holdfast.store.local import repair
from holdfast.store.local.reader import Journal
from holdfast.store.local.repair import Tail

CAUGHT_BY = ("I",)


def apply() -> None:
    real = repair.inspect_tail

    def examine(journal: Journal) -> Tail:
        tail = real(journal)
        for record in journal.records():
            if isinstance(record, Damage) and record.offset < tail.end:
                return msgspec.structs.replace(tail, end=record.offset, newline_missing=False)
        return tail

    opening.inspect_tail = examine  # type: ignore[attr-defined]  # the defect itself
