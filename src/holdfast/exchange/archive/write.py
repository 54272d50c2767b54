"""A ``.holdfast`` archive: the session itself, to be taken to another machine.

As it is, byte for byte; or, if secrets or the workspace are to be taken out, written anew. What is
in it is described in ``exchange/archive/manifest.py``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from hashlib import sha256
from io import RawIOBase
from itertools import chain
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import msgspec

from holdfast.errors import UsageError
from holdfast.exchange.archive.manifest import (
    FORMAT,
    MANIFEST,
    MOST_FILES,
    SUFFIX,
    Manifest,
    Member,
)
from holdfast.exchange.archive.sanitized_copy import SanitizedCopy
from holdfast.exchange.exporting.depth import EVERYTHING
from holdfast.exchange.exporting.transcript import Transcript
from holdfast.files import Files
from holdfast.journal.bounded import LARGE_HOLE_BYTES, LIMITS
from holdfast.journal.format import timestamp
from holdfast.model.ids import new_name
from holdfast.model.sanitize import for_terminal
from holdfast.store.local.blobs import Blobs
from holdfast.store.local.layout import JOURNAL_NAME, LIVE_NAME, os_errors
from holdfast.store.local.live import MOST_READ_BYTES
from holdfast.store.local.reader import Journal
from holdfast.store.local.repair import inspect_tail
from holdfast.store.local.staging import is_session_file
from holdfast.store.session import Session
from holdfast.store.write.blob_refs import blobs_of
from holdfast.version import __version__

_CHUNK_BYTES = 1024 * 1024
_LARGE_BYTES = 1024**3  # from here on the format needs longer fields
_LARGEST_RATIO = 100  # what shrinks more is left as it is: on import it would look like a bomb
_FOLDERS = ("blobs", "archive", "damaged")
_FIRST_YEAR = 1980  # that the format knows


class ArchiveExporter:
    """A session with all that belongs to it."""

    name = "archive"
    title = "Holdfast archive"

    def file_name(self, transcript: Transcript) -> str:
        """Return the session's id with our ending."""
        return f"{transcript.id}{SUFFIX}"

    def chunks(self, transcript: Transcript) -> Iterator[bytes]:
        """Yield the archive.

        Raises:
            UsageError: less than everything was asked for, or there is too much of it.
        """
        if transcript.options.depth != EVERYTHING:
            raise UsageError("An archive always contains the whole session. Leave out --depth.")
        with _files_of(transcript) as journal:
            writer = _Writer(transcript, journal.folder)
            rewritten = transcript.options.redactor or transcript.options.strip_workspace
            yield from writer.anew(journal) if rewritten else writer.exact(journal)
            yield from writer.finish(exact=not rewritten)


@contextmanager
def _files_of(transcript: Transcript) -> Iterator[Journal]:
    """Give the session's files as they are now, up to the last whole entry.

    Of a session that is not in a folder they are written to a temporary one.
    """
    with ExitStack() as stack:
        folder = transcript.session.folder or stack.enter_context(_copy_of(transcript.session))
        stack.enter_context(os_errors(f"{folder} cannot be read", folder))
        journal = stack.enter_context(Journal(Files(), folder))
        journal.last.end = inspect_tail(journal).end
        yield journal


@contextmanager
def _copy_of(session: Session) -> Iterator[Path]:
    """Give a folder with the lines and blobs of a session; it is removed at the end."""
    files, folder = Files(), session.local_state / new_name()
    with os_errors(f"{folder} cannot be written", folder):
        try:
            files.make_folders(folder)
            blobs = Blobs(files, folder)
            descriptor = files.open_append(folder / JOURNAL_NAME, create=True)
            try:
                for entry in session.entries():
                    files.write_all(descriptor, entry.line + b"\n")
                    for name in sorted(blobs_of(entry.body)):
                        if (data := session.blob(name)) is not None:
                            blobs.write(data)
            finally:
                files.close(descriptor)
            yield folder
        finally:
            with suppress(OSError):
                files.remove_tree(folder)


