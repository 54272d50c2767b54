"""Reads a ``.holdfast`` archive: an exact copy of a session, or nothing.

Not an importer like its neighbours: what it reads is a session already, and stays the same to the
byte. An archive may come from anybody. Nothing of it becomes a name but what a session's files are
called; no link is made; every size is known, summed up and kept to; every sum is checked before the
session is there.
"""

from __future__ import annotations

import errno
import stat
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from io import RawIOBase
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import msgspec

from holdfast.errors import (
    DamagedJournal,
    DiskFull,
    HoldfastError,
    ImportRejected,
    SessionExists,
    StorageError,
)
from holdfast.exchange.archive.compare import goes_on_from, problems_of
from holdfast.exchange.archive.manifest import (
    FORMAT,
    MANIFEST,
    MOST_FILES,
    SUFFIX,
    Manifest,
    Member,
)
from holdfast.exchange.importing.importer import CREATED, UNCHANGED, Imported
from holdfast.exchange.importing.items import Source
from holdfast.exchange.importing.sequence import ItemCounts
from holdfast.exchange.importing.source_files import Progress
from holdfast.files import Files
from holdfast.journal.bounded import LIMITS
from holdfast.model.ids import SESSION_ID
from holdfast.store.backend import ReceivedFiles
from holdfast.store.local.staging import is_session_file
from holdfast.store.store import Store

AGENT = "holdfast"
_BEGINNING = b"PK\x03\x04"
_CHUNK_BYTES = 1024 * 1024
_LARGEST_READ_BYTES = 8 * 1024 * 1024  # the directory is read at once
_LARGEST_MANIFEST_BYTES = 16 * 1024 * 1024
_ENCRYPTED = 0x1
_FAULTS = (
    BadZipFile,
    EOFError,
    LookupError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
    struct.error,
    zlib.error,
)


def is_archive(path: Path) -> bool:
    """Tell whether a file is an archive of ours, or was meant to be one and is damaged."""
    if path.suffix.lower() == SUFFIX:
        return True
    try:
        with _opened(path) as (archive, _):
            return MANIFEST in archive.namelist()
    except ImportRejected:
        return _begins_like_one(path)


def _begins_like_one(path: Path) -> bool:
    files = Files()
    try:
        descriptor = files.open_regular(path)
    except (OSError, ValueError):
        return False
    try:
        return files.read_at(descriptor, len(_BEGINNING), 0) == _BEGINNING
    except OSError:
        return False
    finally:
        files.close(descriptor)


def manifest_of(path: Path) -> Manifest:
    """Return what an archive says about itself.

    Raises:
        ImportRejected: it is none, or asks for more than an archive may hold.
    """
    with _opened(path) as (archive, size_bytes), _faults(path):
        return _manifest(path, archive, size_bytes)


def is_imported(store: Store, path: Path) -> bool:
    """Tell whether the session of an archive is in a store, as it is packed or gone on from it."""
    try:
        manifest = manifest_of(path)
        if manifest.session not in store.ids():
            return False
        with store.open(manifest.session, mode="read") as session:
            return goes_on_from(session.path, manifest)
    except HoldfastError:
        return False  # what is wrong is said when it is taken


def take_archive(store: Store, path: Path, progress: Progress | None = None) -> Imported:
    """Import an archive: a session of the same id, with the same bytes.

    A session that is there already is left alone if it is this one, or has gone on from it. One
    that was damaged before it was packed arrives damaged: ``problems`` has what is wrong with it.

    Raises:
        ImportRejected: the archive is damaged or hostile; nothing is left of it.
        SessionExists: another session has its id, or an earlier state of this one.
        DiskFull: there is no room.
    """
    with _opened(path) as (archive, size_bytes), _faults(path):
        manifest = _manifest(path, archive, size_bytes)
        status = Files().status_of(path)
        source = Source(AGENT, manifest.session, str(path), size_bytes, status.st_mtime_ns)
        if manifest.session in store.ids():
            with store.open(manifest.session, mode="read") as session:
                folder = session.path
            if not goes_on_from(folder, manifest):
                raise SessionExists(
                    f"Session {manifest.session} already exists and differs from {path}. To "
                    "replace it, move it to the trash and import again."
                )
            return Imported(source, UNCHANGED, manifest.session)
        with store.receive(manifest.session, str(path)) as receiving:
            _unpack(path, archive, manifest, receiving, progress)
            try:
                receiving.publish()
            except (DamagedJournal, StorageError) as error:
                if isinstance(error, DiskFull | SessionExists):
                    raise
                raise ImportRejected(path, None, f"its session cannot be read ({error})") from error
    with store.open(manifest.session, mode="read") as session:
        counts = ItemCounts(messages=session.state.messages, requests=session.totals.requests)
        folder = session.path
    problems, count = problems_of(store.verify(manifest.session), folder, path)
    return Imported(source, CREATED, manifest.session, counts, problems, count)


class _Stretch(RawIOBase):
    """A file to read from, through the seam; refuses to be read in pieces too large to hold."""

    def __init__(self, files: Files, descriptor: int, path: Path) -> None:
        super().__init__()
        self._files, self._descriptor, self._path = files, descriptor, path
        self._size = files.status(descriptor).st_size
        self._offset = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._offset, self._size)[whence]
        if base + offset < 0:
            raise ValueError("before the beginning")
        self._offset = base + offset
        return self._offset

    def read(self, size: int = -1) -> bytes:
        wanted = max(0, self._size - self._offset)
        wanted = wanted if size is None or size < 0 else min(size, wanted)
        if wanted > _LARGEST_READ_BYTES:
            raise ImportRejected(
                self._path, None, "its file list is too large for a Holdfast archive"
            )
        data = self._files.read_at(self._descriptor, wanted, self._offset)
        self._offset += len(data)
        return data


