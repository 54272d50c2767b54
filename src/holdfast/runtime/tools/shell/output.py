"""A command's output: followed as it grows, and cut to what a model is shown.

The file has bytes of any kind. They are decoded as UTF-8, a bad one replaced; control sequences
stay as they are (``terminal`` makes text fit for a screen). Everything here blocks.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path

from holdfast.files import Files
from holdfast.runtime.tools.shell.spool import CommandStatus

HEAD_CHARACTERS = 20_000
TAIL_CHARACTERS = 10_000
MOST_FOLLOWED_BYTES = 1024 * 1024
_PIECE_BYTES = 64 * 1024
_LONGEST_CHARACTER_BYTES = 4
_files = Files()


class OutputFollower:
    """Reads what is added to a file, whole characters at a time.

    After a megabyte it says once that there is more: a person cannot follow that, and it would
    all be written down twice.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._full = False

    def more(self, upto_bytes: int = MOST_FOLLOWED_BYTES) -> str:
        """Return what is new, but for the beginning of a character at its end."""
        text = ""
        end = min(upto_bytes, MOST_FOLLOWED_BYTES)
        while (size := min(_PIECE_BYTES, end - self._offset)) > 0:
            data = _read(self._path, size, self._offset)
            if not data:
                break
            self._offset += len(data)
            text += self._decoder.decode(data)
        if self._offset == MOST_FOLLOWED_BYTES and not self._full:
            self._full = _read(self._path, 1, self._offset) != b""
            if self._full:
                text += "\n[more output is not shown while it runs]\n"
        return text

    def rest(self, status: CommandStatus | None) -> str:
        """Return what is new when the command has ended."""
        text = self.more(size_of(self._path) if status is None else status.size_bytes)
        return text if self._full else text + self._decoder.decode(b"", final=True)


def size_of(path: Path) -> int:
    """Return the size of an output, 0 if there is none."""
    try:
        return _files.status_of(path).st_size
    except OSError:
        return 0


def shown(path: Path, size_bytes: int, keep: Callable[[bytes], str]) -> str:
    """Return an output as a model is shown it: whole, or its beginning and its end.

    Then all of it is kept as a blob, which the text names.
    """
    most = HEAD_CHARACTERS + TAIL_CHARACTERS
    if size_bytes <= most * _LONGEST_CHARACTER_BYTES:
        text = _read(path, size_bytes, 0).decode("utf-8", "replace")
        if len(text) <= most:
            return text
        head, tail = text[:HEAD_CHARACTERS], text[-TAIL_CHARACTERS:]
        left_out = f"{len(text) - most:,} characters"
    else:
        head = _head(_read(path, HEAD_CHARACTERS * _LONGEST_CHARACTER_BYTES, 0))
        tail_bytes = TAIL_CHARACTERS * _LONGEST_CHARACTER_BYTES
        tail = _tail(_read(path, tail_bytes, size_bytes - tail_bytes))
        left_out = "most"
    try:
        whole = f"all of it is in blob {keep(_read(path, size_bytes, 0))}"
    except OSError as error:
        whole = f"it could not be stored in full: {error.strerror}"
    sentence = f"[{left_out} of {size_bytes:,} bytes left out here; {whole}]"
    return f"{head}\n{sentence}\n{tail}"


def _head(data: bytes) -> str:
    # Not final: a character that is cut at the end is left away.
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data)[:HEAD_CHARACTERS]


def _tail(data: bytes) -> str:
    # At most three bytes belong to a character that began before, and what follows them has enough
    # characters even if each takes four bytes: it is cut off with the surplus.
    return data.decode("utf-8", "replace")[-TAIL_CHARACTERS:]


def _read(path: Path, size: int, offset: int) -> bytes:
    try:
        descriptor = _files.open_read(path)
    except OSError:
        return b""
    try:
        return _files.read_at(descriptor, size, offset)
    finally:
        _files.close(descriptor)