class _Sink(RawIOBase):
    """What was written and is not given out yet; it cannot go back."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]  # zipfile gives bytes
        self._pieces.append(bytes(data))
        return len(data)

    def taken(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


class _Writer:
    def __init__(self, transcript: Transcript, folder: Path) -> None:
        self._transcript = transcript
        self._session = transcript.id
        self._files = Files()
        self._folder = folder
        self._sink = _Sink()
        self._zip = ZipFile(self._sink, "w", ZIP_DEFLATED)
        self._members: list[Member] = []
        self._left_out: list[str] = []
        there = datetime.fromisoformat(transcript.updated)
        self._date = (max(there.year, _FIRST_YEAR), *there.timetuple()[1:6])

    def exact(self, journal: Journal) -> Iterator[bytes]:
        """Write every file as it is."""
        for segment in journal.segments:
            # Of the last file, up to its last whole entry; what follows is not written yet.
            size = segment.end if segment is journal.last else segment.size
            if segment.packed is None and self._has_holes(segment.descriptor, size):
                raise UsageError(
                    f"{segment.path} has holes, which an archive cannot contain. Export a copy "
                    f"without them: holdfast export {self._session} --redact -o FILE.holdfast"
                )
            chunks = (
                segment.read(start, min(size, start + _CHUNK_BYTES))
                for start in range(0, size, _CHUNK_BYTES)
            )
            yield from self._member(segment.name, chunks, size)
        for name in self._names():
            data = self._checked(name)
            if data is not None:
                yield from self._member(name, data, 0)

    def _names(self) -> Iterator[str]:
        if self._files.exists(self._folder / LIVE_NAME):
            yield LIVE_NAME
        for folder in _FOLDERS:
            for name in sorted(self._files.names(self._folder / folder)):
                if is_session_file(f"{folder}/{name}"):
                    yield f"{folder}/{name}"

    def _checked(self, name: str) -> Iterable[bytes] | None:
        """Return the content of a file; ``None`` if it cannot be read or is not what it should."""
        path = self._folder / name
        try:
            descriptor = self._files.open_regular(path)
        except OSError as error:
            self._left_out.append(f"{name}: {error.strerror}")
            return None
        if not name.startswith("blobs/"):
            size = self._files.status(descriptor).st_size
            if not self._has_holes(descriptor, size) and (
                name != LIVE_NAME or size <= MOST_READ_BYTES
            ):
                return self._content(descriptor, size)
            self._files.close(descriptor)
            self._left_out.append(f"{name}: it claims {size} bytes")
            return None
        self._files.close(descriptor)
        data = Blobs(self._files, self._folder).read_named(path.name)
        if data is None:
            self._left_out.append(f"{name}: it was altered")
        return None if data is None else [data]

    def _has_holes(self, descriptor: int, size: int) -> bool:
        """Tell whether nearly all of a file is holes: its size is a claim that costs nothing."""
        holes = self._files.holes(descriptor, size, LARGE_HOLE_BYTES)
        return not LIMITS.allow_holes(size, holes)

    def _content(self, descriptor: int, size: int) -> Iterator[bytes]:
        """Yield the bytes of a file up to a size: it may grow meanwhile."""
        try:
            offset = 0
            while chunk := self._files.read_at(
                descriptor, min(_CHUNK_BYTES, size - offset), offset
            ):
                offset += len(chunk)
                yield chunk
        finally:
            self._files.close(descriptor)

    def anew(self, journal: Journal) -> Iterator[bytes]:
        """Write a copy without what was to be taken out."""
        rewriting = SanitizedCopy(journal, self._transcript.id, self._transcript.options)
        self._session = rewriting.session
        for name, data in rewriting.blobs():
            yield from self._member(f"blobs/{name}", [data], len(data))
        lines = _gathered(rewriting.lines())
        yield from self._member("journal.jsonl", lines, journal.size_bytes)
        if rewriting.left_out:
            self._left_out.append(f"{rewriting.left_out} line(s) that cannot be read")
        self._left_out += [each for each in self._names() if not each.startswith("blobs/")]

    def _member(self, name: str, chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
        if len(self._members) >= MOST_FILES:
            raise UsageError(
                f"An archive can have at most {MOST_FILES} files; this session has more."
            )
        pieces = iter(chunks)
        first = next(pieces, b"")
        info = self._info(name, first)
        total, digest = 0, sha256()
        with self._zip.open(info, "w", force_zip64=size + len(first) >= _LARGE_BYTES) as member:
            for piece in chain([first], pieces):
                total += len(piece)
                digest.update(piece)
                member.write(piece)
                yield self._sink.taken()
        self._members.append(Member(name, total, digest.hexdigest()))

    def _info(self, name: str, beginning: bytes) -> ZipInfo:
        info = ZipInfo(name, self._date)
        info.external_attr = 0o100600 << 16
        packed = len(zlib.compress(beginning[:_CHUNK_BYTES], 1))
        small = len(beginning) > packed * _LARGEST_RATIO
        info.compress_type = ZIP_STORED if small else ZIP_DEFLATED
        return info

    def finish(self, *, exact: bool) -> Iterator[bytes]:
        """Write the manifest, and the directory that makes it a whole file."""
        manifest = Manifest(
            format=FORMAT,
            session=self._session,
            version=__version__,
            at=timestamp(),
            files=self._members,
            title=for_terminal(self._transcript.title or "") or None,
            exact=exact,
            left_out=self._left_out,
        )
        data = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
        yield from self._member(MANIFEST, [data + b"\n"], len(data))
        self._zip.close()
        yield self._sink.taken()


def _gathered(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines in chunks that are worth packing."""
    waiting: list[bytes] = []
    size = 0
    for each in lines:
        waiting.append(each)
        size += len(each)
        if size >= _CHUNK_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)
