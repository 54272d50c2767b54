"""What an exporter is: a small object that writes a conversation in one format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from holdfast.exchange.exporting.transcript import Transcript


class Exporter(Protocol):
    """Writes one format. Has no state: any number of exports may go on at once.

    Contract, for all of it: reads through ``transcript`` alone, which has applied depth and
    redaction; whatever a text holds, the output is whole and safe to open; nothing is written to
    disk here.
    """

    name: str
    """What people type: ``markdown``."""
    title: str
    """What people read: ``Markdown``."""

    def file_name(self, transcript: Transcript) -> str:
        """Return the name that the file should have.

        For a file that another agent is to find it is a path, relative to the folder of that
        agent's sessions.
        """

    def chunks(self, transcript: Transcript) -> Iterator[bytes]:
        """Yield the file, piece by piece.

        Contract: memory does not grow with the conversation, where the format allows that.
        """
