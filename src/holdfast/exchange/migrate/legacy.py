"""What is in a legacy store: sessions of whatever agent, and files that are none.

A folder is first shown to every importer as a whole, because some sessions are told from others by
what is beside them. What the one that knows it does not take for its own by itself is shown to all
of them again, file by file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, field

from holdfast.exchange.importers import everybody, recognised
from holdfast.exchange.importers.base import Importer
from holdfast.exchange.importing.items import Source
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.store.types import LEFT, Migrated

_SUFFIXES = (".json", ".jsonl")
_DATABASE = b"SQLite format 3\0"


class Legacy(Struct):
    """The sessions that were found, each with who reads it, and what is to be left alone."""

    sources: list[tuple[Importer, Source]] = field(default_factory=list)
    left: list[Migrated] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    """Every file that belongs to somebody."""

    @property
    def size_bytes(self) -> int:
        """How much there is to read."""
        return sum(source.size_bytes for _, source in self.sources)

    def leave(self, path: str, reason: str, agent: str | None = None) -> None:
        """Note something that stays where it is."""
        self.left.append(Migrated(path, LEFT, agent, reason=reason))

    def add(
        self, importer: Importer, path: Path, reading: SourceReader, others: Sequence[Importer] = ()
    ) -> None:
        """Add all sessions that an importer finds in a place, unless they are another's."""
        for source in importer.sessions(path, reading):
            seen = source.path in self.files
            file = Path(source.path)
            if others and not seen and not importer.sniff(file, reading):
                owner = recognised(file, reading, others)
                if owner is not None:
                    self.add(owner, file, reading)
                    continue
            self.files.update(files_of(source))
            if reading.head(file, len(_DATABASE)) == _DATABASE:
                if not seen:
                    self.leave(
                        source.path, "is a database; use holdfast import instead", source.agent
                    )
            else:
                self.sources.append((importer, source))


def files_of(source: Source) -> tuple[str, ...]:
    """Return all files of a session."""
    return (source.path, *source.others)


def look(path: Path, reading: SourceReader) -> Legacy:
    """Find everything in a file or below a folder. Changes nothing."""
    legacy, importers = Legacy(), list(everybody())
    importer = recognised(path, reading, importers)
    reading.begin_again()  # what those thought of it whose it is not
    if importer is not None:
        legacy.add(importer, path, reading, importers)
    for file in reading.files_below(path, *_SUFFIXES):
        if str(file) not in legacy.files:
            own = recognised(file, reading, importers)
            if own is None:
                legacy.leave(str(file), "is not a known session format")
            else:
                legacy.add(own, file, reading)
    for problem in dict.fromkeys((each.path, each.reason) for each in reading.problems):
        legacy.left.append(Migrated(problem[0], LEFT, reason=problem[1], damaged=True))
    return legacy
