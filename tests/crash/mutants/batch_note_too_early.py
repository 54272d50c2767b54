"""The note of a published batch is written before the sessions' places are durable.

Whoever finds the note goes on as if the sessions were safe: what they were made from is put away.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.files import Files
from holdfast.store.local.bulk_publish import THEN_NAME, Batch

CAUGHT_BY = ("B",)
VARIANT = "moved"


def apply() -> None:
    publish: Any = Batch.publish

    def note_first(self: Batch, then: bytes) -> set[str]:
        files, places = self.files, self._target.sessions

        class Hasty(Files):
            def __getattribute__(self, name: str) -> Any:
                own = ("sync_folder", "publish", "__class__")
                return object.__getattribute__(self if name in own else files, name)

            def sync_folder(self, folder: Path) -> None:
                if folder != places:
                    files.sync_folder(folder)

            def publish(self, path: Path, data: bytes) -> None:
                files.publish(path, data)
                if path.name == THEN_NAME:
                    files.sync_folder(places)

        self.files = Hasty()
        try:
            result: set[str] = publish(self, then)
            return result
        finally:
            self.files = files

    Batch.publish = note_first  # type: ignore[method-assign]  # the defect itself
