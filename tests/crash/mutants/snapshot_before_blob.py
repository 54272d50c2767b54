"""A line is durable before the blob that it names: a crash in between leaves no data under it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.journal.format import Cursor
from holdfast.model.entry import Entry
from holdfast.store.local.log_writer import FileLogWriter

CAUGHT_BY = ("A", "B")
VARIANT = "erased"


def apply() -> None:
    append: Any = FileLogWriter.append

    def too_early(
        self: FileLogWriter, entries: Sequence[Entry], payloads: Sequence[bytes], after: Cursor
    ) -> None:
        if not self.exists:
            append(self, entries, payloads, after)
            return
        append(self, entries, (), after)
        assert self.place is not None
        self._store(self.place, payloads)

    FileLogWriter.append = too_early  # type: ignore[method-assign]  # the defect itself
