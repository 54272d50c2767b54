"""Copies of files that may have holes: in pieces, durable, and no larger than the original.

A large hole stays a hole in the copy, and one at the end is left out: it has no content, and
writing it would take room that the original does not take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from holdfast.journal.bounded import data_pieces
from holdfast.model.ids import new_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.files import Files


def save_bytes(
    files: Files, descriptor: int, span: tuple[int, int], damaged: Path, name: str
) -> Path:
    """Copy the bytes of ``span`` to ``<name>-<crc32>.bin`` in the folder ``damaged``.

    The name has the content in it: a second tear at the same place must not overwrite the first.
    """
    files.make_real_folder(damaged)
    files.sync_folder(damaged.parent)
    return _copy(files, descriptor, span, damaged, lambda crc: f"{name}-{crc:08x}.bin")


def copy_file(files: Files, source: Path, target: Path) -> None:
    """Copy a regular file."""
    descriptor = files.open_regular(source)
    try:
        span = (0, files.status(descriptor).st_size)
        _copy(files, descriptor, span, target.parent, lambda _: target.name)
    finally:
        files.close(descriptor)


def _copy(
    files: Files,
    descriptor: int,
    span: tuple[int, int],
    folder: Path,
    name: Callable[[int], str],
) -> Path:
    temporary = folder / f".copy.{new_name()}"
    copy = files.open_append(temporary, create=True)
    start, end = span
    written = checksum = 0
    try:
        try:
            for offset, piece in data_pieces(files, descriptor, start, end):
                if offset - start > written:
                    files.truncate(copy, offset - start)
                files.write_all(copy, piece)
                written = offset - start + len(piece)
                checksum = crc32(piece, checksum)
            files.sync(copy)
        finally:
            files.close(copy)
        path = folder / name(checksum)
        files.rename(temporary, path)
    except BaseException:
        files.unlink(temporary)
        raise
    files.sync_folder(folder)
    return path
