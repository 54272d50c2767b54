"""Access to foreign files, for importers: streaming, bounded, read-only, and wary.

Whatever a source holds, reading it costs a bounded amount of memory and never follows a symbolic
link. A line that cannot be read is reported with its number, and reading goes on behind it. An
importer opens files through nothing else.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.errors import ImportRejected
from holdfast.exchange.importing.items import Source
from holdfast.files import Files
from holdfast.journal.bounded import (
    BoundedReader,
    BrokenPacking,
    ReadLimits,
    TooMuch,
    lines,
    unpacked,
)
from holdfast.model.codec import loads

if TYPE_CHECKING:
    from sqlite3 import Connection

    from holdfast.exchange.importing.sqlite_sources import Databases

LIMITS = ReadLimits(line_bytes=32 * 1024 * 1024)
LARGEST_DOCUMENT_BYTES = 64 * 1024 * 1024
MOST_PROBLEMS = 100
_PACKINGS = {".zst": "zstd", ".gz": "gzip"}
_OPENING_BYTES = 8
_LENGTH_BYTES = 4
_DEEPEST_FOLDER = 12
_SNIFFED_BYTES = 256 * 1024

Progress = Callable[[int, int], None]
"""Called with bytes read and bytes in all. What it raises ends the import and leaves nothing."""


class ImportProblem(Struct, frozen=True):
    """Something in a source that could not be taken over: the file, its line from 1, and why."""

    path: str
    line: int | None
    reason: str


class SourceReader:
    """One pass over sources. ``line`` is the number of the line that is being read."""

    def __init__(
        self,
        files: Files | None = None,
        *,
        progress: Progress | None = None,
        total_bytes: int = 0,
        databases: Databases | None = None,
    ) -> None:
        self.files = files or Files()
        self._databases = databases
        self.line: int | None = None
        self.path = ""
        self.problems: list[ImportProblem] = []
        self.problem_count = 0
        self._progress = progress
        self._total_bytes = total_bytes
        self._done_bytes = 0

    def begin_again(self) -> None:
        """Forget what was reported: the source is read once more."""
        self.problems, self.problem_count, self._done_bytes = [], 0, 0

    def report(self, reason: str, line: int | None = None) -> None:
        """Note something that could not be taken over. The first hundred are kept one by one."""
        self.problem_count += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(ImportProblem(self.path, line or self.line, reason))

    # Finding

    def files_below(self, path: Path, *suffixes: str) -> Iterator[Path]:
        """Yield regular files with one of these endings, sorted; a file is itself.

        ``path`` may be reached through symbolic links, because people move their home folders
        about. Below it none is followed.
        """
        try:
            folder = path.is_dir()
            wanted = not folder and path.is_file() and path.name.endswith(suffixes)
        except OSError as error:
            self.path = str(path)
            self.report(f"cannot be read ({error.strerror})")
            return
        if folder:
            yield from self._below(path, suffixes, 0)
        elif wanted:
            yield path

    def _below(self, folder: Path, suffixes: tuple[str, ...], depth: int) -> Iterator[Path]:
        try:
            entries = sorted(self.files.folders(folder), key=lambda entry: entry.name)
        except OSError as error:
            self.path = str(folder)
            self.report(f"cannot be read ({error.strerror})")
            return
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if depth < _DEEPEST_FOLDER:
                    yield from self._below(Path(entry.path), suffixes, depth + 1)
            elif entry.name.endswith(suffixes) and entry.is_file(follow_symlinks=False):
                yield Path(entry.path)

    def source(self, agent: str, id: str, path: Path, *others: Path, **detail: Any) -> Source:
        """Describe the session in ``path`` and whatever other files belong to it."""
        size = modified = 0
        beside: list[str] = []
        for each in (path, *others):
            with suppress(OSError):
                status = self.files.status_of(each)
                size, modified = size + status.st_size, max(modified, status.st_mtime_ns)
                if each != path:
                    beside.append(str(each))
        return Source(agent, id, str(path), size, modified, detail, tuple(beside))

    # Reading

    def lines(
        self, path: Path | str, *, limit_bytes: int | None = None, from_bytes: int = 0
    ) -> Iterator[bytes]:
        """Yield the lines of a file without their newlines, blank ones left out.

        Split on the newline byte alone. The file is read up to the size it has now. One that ends
        in ``.zst`` or ``.gz`` is unpacked on the way. It is read, and its lines are numbered, from
        ``from_bytes`` on.
        """
        self.path, number = str(path), 0
        for line in lines(self._content(Path(path), limit_bytes, from_bytes), LIMITS):
            number = line.number
            if line.data is None:
                most = LIMITS.line_bytes
                self.report(
                    f"is {line.size_bytes} bytes long, more than the limit of {most}", number
                )
            elif line.data and not line.data.isspace():
                self.line = number
                yield line.data
        self.line = number + 1

    def _content(self, path: Path, limit_bytes: int | None, from_bytes: int) -> Iterator[bytes]:
        """Yield what is in a file, unpacked if its name says that it is packed."""
        chunks = self._chunks(path, limit_bytes, from_bytes)
        packing = _PACKINGS.get(path.suffix)
        if packing is None:
            yield from chunks
            return
        found = False
        try:
            for piece in unpacked(chunks, packing, LIMITS):
                found = True
                yield piece
        except TooMuch as error:
            raise ImportRejected(
                path, None, f"it {error}, which is too much for a session"
            ) from error
        except BrokenPacking as error:
            if not found:
                raise ImportRejected(path, None, f"it cannot be unpacked ({error})") from error
            self.report(f"cannot be unpacked from here on ({error})")
        except OSError as error:  # there is no package for zstd
            raise ImportRejected(path, None, f"{error.strerror}, then import again") from error

    def frames(self, path: Path | str, mark: bytes) -> Iterator[bytes]:
        """Yield the frames of a file, unpacked (zstd).

        A frame is the mark, its stored length and its length (four bytes each, big-endian), and the
        packed bytes. One that is not whole ends the file; what is not a frame is reported.
        """
        self.path, self.line = str(path), None
        head, held = len(mark) + 2 * _LENGTH_BYTES, b""
        for chunk in self._chunks(Path(path), None):
            held += chunk
            while len(held) >= head:
                stored = int.from_bytes(held[len(mark) : len(mark) + _LENGTH_BYTES])
                if not held.startswith(mark) or stored > LIMITS.line_bytes:
                    self.report("is not a valid frame from here on")
                    return
                if len(held) < head + stored:
                    break
                packed, held = held[head : head + stored], held[head + stored :]
                try:
                    yield b"".join(unpacked(iter([packed]), "zstd", LIMITS))
                except (TooMuch, BrokenPacking) as error:
                    self.report(f"has a frame that cannot be unpacked ({error})")
                except OSError as error:  # there is no package for zstd
                    reason = f"{error.strerror}, then import again"
                    raise ImportRejected(path, None, reason) from error

    def records(self, path: Path | str) -> Iterator[dict[str, Any]]:
        """Yield the JSON objects that stand one a line; report every other line.

        Of a record that was torn and had the next one glued to it, the next one is found.
        """
        opening = b""
        for line in self.lines(path):
            try:
                value = loads(line)
            except (ValueError, RecursionError) as error:
                yield from self._salvaged(line, opening, error)
                continue
            if type(value) is dict:
                if not opening:
                    opening = line[:_OPENING_BYTES]
                yield value
            else:
                self.report("is not a JSON object")

    def _salvaged(self, line: bytes, opening: bytes, error: Exception) -> Iterator[dict[str, Any]]:
        deep = isinstance(error, RecursionError)
        reason = "is nested too deeply or has too many values" if deep else "is not complete JSON"
        self.report(reason)
        whole = line.strip(b"\0")
        start = whole.rfind(opening) if opening else 0
        if start > 0 or len(whole) < len(line):
            with suppress(ValueError, RecursionError):
                value = loads(whole[max(start, 0) :])
                if type(value) is dict:
                    yield value

    def document(self, path: Path | str) -> Any:
        """Return what a file with a single JSON value says.

        Raises:
            ImportRejected: it is too large, or not JSON.
        """
        self.path, self.line = str(path), None
        pieces: list[bytes] = []
        size = 0
        for chunk in self._chunks(Path(path), None):
            pieces.append(chunk)
            size += len(chunk)
            if size > LARGEST_DOCUMENT_BYTES:
                raise ImportRejected(
                    path, None, f"it is one JSON value of more than {LARGEST_DOCUMENT_BYTES} bytes"
                )
        try:
            return loads(b"".join(pieces))
        except RecursionError:
            reason = "it is nested too deeply or has too many values"
            raise ImportRejected(path, None, reason) from None
        except ValueError as error:
            raise ImportRejected(path, None, f"it is not JSON ({error})") from None

    def database(self, path: Path | str) -> Connection:
        """Return a connection to read a database from; see ``databases``.

        Raises:
            ImportRejected: it cannot be opened.
        """
        from holdfast.exchange.importing.sqlite_sources import Databases  # noqa: PLC0415  sqlite3 costs 5 ms

        self.path, self.line = str(path), None
        if self._databases is None:
            self._databases = Databases(self.files)
        return self._databases.connection(Path(path))

    def rows(
        self, path: Path | str, query: str, *values: Any, otherwise: str = ""
    ) -> Iterator[dict[str, Any]]:
        """Yield what a query finds in a database, a row at a time; damage ends it.

        A query that sorts finds nothing if anything is damaged; ``otherwise`` is one that does not.

        Raises:
            ImportRejected: nothing can be read.
        """
        import sqlite3  # noqa: PLC0415  as above

        from holdfast.exchange.importing.sqlite_sources import rows  # noqa: PLC0415  as above

        found = False
        try:
            for row in rows(self.database(path), query, *values):
                found = True
                yield row
        except sqlite3.Error as error:
            if found:
                self.report(f"cannot be read from here on ({error})")
            elif otherwise:
                self.report(f"cannot be read in order ({error})")
                yield from self.rows(path, otherwise, *values)
            else:
                raise ImportRejected(path, None, f"it cannot be read ({error})") from error

    def tables(self, path: Path | str) -> set[str]:
        """Return the names of a database's tables; none, and a report, if it cannot be read."""
        import sqlite3  # noqa: PLC0415  as above

        from holdfast.exchange.importing.sqlite_sources import tables  # noqa: PLC0415  as above

        try:
            if not self.files.status_of(path).st_size:
                return set()  # begun, and nothing written yet
            return tables(self.database(path))
        except OSError as error:
            self.path, self.line = str(path), None
            self.report(f"cannot be read ({error.strerror})")
        except ImportRejected as error:
            self.report(error.reason)
        except sqlite3.Error as error:
            self.report(f"cannot be read ({error})")
        return set()

    def first_records(self, path: Path | str, most: int = 20) -> list[dict[str, Any]]:
        """Return the first JSON objects of a file of lines; reports nothing."""
        found: list[dict[str, Any]] = []
        looking = SourceReader(self.files)
        with suppress(ImportRejected):
            for line in looking.lines(path, limit_bytes=_SNIFFED_BYTES):
                with suppress(ValueError, RecursionError):
                    value = loads(line)
                    if type(value) is dict:
                        found.append(value)
                if len(found) >= most:
                    break
        return found

    def head(self, path: Path | str, size_bytes: int = 4096) -> bytes:
        """Return the first bytes of a file; nothing if it cannot be read."""
        with suppress(ImportRejected):
            return b"".join(self._chunks(Path(path), size_bytes))
        return b""

    def _chunks(self, path: Path, limit_bytes: int | None, from_bytes: int = 0) -> Iterator[bytes]:
        with self._open(path) as reader:
            offset = from_bytes
            try:
                for chunk in reader.chunks(from_bytes, limit_bytes):
                    offset += len(chunk)
                    self._count(len(chunk), sniffing=limit_bytes is not None)
                    yield chunk
            except OSError as error:
                reason = f"it cannot be read at byte {offset} ({error.strerror})"
                raise ImportRejected(path, None, reason) from error
            except TooMuch as error:
                raise ImportRejected(path, None, f"it {error}") from error

    def _open(self, path: Path) -> BoundedReader:
        try:
            return BoundedReader(self.files, path)
        except (OSError, ValueError) as error:
            reason = f"it cannot be opened ({getattr(error, 'strerror', None) or error})"
            if getattr(error, "errno", None) == errno.ELOOP:
                reason = "it is a symbolic link; links are not followed"
            elif getattr(error, "errno", None) == errno.EINVAL:
                reason = "it is not a regular file"
            raise ImportRejected(path, None, reason) from error

    def _count(self, size_bytes: int, *, sniffing: bool) -> None:
        if not sniffing:
            self._done_bytes += size_bytes
            if self._progress is not None:
                self._progress(self._done_bytes, max(self._total_bytes, self._done_bytes))


def is_plain_name(name: str) -> bool:
    """Tell whether a name from a foreign file may become part of a path."""
    return (
        0 < len(name.encode("utf-8", "surrogatepass")) <= 200
        and name not in (".", "..")
        and not name.startswith(".")
        and os.sep not in name
        and name.isprintable()
    )
