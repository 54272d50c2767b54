"""Damage in the middle has the journal cut off there: everything behind it is lost to the session.

What is cut is kept aside, as after a crash, so that nothing but the session shows it.
"""

from __future__ import annotations

import msgspec

from holdfast.journal import repair
from holdfast.journal.damage import Damage
from holdfast.journal.reader import Journal
from holdfast.journal.repair import Tail
from holdfast.store import opening

CAUGHT_BY = ("I",)


def apply() -> None:
    real = repair.examine

    def examine(journal: Journal) -> Tail:
        tail = real(journal)
        for record in journal.records():
            if isinstance(record, Damage) and record.offset < tail.end:
                return msgspec.structs.replace(tail, end=record.offset, newline_missing=False)
        return tail

    opening.examine = examine  # type: ignore[attr-defined]  # the defect itself
