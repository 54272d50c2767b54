"""A session becomes a file for others: whole and durable, or not there at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.errors import DiskFull, StorageError, UsageError
from holdfast.exchange.exporters import exporter
from holdfast.exchange.exporting.transcript import ExportOptions, Transcript
from holdfast.exchange.redaction.redactor import SecretFinding
from holdfast.files import NO_ROOM, Files
from holdfast.model.ids import new_name

if TYPE_CHECKING:
    from holdfast.exchange.exporters.base import Exporter
    from holdfast.store.session import Session

Progress = Callable[[int], None]
"""Called with the bytes written so far. What it raises ends the export and leaves nothing."""


class Exported(Struct, frozen=True):
    """What was written: the file, its size, and the secrets that were replaced in it."""

    path: Path
    size_bytes: int
    findings: list[SecretFinding]


def export(session: Session, name: str, options: ExportOptions | None = None) -> Iterator[bytes]:
    """Yield a session in the format of that name, piece by piece.

    Raises:
        UsageError: there is no such format, an option is wrong, or the session is empty.
    """
    return exporter(name).chunks(Transcript(session, options))


def export_to(
    session: Session,
    name: str,
    path: Path,
    options: ExportOptions | None = None,
    *,
    replace: bool = False,
    progress: Progress | None = None,
    files: Files | None = None,
) -> Exported:
    """Write a session to a file, or into a folder under the name that the format suggests.

    The file is private (0600). It is there whole or not at all; one that is there already is left
    alone unless ``replace`` is true.

    Raises:
        UsageError: as ``export``; or there is such a file.
        DiskFull: there is no room; nothing is left of it.
        StorageError: it cannot be written.
    """
    made, transcript = exporter(name), Transcript(session, options)
    writer = _Writing(files or Files(), path, progress)
    try:
        target = writer.target(made, transcript)
        if not replace and writer.files.exists(target):
            raise UsageError(f"{target} already exists. Choose another name, or allow overwriting.")
        size = writer.write(target, made.chunks(transcript))
    except OSError as error:
        if error.errno in NO_ROOM:
            raise DiskFull(path, ()) from error
        raise StorageError(f"{path} cannot be written: {error}.") from error
    redactor = transcript.options.redactor
    return Exported(target, size, list(redactor.findings) if redactor is not None else [])


class _Writing:
    def __init__(self, files: Files, path: Path, progress: Progress | None) -> None:
        self.files = files
        self._path = path
        self._progress = progress

    def target(self, made: Exporter, transcript: Transcript) -> Path:
        if not self._path.is_dir():
            return self._path
        return self._path / made.file_name(transcript)

    def write(self, target: Path, chunks: Iterator[bytes]) -> int:
        files = self.files
        files.make_folders(target.parent)
        temporary = target.with_name(f".{new_name()}.part")
        descriptor = files.open_append(temporary, create=True)
        size = 0
        try:
            try:
                for chunk in chunks:
                    files.write_all(descriptor, chunk)
                    size += len(chunk)
                    if self._progress is not None:
                        self._progress(size)
                files.sync(descriptor)
            finally:
                files.close(descriptor)
            files.rename(temporary, target)
        except BaseException:
            with suppress(OSError):
                files.unlink(temporary)
            raise
        files.sync_folder(target.parent)
        return size
