"""The portable archive: what is in a ``.holdfast`` file.

It is a ZIP file. A tape archive would do as well for writing, but a ZIP file has a directory at its
end: the manifest, which needs all sums and so is written last, can be read first, and sizes are
known before anything is unpacked. Each file is packed by itself, with what every system has, so
that anybody can look inside without this program.

    manifest.json               which session, and size and SHA-256 of each other file
    journal.jsonl, …            the journal, byte for byte
    blobs/<sha256>              payloads too large for a line
    live.jsonl, archive/, damaged/   where the session has them

What is not in it: the lock, and what a running command has written so far.
"""

from __future__ import annotations

from msgspec import Struct

SUFFIX = ".holdfast"
MANIFEST = "manifest.json"
FORMAT = 1
MOST_FILES = 50_000


class Member(Struct, frozen=True):
    """One file of an archive."""

    name: str
    size_bytes: int
    sha256: str


class Manifest(Struct, frozen=True, omit_defaults=True):
    """What an archive holds.

    ``exact`` is false if something was taken out on the way: secrets, or where the session was.
    ``left_out`` names what could not be taken along, for people.
    """

    format: int
    session: str
    version: str
    at: str
    files: list[Member]
    title: str | None = None
    exact: bool = True
    left_out: list[str] = []