@contextmanager
def _opened(path: Path) -> Iterator[tuple[ZipFile, int]]:
    files = Files()
    try:
        descriptor = files.open_regular(path)
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) == errno.EINVAL:
            raise ImportRejected(path, None, "it is not a regular file") from error
        reason = getattr(error, "strerror", None) or error
        raise ImportRejected(path, None, f"it cannot be opened ({reason})") from error
    try:
        status = files.status(descriptor)
        if files.read_at(descriptor, len(_BEGINNING), 0) != _BEGINNING:
            raise ImportRejected(path, None, "it is not a Holdfast archive")
        with _faults(path):
            archive = ZipFile(_Stretch(files, descriptor, path))
        with archive:
            yield archive, status.st_size
    finally:
        files.close(descriptor)


@contextmanager
def _faults(path: Path) -> Iterator[None]:
    """Turn whatever a damaged or hostile archive leads to into one error."""
    try:
        yield
    except _FAULTS as error:
        raise ImportRejected(path, None, f"it is damaged ({error})") from error


def _manifest(path: Path, archive: ZipFile, size_bytes: int) -> Manifest:
    members = archive.infolist()
    names = {info.filename for info in members}
    if MANIFEST not in names:
        raise ImportRejected(path, None, "it has no manifest, so it is not a Holdfast archive")
    if len(members) > MOST_FILES + 1 or len(names) != len(members):
        raise ImportRejected(
            path, None, "it has too many files, or several files with the same name"
        )
    for info in members:
        _check_member(path, info)
    _check_apart(path, members, size_bytes)
    info = archive.getinfo(MANIFEST)
    if info.file_size > _LARGEST_MANIFEST_BYTES:
        raise ImportRejected(path, None, "its manifest is too large")
    data = b"".join(_content(archive, info))
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ImportRejected(path, None, f"its manifest cannot be read ({error})") from error
    _check_manifest(path, archive, manifest)
    return manifest


def _check_member(path: Path, info: ZipInfo) -> None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if info.filename != MANIFEST and not is_session_file(info.filename):
        reason = f"it contains {info.filename[:200]!r}, which is not a file of a session"
    elif kind not in (0, stat.S_IFREG):
        reason = f"{info.filename} in it is a link or a special file"
    elif info.flag_bits & _ENCRYPTED:
        reason = "it is encrypted"
    elif info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        reason = f"{info.filename} uses a compression that Holdfast archives do not use"
    else:
        return
    raise ImportRejected(path, None, reason)


def _check_apart(path: Path, members: list[ZipInfo], size_bytes: int) -> None:
    """Refuse members that share bytes, and what unpacks to more than any session holds."""
    end = 0
    for info in sorted(members, key=lambda each: each.header_offset):
        if info.header_offset < end:
            raise ImportRejected(path, None, f"{info.filename} shares bytes with another file")
        end = info.header_offset + info.compress_size
    total = sum(info.file_size for info in members)
    if end > size_bytes or not LIMITS.allow(size_bytes, total):
        reason = f"its {size_bytes} bytes decompress to {total}, which is too much for a session"
        raise ImportRejected(path, None, reason)


def _check_manifest(path: Path, archive: ZipFile, manifest: Manifest) -> None:
    sizes = {i.filename: i.file_size for i in archive.infolist() if i.filename != MANIFEST}
    told = {member.name: member.size_bytes for member in manifest.files}
    if manifest.format > FORMAT:
        reason = "it was made by a newer version of Holdfast; update Holdfast"
    elif not SESSION_ID.fullmatch(manifest.session):
        reason = f"{manifest.session[:200]!r} is not a session id"
    elif "journal.jsonl" not in told or sizes != told or len(told) != len(manifest.files):
        reason = "its files differ from those that its manifest lists"
    else:
        return
    raise ImportRejected(path, None, reason)


def _content(archive: ZipFile, info: ZipInfo) -> Iterator[bytes]:
    """Yield a member piece by piece, and never more than its declared size."""
    left = info.file_size
    with archive.open(info) as member:
        while piece := member.read(min(_CHUNK_BYTES, left + 1)):
            left -= len(piece)
            if left < 0:
                raise BadZipFile(f"{info.filename} is larger than it says")
            yield piece
    if left:
        raise BadZipFile(f"{info.filename} is shorter than it says")


def _unpack(
    path: Path,
    archive: ZipFile,
    manifest: Manifest,
    receiving: ReceivedFiles,
    progress: Progress | None,
) -> None:
    done, total = 0, sum(member.size_bytes for member in manifest.files)

    def checked(member: Member) -> Iterator[bytes]:
        nonlocal done
        digest = sha256()
        for piece in _content(archive, archive.getinfo(member.name)):
            digest.update(piece)
            done += len(piece)
            if progress is not None:
                progress(done, total)
            yield piece
        found = digest.hexdigest()
        folder, _, name = member.name.rpartition("/")
        if found != member.sha256 or (folder == "blobs" and found != name):
            raise ImportRejected(
                path, None, f"{member.name} in it was altered: its checksum is {found}"
            )

    for member in manifest.files:
        receiving.add(member.name, checked(member))
