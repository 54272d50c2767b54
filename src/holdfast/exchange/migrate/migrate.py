"""A legacy store taken over for good, in place.

1. Every session is staged: read, written and synced where nobody sees it.
2. All are published, and what is to be renamed is noted beside them.
3. The originals are renamed ``<name>.migrated``, and the note is removed.

Until 2 is through the legacy store is as it was, and in use. From there on a crash costs nothing:
the next migration, of whatever path, goes on with the note. A session that was taken over before is
known by what it says of itself and is not taken over twice. An original that changes meanwhile is
not renamed: its agent is still at work.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from holdfast.errors import (
    DamagedJournal,
    FormatTooNew,
    ImportRejected,
    SessionLocked,
    StorageError,
    UsageError,
)
from holdfast.exchange.importing.importer import (
    CREATED,
    DELETED,
    EMPTY,
    ERASED,
    SHORTER,
    Imported,
    ImportRun,
)
from holdfast.exchange.importing.items import Source
from holdfast.exchange.importing.source_files import Progress, SourceReader
from holdfast.exchange.importing.sqlite_sources import Databases
from holdfast.exchange.migrate.legacy import Legacy, files_of, look
from holdfast.files import Files
from holdfast.store.store import Store
from holdfast.store.types import LEFT, MIGRATED, Migrated, Migration

if TYPE_CHECKING:
    from holdfast.store.local.bulk_publish import Batch

SUFFIX = ".migrated"


class Original(Struct):
    """A file as it was before it was read, and the sessions that it has become."""

    path: str
    inode: int = 0
    size_bytes: int = 0
    modified_ns: int = 0
    sessions: list[str] = field(default_factory=list)
    agent: str | None = None

    def is_unchanged(self, status: os.stat_result) -> bool:
        """Tell whether nobody has written to it since."""
        there = (status.st_ino, status.st_size, status.st_mtime_ns)
        return there == (self.inode, self.size_bytes, self.modified_ns)


def rename_all(files: Files, originals: list[Original]) -> tuple[dict[str, str], dict[str, str]]:
    """Rename what has not changed; return new names, and why others keep theirs."""
    names: dict[str, str] = {}
    refused: dict[str, str] = {}
    for original in originals:
        try:
            name = _renamed(files, original)
        except FileNotFoundError:
            continue  # a migration that died had done it
        except OSError as error:
            refused[original.path] = f"could not be renamed ({error.strerror})"
            continue
        if name is None:
            refused[original.path] = (
                "was changed in the meantime and was not renamed; migrate it again"
            )
        else:
            names[original.path] = name
    for folder in sorted({Path(path).parent for path in names}):
        try:
            files.sync_folder(folder)
        except OSError as error:
            for path in names:
                if Path(path).parent == folder:
                    refused[path] = f"was renamed, but a power cut may undo that ({error.strerror})"
    return names, refused


def _renamed(files: Files, original: Original) -> str | None:
    """Rename one file; ``None`` if somebody has written to it."""
    path = Path(original.path)
    if not original.is_unchanged(files.status_of(path)):
        return None
    target = _free_name(files, path)
    files.rename(path, target)
    if not original.is_unchanged(files.status_of(target)):
        files.rename(target, path)  # its agent has it open: it would write where nobody looks
        return None
    return str(target)


def _free_name(files: Files, path: Path) -> Path:
    target, number = path.with_name(path.name + SUFFIX), 1
    while files.exists(target):
        number += 1
        target = path.with_name(f"{path.name}{SUFFIX}.{number}")
    return target


_NOT_TAKEN = {
    EMPTY: "has no messages",
    SHORTER: "has less content than the session that was imported from it before",
    DELETED: "was imported before, and is in the trash",
    ERASED: "was imported before, and some of its entries were erased",
}
_OF_THE_SOURCE = (ImportRejected, UsageError, SessionLocked, DamagedJournal, FormatTooNew)
_RECORD = msgspec.json.Decoder(list[Original])


def migrate(
    store: Store,
    path: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Migration:
    """Take a legacy store over; see ``Store.migrate``."""
    place = _checked(store, path)
    legacy = _look(place)
    if dry_run:
        planned = [Migrated(source.path, MIGRATED, source.agent) for _, source in legacy.sources]
        return Migration(str(place), [*planned, *legacy.left], dry_run=True)
    if not legacy.sources and not store.has_unfinished_batch():
        return Migration(str(place), legacy.left)
    with store.batch() as batch:
        earlier = _finished(batch)
        run = _Run(batch, _look(place), progress)
        try:
            run.take_all()
            run.publish()
        except StorageError as error:
            raise _aborted(store, place, error) from error
        return Migration(str(place), [*earlier, *run.renamed()])


class _Taken(Struct):
    """A session that is staged, or was there already."""

    source: Source
    done: Imported
    originals: list[Original]


class _Run:
    """One migration, from the first session to the last rename."""

    def __init__(self, batch: Batch, legacy: Legacy, progress: Progress | None) -> None:
        self._batch = batch
        self._legacy = legacy
        self._progress = progress
        self._taken: list[_Taken] = []
        self._left = list(legacy.left)
        self._in_use: set[str] = set()  # files of sessions that are left
        self._read_bytes = 0

    def take_all(self) -> None:
        """Stage what is new; bring what was taken over before up to its source."""
        with ImportRun(self._batch, keyed=True) as importing:
            # What is new first: if there is no room for it, nothing has been touched yet.
            sources = sorted(
                self._legacy.sources, key=lambda each: importing.standing(each[1]) != CREATED
            )
            for importer, source in sources:
                originals = [_original(file) for file in files_of(source)]
                try:
                    _check_renamable(source)
                    done = importing.take(importer, source, self._shown())
                except _OF_THE_SOURCE as error:
                    self._leave(source, _clause(error), damaged=True)
                else:
                    self._sort(source, done, originals)
                self._read_bytes += source.size_bytes

    def _shown(self) -> Progress | None:
        if self._progress is None:
            return None
        progress, before, total = self._progress, self._read_bytes, self._legacy.size_bytes
        return lambda done, _: progress(min(before + done, total), total)

    def _sort(self, source: Source, done: Imported, originals: list[Original]) -> None:
        if done.session is None or done.action in _NOT_TAKEN:
            self._leave(source, _NOT_TAKEN[done.action])
            return
        for original in originals:
            original.sessions.append(done.session)
            original.agent = done.source.agent
        self._taken.append(_Taken(source, done, originals))

    def _leave(self, source: Source, reason: str, *, damaged: bool = False) -> None:
        self._in_use.update(files_of(source))
        self._left.append(Migrated(source.path, LEFT, source.agent, reason=reason, damaged=damaged))

    def publish(self) -> None:
        """Give all of it its place, and note what is to be renamed."""
        if self._taken:
            self._batch.settle({each.done.session for each in self._taken if each.done.session})
            self._batch.publish(msgspec.json.encode(self._originals()))

    def _originals(self) -> list[Original]:
        """Return the files that nobody needs any more, each once; some have many sessions."""
        merged: dict[str, Original] = {}
        for taken in self._taken:
            for original in taken.originals:
                if original.path not in self._in_use and original.inode:
                    first = merged.setdefault(original.path, original)
                    if first is not original:
                        first.sessions += original.sessions
        return list(merged.values())

    def renamed(self) -> list[Migrated]:
        """Rename the originals; return what became of everything."""
        names, refused = rename_all(self._batch.files, self._originals())
        self._batch.forget()
        return [*(self._result(taken, names, refused) for taken in self._taken), *self._left]

    def _result(self, taken: _Taken, names: dict[str, str], refused: dict[str, str]) -> Migrated:
        paths = files_of(taken.source)
        why = [refused[path] for path in paths if path in refused]
        if not why and taken.source.path in self._in_use:
            why = ["was not renamed, because another session in it could not be imported"]
        done = taken.done
        return Migrated(
            taken.source.path,
            MIGRATED,
            done.source.agent,
            done.session,
            why[0] if why else None,
            done.counts.messages,
            [names[path] for path in paths if path in names],
            [_place_of(each.path, each.line) + each.reason for each in done.problems],
            damaged=bool(why),
        )


def _look(place: Path) -> Legacy:
    with closing(Databases(Files())) as databases:
        return look(place, SourceReader(databases=databases))


def _finished(batch: Batch) -> list[Migrated]:
    """Rename what a migration that died had still to rename."""
    record = batch.then
    if record is None:
        return []
    originals: list[Original] = []
    with suppress(
        msgspec.MsgspecError, UnicodeDecodeError
    ):  # then the sources speak for themselves
        originals = _RECORD.decode(record)
    there = batch.ids()
    names, _ = rename_all(
        batch.files,
        [each for each in originals if each.sessions and there.issuperset(each.sessions)],
    )
    batch.forget()
    return [
        Migrated(each.path, MIGRATED, each.agent, each.sessions[0], renamed=[names[each.path]])
        for each in originals
        if each.path in names
    ]


def _checked(store: Store, path: str | os.PathLike[str]) -> Path:
    try:
        if not os.fspath(path):
            raise UsageError("The path to migrate is empty. Name a folder or a file.")
        place = Path(os.path.realpath(Path(path).expanduser(), strict=True))
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{path!s} cannot be migrated: {reason}.") from None
    home = Path(os.path.realpath(store.path))
    if place.is_relative_to(home) or home.is_relative_to(place):
        raise UsageError(
            f"{place} contains the sessions of this store. There is nothing to migrate."
        )
    return place


def _original(path: str) -> Original:
    try:
        status = Files().status_of(path)
    except OSError:
        return Original(path)
    return Original(path, status.st_ino, status.st_size, status.st_mtime_ns)


def _check_renamable(source: Source) -> None:
    for folder in {Path(path).parent for path in files_of(source)}:
        if not os.access(folder, os.W_OK | os.X_OK):
            reason = f"{folder} cannot be written, so no file can be renamed; use holdfast import"
            raise ImportRejected(source.path, None, reason)


def _clause(error: Exception) -> str:
    return error.reason if isinstance(error, ImportRejected) else str(error).rstrip(".")


def _place_of(path: str, line: int | None) -> str:
    return f"{path} " if line is None else f"{path}:{line} "


def _aborted(store: Store, place: Path, error: StorageError) -> StorageError:
    cause = error.__cause__
    reason = cause.strerror if isinstance(cause, OSError) else str(error).rstrip(".")
    aborted = StorageError(
        f"{place} was not migrated or changed, because {store.path} cannot be written: {reason}."
    )
    aborted.exit_code = error.exit_code
    return aborted
