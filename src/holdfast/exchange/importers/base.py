"""What an importer is: a small object that finds and reads the sessions of one agent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from holdfast.errors import ImportRejected
from holdfast.exchange.importing.items import Item, Source
from holdfast.exchange.importing.source_files import SourceReader

MOST_SNIFFED = 20
"""So many files of a folder are looked at before it is nobody's."""


class Importer(Protocol):
    """Reads one agent's sessions. Has no state: any number of readings may go on at once.

    Contract, for all of it: files are opened through ``reading`` alone and never written; no shape
    of any line raises (``exchange.fields`` sees to that); memory does not grow with the source.
    """

    name: str
    """What people type: ``claude-code``."""
    title: str
    """What people read: ``Claude Code``."""

    def found(self, home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
        """Return where the agent keeps its sessions, if it is used on this machine.

        Contract: looks at no file but for its existence; what is not there may be named all the
        same.
        """

    def sniff(self, path: Path, reading: SourceReader) -> bool:
        """Tell whether a file, or the files of a folder, look like sessions of this agent."""

    def sessions(self, path: Path, reading: SourceReader) -> Iterator[Source]:
        """Yield the sessions in a file or below a folder, in a stable order.

        Contract: cheap: looks at names and sizes, and into a file only where its name does not say
        which session it is.
        """

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Yield what a session says, in its order.

        Contract: the same source gives the same items; a source that has grown gives the same
        items and then more, apart from what was still incomplete at its end.

        Raises:
            ImportRejected: nothing of it can be read.
        """


def document_beside(path: Path, reading: SourceReader) -> Any:
    """Return what a JSON file beside a session says: facts that it can be read without.

    ``None`` if there is none; one that cannot be read is reported.
    """
    if not path.is_file():
        return None
    try:
        return reading.document(path)
    except ImportRejected as error:
        reading.report(f"cannot be used: {error.reason}")
        return None
