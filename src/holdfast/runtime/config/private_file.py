"""A small file of ours that nobody else may read: names and texts, as one JSON object.

It is 0600, in a folder that is made 0700; replaced atomically and durably, and changed by one
process at a time. One that others can get at is refused: what they could have read or written is
worth nothing. What is in it never becomes part of a sentence.
"""

from __future__ import annotations

import errno
import fcntl
import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import StorageError, UsageError
from holdfast.files import Files

_LARGEST_BYTES = 1024 * 1024
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class PrivateFile:
    """One such file. Everything here blocks."""

    def __init__(self, path: Path, files: Files | None = None) -> None:
        self.path = path
        self._files = files or Files()

    def read(self) -> dict[str, str]:
        """Return what is in it; nothing if it is not there.

        Raises:
            UsageError: others can get at it, or it is not what was written.
        """
        try:
            data = self._bytes()
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            reason = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
            raise UsageError(f"{self.path} cannot be read: {reason}.") from None
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or not all(type(each) is str for each in found.values()):
            raise UsageError(
                f"{self.path} was not written by Holdfast. Delete it, then add its entries again."
            )
        return found

    @contextmanager
    def changing(self) -> Iterator[dict[str, str]]:
        """Give what is in it, to be changed; written when the block ends without an error.

        Raises:
            StorageError: it cannot be written; what is there is whole.
        """
        try:
            self._files.make_folders(self.path.parent)
            with self._locked():
                content = self.read()
                before = dict(content)
                yield content
                if content != before:
                    # ASCII, because a path may have bytes that are no text.
                    text = json.dumps(content, indent=1) + "\n"
                    self._files.publish(self.path, text.encode())
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written: {error.strerror}.") from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = self._files.open_lock(self.path.with_name(f".{self.path.name}.lock"))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            self._files.close(descriptor)

    def _bytes(self) -> bytes:
        descriptor = self._files.open_read(self.path)
        try:
            status = self._files.status(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_BYTES:
                raise UsageError(f"{self.path} was not written by Holdfast. Delete it.")
            if stat.S_IMODE(status.st_mode) & _OTHERS:
                raise UsageError(
                    f"{self.path} is not used, because others can get at it: "
                    f"chmod 600 {self.path}, if what is in it is yours alone."
                )
            return self._files.read_at(descriptor, status.st_size, 0)
        finally:
            self._files.close(descriptor)
