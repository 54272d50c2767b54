"""Blobs as files: payloads too large for a line, and what a program keeps.

A blob is named by its SHA-256, written before the entry that names it, and never changed. Only
garbage collection removes one.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from holdfast.errors import StorageError
from holdfast.files import PASSING
from holdfast.journal.bounded import BoundedReader

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.files import Files

BLOBS_NAME = "blobs"
LARGEST_BLOB_BYTES = 1024**3
"""A larger file is not read. A size is a claim: a file with holes takes no room on disk."""


class Blobs:
    """The blobs of one session folder."""

    def __init__(self, files: Files, folder: Path) -> None:
        self._files = files
        self.folder = folder / BLOBS_NAME

    def write(self, data: bytes) -> str:
        """Store ``data`` durably and return its name."""
        name = sha256(data).hexdigest()
        self._files.make_real_folder(self.folder)
        self._files.sync_folder(self.folder.parent)  # also if a process that died had made it
        path = self.folder / name
        if self.is_intact(name, sync=True):
            # It may have been written a moment ago by somebody who has not synced the folder yet.
            self._files.sync_folder(self.folder)
        else:  # also if it was altered since: the entry that is about to name it relies on it
            self._files.publish(path, data)
        return name

    def read_named(self, name: str) -> bytes | None:
        """Return a blob's bytes, ``None`` if it is missing, too large or not what its name says.

        Raises:
            StorageError: this process cannot open it now, for want of descriptors or memory.
        """
        try:
            with BoundedReader(self._files, self.folder / name) as reader:
                if reader.size_bytes > LARGEST_BLOB_BYTES:
                    return None
                data = b"".join(reader.chunks())
        except ValueError:  # a name with a NUL in it
            return None
        except OSError as error:
            if error.errno not in PASSING:
                return None
            # It is there; a preview in its place would be taken for all there is.
            raise StorageError(f"{self.folder / name} cannot be read: {error}.") from error
        return data if sha256(data).hexdigest() == name else None

    def is_intact(self, name: str, *, sync: bool = False) -> bool:
        """Tell whether a blob is there and is what its name says; in little memory.

        With ``sync`` its bytes survive a power cut, too, if it is.
        """
        found = sha256()
        try:
            with BoundedReader(self._files, self.folder / name) as reader:
                if reader.size_bytes > LARGEST_BLOB_BYTES:
                    return False
                for chunk in reader.chunks():
                    found.update(chunk)
                if sync:  # whoever brought it back from a backup need not have done so
                    self._files.sync(reader.descriptor)
        except (OSError, ValueError):  # it is not there, or the name has a NUL in it
            return False
        return found.hexdigest() == name
