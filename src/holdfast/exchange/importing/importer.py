"""Foreign sessions become sessions of the store.

A source that is **new** is staged and published whole: a crash in the middle leaves nothing that
anybody sees. One that was **imported before** is left alone if its size and time are what they
were; otherwise see ``growing``. A session that is in the trash is not imported again. The source is
never written to.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from holdfast.errors import SessionExists, SessionLocked, StorageError
from holdfast.exchange.importers.base import Importer
from holdfast.exchange.importing.incremental import IncrementalImport
from holdfast.exchange.importing.items import (
    HeadItem,
    Item,
    MetaItem,
    OpenItem,
    Source,
    UsageItem,
)
from holdfast.exchange.importing.ledger import (
    ImportLedger,
    ImportRecord,
    LedgerMatch,
    opening_name,
    real_path,
)
from holdfast.exchange.importing.sequence import STRIDE, ItemCounts, ItemSequencer
from holdfast.exchange.importing.source_files import ImportProblem, Progress, SourceReader
from holdfast.exchange.importing.usage_dedup import Recount
from holdfast.files import Files
from holdfast.journal.format import timestamp
from holdfast.model.codec import dumps
from holdfast.model.entry import Head, Meta, Usage
from holdfast.model.ids import key_session_id
from holdfast.store.store import Store
from holdfast.store.types import stamp
from holdfast.store.write.encode import ImportedEntry, encode_all

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from holdfast.exchange.importing.sqlite_sources import Databases
    from holdfast.store.backend import StoreLock

CREATED, GROWN, BRANCHED, UNCHANGED = "created", "grown", "branched", "unchanged"
SHORTER, DELETED, EMPTY, ERASED = "shorter", "deleted", "empty", "erased"
_LOCK_FOLDER = ".import"
_OPENING = 2  # items that tell whether two sessions of one name begin alike
_LOOK_AHEAD = 1000
_COLLECT_AFTER = 20_000  # objects; the interpreter's own choice is 700
_LARGEST_FACTS_BYTES = 64 * 1024
_LARGEST_FACT_BYTES = 8 * 1024
_LAST_SECOND = 32_503_680_000  # of the year 2999
_QUIET_SECONDS = 60  # after that long without a change an unfinished end is imported as it is
_OWN = ("family", "parent", "copied")  # facts that are the import's
_DIGITS = str.maketrans({"-": "", ":": "", "T": "-"})


class Imported(Struct):
    """What became of one source.

    ``action`` is created, grown, branched (it had changed), unchanged, shorter (than it was: left
    alone), deleted (it is in the trash, or was erased), erased (entries of it were erased: left
    alone) or empty (nobody says anything in it). ``counts`` is what was written now. ``is_open``:
    the agent is still writing the last reply, which was left out.
    """

    source: Source
    action: str
    session: str | None = None
    counts: ItemCounts = field(default_factory=ItemCounts)
    problems: list[ImportProblem] = field(default_factory=list)
    problem_count: int = 0
    is_open: bool = False


class ImportRun:
    """One import of any number of sources into a store. Used as a context manager.

    With ``keyed``, a session that its agent knew by a caller's own key becomes the session of that
    key, if there is none yet: ``store.session(key)`` goes on with it.
    """

    def __init__(self, store: Store, *, keyed: bool = False) -> None:
        self._store = store
        self._keyed = keyed
        self._known = ImportLedger(store)
        self._projects: dict[str, str | None] = {}
        self._databases: Databases | None = None
        self._lock: StoreLock | None = None

    def hold(self) -> None:
        """Be the only import into the store until this is closed: two would count things twice.

        Raises:
            StorageError: another one is under way; says whose.
        """
        if self._lock is not None:
            return
        try:
            self._lock = self._store.lock(_LOCK_FOLDER)
        except SessionLocked as error:
            busy = StorageError(
                f"Another import into {self._store.path} is running ({error.holder}). "
                "Wait until it is done."
            )
            busy.exit_code = SessionLocked.exit_code
            raise busy from None
        self._known = ImportLedger(self._store)  # with what somebody else has imported up to now

    def reading(self, progress: Progress | None = None, total_bytes: int = 0) -> SourceReader:
        """Return what to look for sources with, and to read them."""
        if self._databases is None:
            from holdfast.exchange.importing.sqlite_sources import Databases  # noqa: PLC0415  sqlite3 costs 5 ms

            self._databases = Databases(Files(), self._store.scratch)
        return SourceReader(progress=progress, total_bytes=total_bytes, databases=self._databases)

    def close(self) -> None:
        """Let go of what was copied, and of the store."""
        if self._databases is not None:
            self._databases.close()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    @property
    def store(self) -> Store:
        """The store that sessions are imported into."""
        return self._store

    def standing(self, source: Source) -> str:
        """Tell what ``take`` would do, by size and time alone: created, grown, unchanged, deleted.

        Grown stands for all that may come of a source that has changed.
        """
        found = self._known.find(source)
        if found.session is None:
            new = GROWN if found.namesakes else CREATED
            return DELETED if found.deleted else new
        if found.trace.fits(source):
            return UNCHANGED
        return ERASED if found.session in self._known.redacted else GROWN

    def take(
        self, importer: Importer, source: Source, progress: Progress | None = None
    ) -> Imported:
        """Import one source, as far as it is new.

        Whatever ends it (an interrupt, an error, ``progress`` that raises), the same call again
        goes on from there.

        Raises:
            ImportRejected: nothing of the source can be read.
            SessionLocked: it was imported before, and somebody is writing to that session.
            DiskFull: there is no room.
            StorageError: another import is under way.
        """
        self.hold()
        found = self._known.find(source)
        if found.namesakes:
            found = self._copied(importer, source, found)
        elif found.session is None and self._keyed and not found.deleted:
            found = self._by_key(importer, source) or found
        if found.session is None and found.deleted:
            return Imported(source, DELETED)
        if found.session is not None and found.trace.fits(source):
            return Imported(source, UNCHANGED, found.session)
        if found.session in self._known.redacted:
            return Imported(source, ERASED, found.session)
        reading = self.reading(progress, source.size_bytes)
        with _calm_collector():
            if found.session is None:
                done = self._create(importer, source, reading, found)
            else:
                done = self._grow(importer, source, reading, found.session)
        done.problems, done.problem_count = reading.problems, reading.problem_count
        return done

    def _by_key(self, importer: Importer, source: Source) -> LedgerMatch | None:
        """Look for the session of the key that a source names before anything else."""
        first = next(importer.read(source, self.reading()), None)
        key = first.fields.get("session_key") if isinstance(first, MetaItem) else None
        return self._known.keyed(key, source) if isinstance(key, str) and key else None

    def _copied(self, importer: Importer, source: Source, found: LedgerMatch) -> LedgerMatch:
        """Return the session that a source is a copy of, if it begins like one of that name."""
        track = ItemSequencer(self.reading(), [(0, STRIDE)], "")
        opening: list[int] = []
        for item in importer.read(source, self.reading()):
            track.take(item)
            if track.taken > len(opening):
                opening.append(track.sum)
            if len(opening) == _OPENING:
                break
        alike = (each for each in found.namesakes if each.trace.begins_alike(opening))
        return next(alike, found)

    def _create(
        self, importer: Importer, source: Source, reading: SourceReader, found: LedgerMatch
    ) -> Imported:
        items, started = with_start_time(importer.read(source, reading), source)
        session_id = f"{started[:19].translate(_DIGITS)}-{found.suffix}"
        if found.key is not None:
            session_id = key_session_id(found.key)
        runs = [(0, STRIDE)]
        track = ItemSequencer(reading, runs, started)
        counted: set[str] | None = None
        recount = Recount()
        opening: list[int] = []
        with self._store.stage(
            session_id, started=started, source=source.shown, key=found.key
        ) as staging:
            for item in closed_items(items, source, track):
                past = track.take(item)
                if past is not None:
                    if len(opening) < _OPENING:
                        opening.append(track.sum)
                    if isinstance(item, UsageItem):
                        if counted is None:
                            counted = self.counted(source, track, opening=opening)
                        known = item.usage.request in counted
                        past = None if known else recount.corrected(past)
                        if past is None:
                            track.counts.requests -= 1
                            continue
                    staging.add(past)
            if not track.counts.messages:
                return Imported(source, EMPTY)
            facts = self.facts(source, track, runs, ImportRecord(opening=opening))
            staging.add(import_meta_entry(staging.next_seq, track.at, Meta(facts)))
            if track.head != track.top:
                staging.add(import_meta_entry(staging.next_seq, track.at, Head(track.head)))
            try:
                staging.publish()
            except SessionExists:  # somebody else has imported it this very moment
                return Imported(source, UNCHANGED, session_id)
        self._known.add(session_id, source, _string(track.facts.get("family")), opening)
        return Imported(source, CREATED, session_id, track.counts, is_open=track.is_open)

    def _grow(
        self, importer: Importer, source: Source, reading: SourceReader, session_id: str
    ) -> Imported:
        with self._store.open(session_id) as session:
            growing = IncrementalImport(self, session, source)
            while not growing.through:
                items, started = with_start_time(importer.read(source, reading), source)
                track = ItemSequencer(reading, growing.runs, started)
                growing.follow(closed_items(items, source, track), track)
                if not growing.through:
                    reading.begin_again()
        if growing.is_shorter:
            action = SHORTER
        elif growing.added:
            action = BRANCHED if growing.branched else GROWN
        else:
            action = UNCHANGED
        return Imported(source, action, session_id, growing.counts, is_open=growing.is_open)

    def facts(
        self,
        source: Source,
        track: ItemSequencer,
        runs: list[tuple[int, int]],
        before: ImportRecord,
    ) -> dict[str, Any]:
        """Return the facts about a session after an import.

        A fact that the source says as it did before is left alone: it may have been changed here.
        """
        said = {name: value for name, value in track.facts.items() if name not in _OWN}
        said.pop("imported", None)
        if len(dumps(said)) > _LARGEST_FACTS_BYTES:
            said = {k: v for k, v in said.items() if len(dumps(v)) <= _LARGEST_FACT_BYTES}
        new = {name: value for name, value in said.items() if before.facts.get(name) != value}
        workspace = new.get("workspace")
        if isinstance(workspace, str) and "project" not in new:
            project = self._project(workspace)
            if project is not None:
                new["project"] = project
        trace = ImportRecord(
            agent=source.agent,
            id=source.id,
            path=real_path(source),
            size_bytes=-1 if track.is_open else source.size_bytes,  # it has to be read again
            modified_ns=source.modified_ns,
            at=timestamp(),
            entries=track.taken,
            tail=list(track.tail),
            runs=runs,
            head=track.head,
            facts=said,
            family=_string(track.facts.get("family")),
            parent=_string(track.facts.get("parent")),
            opening=before.opening,
        )
        return {**new, "imported": msgspec.to_builtins(trace)}

    def counted(
        self,
        source: Source,
        track: ItemSequencer,
        session: str | None = None,
        opening: Sequence[int] = (),
    ) -> set[str]:
        """Return the keys of requests that other copies of the conversation have counted."""
        names = [_string(track.facts.get("family"))]
        if track.facts.get("copied") is True and opening:
            names.append(opening_name(opening))
        known = [name for name in names if name is not None]
        return self._known.counted(source, known, session) if known else set()

    def usages(self, session_id: str) -> Iterator[Usage]:
        """Yield everything that a session has counted."""
        return self._known.usages(session_id)

    def _project(self, workspace: str) -> str | None:
        if workspace not in self._projects:
            from holdfast.store.git_project import project_of  # noqa: PLC0415  subprocess is slow

            absolute = workspace.startswith("/") and "\0" not in workspace
            self._projects[workspace] = project_of(workspace) if absolute else None
        return self._projects[workspace]


@contextmanager
def _calm_collector() -> Iterator[None]:
    """Let the garbage collector look less often: decoded JSON has no cycles for it to find."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _COLLECT_AFTER), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def closed_items(items: Iterable[Item], source: Source, track: ItemSequencer) -> Iterator[Item]:
    """Yield items up to where the agent is still writing.

    What has not changed for a while is finished, and so is a source with nothing before the part
    that is still being written.
    """
    for item in items:
        if isinstance(item, OpenItem):
            age = time.time() - source.modified_ns / 10**9
            if track.top is not None and 0 <= age < _QUIET_SECONDS:
                track.is_open = True
                return
        yield item


def import_meta_entry(seq: int, at: str, body: Meta | Head) -> ImportedEntry:
    """Return an entry of the import's own."""
    return ImportedEntry(seq, at, encode_all([body])[0][0])


def with_start_time(items: Iterator[Item], source: Source) -> tuple[Iterator[Item], str]:
    """Return all items, and the first time that one of them names; else that of the file."""
    seen: list[Item] = []
    for item in items:
        seen.append(item)
        if not isinstance(item, HeadItem | OpenItem) and item.at is not None:
            return chain(seen, items), item.at
        if len(seen) >= _LOOK_AHEAD:
            break
    seconds = min(max(source.modified_ns // 10**9, 0), _LAST_SECOND)
    return chain(seen, items), stamp(datetime.fromtimestamp(seconds, UTC))


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None
