"""The seam between sessions and a medium: everything that a medium has to offer.

``local`` (files) and ``memory`` implement these protocols. ``Store`` and ``Session`` are written
once, above them; nothing above ``store`` sees them. The sealed line of an entry is the same bytes
on every medium.

    Backend      all sessions of one store: find, read, write, watch, copy
    Log          one session to read, a consistent view
    LogWriter    the one holder of a session: appends rounds, live text, rewrites
    LiveLog     the text of running streams
    Watch        what is new in a session that another process may be writing
    BlobSource   payloads too large for a line
    Catalog      list, search, activity
    Trash        deletion that can be undone
    Maintenance  how large a session is, who writes to it, and whether it is sound
    FolderWork   what only a store in a folder can do; a medium may lack it

A method may raise the errors of its medium (``OSError``, say) where its caller uses ``errors``,
which turns them into errors of ours.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from holdfast.journal.damage import Record
from holdfast.journal.writer import RoundLog
from holdfast.model.entry import Header
from holdfast.model.state import State
from holdfast.store.types import Recovery

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime
    from types import TracebackType
    from typing import Self

    from holdfast.model.entry import Entry
    from holdfast.model.event import Event
    from holdfast.model.lock_holder import Holder
    from holdfast.store.catalog.list_query import ListQuery
    from holdfast.store.doctor.checkup import Checkup
    from holdfast.store.local.bulk_publish import Batch
    from holdfast.store.search.documents import Activity
    from holdfast.store.search.scan import SearchRequest
    from holdfast.store.session import Session
    from holdfast.store.types import (
        Compaction,
        Compression,
        Deleted,
        Hit,
        Leftovers,
        Page,
        Provenance,
        Report,
        Span,
        Summary,
        Tombstone,
    )
    from holdfast.store.write.encode import ImportedEntry
    from holdfast.store.write.erase import Erasure
    from holdfast.store.write.rewrite import LogCopy

    Progress = Callable[[int, int], None]


class Ref(Struct, frozen=True):
    """Which session is meant: its id, and where the medium has it (a folder, or a URL)."""

    id: str
    location: Path | str


class BlobSource(Protocol):
    """The blobs of one session."""

    def read_named(self, name: str) -> bytes | None:
        """Return a blob's bytes, ``None`` if it is missing or is not what its name says."""


class Records(Protocol):
    """Neighbouring records of a log, in order."""

    @property
    def records(self) -> list[Record]:
        """Entries, and damage between them."""


class Log(Protocol):
    """One session to read. A consistent view: a writer beside it changes nothing."""

    @property
    def session_id(self) -> str:
        """The session's id."""

    @property
    def location(self) -> Path | str:
        """Where it is, for messages."""

    @property
    def header(self) -> Entry | None:
        """The first line, ``None`` if it cannot be read."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all lines."""

    def records(self, after: int = -1) -> Iterator[Record]:
        """Yield entries numbered above ``after``, and the damage between them, in order."""

    def blocks_backward(self, seq: int | None = None) -> Iterator[Records]:
        """Yield blocks back to the beginning, from the end or from one that has entry ``seq``."""

    def find(self, seq: int) -> Entry | None:
        """Return the entry numbered ``seq``, ``None`` if it cannot be read."""

    def find_archived(self, seq: int) -> Entry | None:
        """Return an entry that a rewrite has left out and the medium still has."""

    def find_id(self, id: str) -> Entry | None:
        """Return the last entry with that id, also one that a rewrite has left out."""

    def live_events(self) -> list[Event]:
        """Return the text of running streams, and of streams that a crash left."""

    def close(self) -> None:
        """Let go of it. May be called twice."""

    def __enter__(self) -> Self:
        """Return itself."""

    def __exit__(self, *_: object) -> None:
        """Close."""


class LiveLog(Protocol):
    """The text of running streams, readable by others before its messages are entries.

    Every method raises ``OSError`` if the medium fails; what was there before is then still there.
    """

    size_bytes: int

    def append(self, events: Iterable[Event]) -> None:
        """Add events: readers find them on return, and after a power cut once ``sync`` returned."""

    def sync(self) -> None:
        """Make what was appended durable."""

    def clear(self) -> None:
        """Remove all text: no stream is open any more."""

    def rewrite(self, events: Iterable[Event]) -> None:
        """Replace all text by these events, durably."""

    def close(self) -> None:
        """Let go of it."""


class LogWriter(RoundLog, Protocol):
    """The one holder of a session, until ``release``. See also ``RoundLog``."""

    def errors(self, what: str) -> AbstractContextManager[None]:
        """Turn errors of the medium into errors of ours that say ``what`` failed."""

    def put_blob(self, data: bytes) -> str:
        """Store bytes durably and return their SHA-256; raises ``DiskFull``, ``StorageError``."""

    def open_live(self) -> LiveLog:
        """Return the text of running streams. The session exists."""

    def has_live_text(self) -> bool:
        """Tell whether there is live text, be it of finished streams."""

    def has_live_file(self) -> bool:
        """Tell whether a power cut could bring live text back that was removed."""

    def record_reception(self, spans: Sequence[Span], source: str) -> None:
        """Record durably that entries with these numbers come from elsewhere."""

    def begin_own(self, last_seq: int) -> None:
        """Record that entries after ``last_seq`` are written here; those before may be foreign."""

    def log(self) -> Log | None:
        """Return a view of everything durable; ``None`` while there is nothing, and afterwards.

        The same object may be returned again, with more in it. Called under the mutex, as are
        ``hold`` and ``let_go``.
        """

    def hold(self, log: Log) -> None:
        """Keep a view open until ``let_go``: somebody reads it without the mutex."""

    def let_go(self, log: Log) -> None:
        """Let a view be closed when it is of no use any more."""

    def erase(self, erasure: Erasure, state: State) -> State:
        """Replace the log by a copy without an entry; ``finish_erasing`` has to follow.

        ``state`` is what the log must fold to. Returns what it folds to, with the copy's own times.
        Contract: nothing is queued. If it is cut off, the session is as it was or without the
        entry, and the next opening removes the rest.
        """

    def finish_erasing(self, seq: int) -> None:
        """Remove an entry that the log does not have any more from all that belongs to it."""

    def has_grown(self) -> bool:
        """Tell whether ``save_ids`` may be worth it when the session is closed."""

    def save_ids(self, log: Log, *, closing: bool = False) -> None:
        """Save what finds ids without reading history, if it is worth it. No append waits for it.

        ``log`` is held. Nothing depends on it: what was not saved is read again.
        """

    def rewrite(self, keep: Callable[[Entry], bool], state: State) -> tuple[Compaction, State]:
        """Replace the log by a copy of the lines for which ``keep`` says yes.

        ``state`` is what it must fold to. Returns what it folds to, with the copy's own times.
        Contract: nothing is queued; if it fails, everything is as it was.
        """


class Opened(Struct):
    """A session that was opened: what it says, and how to go on reading or writing it.

    ``writer`` is ``None`` if it can only be read; then ``log`` is what is read.
    """

    header: Header
    state: State
    recovery: Recovery = field(default_factory=Recovery)
    log: Log | None = None
    writer: LogWriter | None = None


class Watch(Protocol):
    """What is new in a session, whoever writes it. Used by one thread at a time."""

    def entries(self) -> list[Entry]:
        """Return entries that are durable and were not returned before; a part, if many."""

    def live(self) -> tuple[list[Event], bool]:
        """Return new text, and whether all text before was removed since the last call."""

    def wait(self, seconds: float) -> None:
        """Return when there may be something new, after ``seconds`` at the latest."""

    def close(self) -> None:
        """Let go of it; it may be used again."""


class StagedSession(Protocol):
    """A session that is being filled with entries made elsewhere; a context manager.

    Nobody sees it before ``publish``; what was not published leaves nothing.
    """

    id: str

    @property
    def next_seq(self) -> int:
        """The lowest number that the next entry may have."""

    def add(self, past: ImportedEntry) -> None:
        """Write one entry behind the others."""

    def publish(self) -> str:
        """Make it durable and visible; return its id."""

    def discard(self) -> None:
        """Leave nothing of it, if it was not published."""

    def __enter__(self) -> Self:
        """Return itself."""

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None, /
    ) -> None:
        """Discard what was not published."""


class ReceivedFiles(Protocol):
    """A session that is being copied from elsewhere, file by file; a context manager.

    It is not visible before ``publish``; a copy that is not published leaves nothing.
    """

    id: str

    def add(self, name: str, chunks: Iterable[bytes]) -> None:
        """Write a file of the session, durably; ``name`` is relative to the session."""

    def publish(self) -> str:
        """Check that it is a session and make it visible; return its id."""

    def discard(self) -> None:
        """Remove it, if it was not published."""

    def __enter__(self) -> Self:
        """Return itself."""

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None, /
    ) -> None:
        """Discard what was not published."""


class Catalog(Protocol):
    """All sessions, without opening any."""

    def summaries(self, query: ListQuery, progress: Progress | None) -> list[Summary]:
        """Return summaries, last updated first."""

    def page(self, query: ListQuery) -> Page:
        """Return the same, and how many sessions there are beside."""

    def search(self, request: SearchRequest) -> list[Hit]:
        """Return what is found, in order."""

    def activity(self, progress: Progress | None) -> list[Activity]:
        """Return what happened in all sessions, by quarters of an hour, oldest first."""


class Trash(Protocol):
    """Deleted sessions. Nothing is done to a session that somebody writes to."""

    def move(self, ref: Ref) -> None:
        """Move a session to the trash; raises ``SessionLocked``."""

    def restore(self, wanted: str) -> str:
        """Bring the last deleted session of that id, or unique part of one, back."""

    def erase(self, ref: Ref) -> None:
        """Remove a session for good, and all that the trash has under its id.

        Leaves a tombstone. Raises ``SessionLocked``; then nothing was changed.
        """

    def tombstones(self) -> list[Tombstone]:
        """Return what was erased: sessions, and entries of sessions."""

    def log(self, gone: Deleted) -> Log:
        """Return a deleted session to read."""

    def deleted(self) -> list[Deleted]:
        """Return what is in the trash, last deleted first."""

    def purge(self, gone: Deleted) -> None:
        """Remove a deleted session for good."""

    def partial_purges(self, *, remove: bool) -> Leftovers:
        """Count what crashes left of sessions that were being purged."""

    def cleanup(self, until: datetime) -> int:
        """Move sessions that were last updated before a time to the trash; return how many."""


class Maintenance(Protocol):
    """What a session takes, who writes to it, and whether it is sound."""

    def size_bytes(self, session: Ref | Deleted) -> int:
        """Return how much room a session takes."""

    def holder(self, ref: Ref) -> Holder | None:
        """Return who is writing to a session, ``None`` if no one is."""

    def verify(self, ref: Ref, progress: Progress | None) -> Report:
        """Read a whole session and report every problem; changes nothing."""


class StoreLock(Protocol):
    """A lock on something of a store that only one process may do at a time."""

    def release(self) -> None:
        """Release it."""


class FolderWork(Protocol):
    """What only a store in a folder of this machine can do."""

    def leftovers(self, ref: Ref, *, remove: bool) -> Leftovers:
        """Count the blobs that nothing names, and with ``remove`` remove them."""

    def compress(self, ref: Ref) -> Compression:
        """Compress the log of a session that is not in use."""

    def is_compressed(self, ref: Ref) -> bool:
        """Tell whether the whole log of a session is compressed."""

    def decompress(self, ref: Ref) -> Compression:
        """Undo ``compress``."""

    def receive(self, session_id: str, source: str) -> ReceivedFiles:
        """Return a session to be copied from elsewhere, file by file."""

    def batch(self) -> Batch:
        """Return the store as it will be: what is staged there is published all at once."""

    def has_unfinished_batch(self) -> bool:
        """Tell whether a batch was published whose process died before it was done."""

    def lock(self, name: str) -> StoreLock:
        """Take the lock of that name, a folder of the store; raises ``SessionLocked``."""

    def scratch(self) -> Path:
        """Make a folder for what has to be on disk for a while and is no session."""

    def checkup(
        self, open_session: Callable[[Path], Session], progress: Progress | None, *, fix: bool
    ) -> Checkup:
        """Return what goes through everything there is and yields what is wrong."""


class Backend(Protocol):
    """All sessions of one store on one medium."""

    @property
    def location(self) -> Path | str:
        """Where the store is, for messages."""

    @property
    def catalog(self) -> Catalog:
        """What there is."""

    @property
    def trash(self) -> Trash:
        """What was deleted."""

    @property
    def maintenance(self) -> Maintenance:
        """What a session takes, and whether it is sound."""

    @property
    def folder_work(self) -> FolderWork | None:
        """What only a store in a folder can do; ``None`` if the medium is not a folder."""

    @property
    def is_shared(self) -> bool:
        """Whether other processes can open the same sessions."""

    def errors(self, what: str, ref: Ref | None = None) -> AbstractContextManager[None]:
        """Turn errors of the medium into errors of ours that say ``what`` failed, and where."""

    def ids(self) -> set[str]:
        """Return the ids of all sessions."""

    def has(self, session_id: str) -> bool:
        """Tell whether there is a session of that id."""

    def ref(self, session_id: str) -> Ref:
        """Return the session of a valid id, be it there or not."""

    def resolve(self, wanted: str | os.PathLike[str]) -> Ref:
        """Find a session by id, unique part of one, or place; raises ``SessionNotFound``."""

    def owns(self, ref: Ref) -> bool:
        """Tell whether it is a session of this store, not one of another place."""

    def create(self, header: Header) -> LogWriter:
        """Return the writer of a session that its first append will make."""

    def open(self, ref: Ref, key: str | None, *, write: bool) -> Opened:
        """Open a session; with ``write`` it is held and repaired.

        ``key`` is the one that it must have been made with. A session of a newer format is opened
        to read.

        Raises:
            SessionLocked: somebody else is writing to it.
            DamagedJournal: nothing in it can be read, or it is the session of another key.
        """

    def read(self, ref: Ref) -> Log:
        """Return all of a session that is durable, without looking for damage."""

    def blobs(self, ref: Ref) -> BlobSource:
        """Return the blobs of a session, be it there or not."""

    def watch(self, ref: Ref, after: int) -> Watch:
        """Return what is new in a session behind entry ``after``."""

    def copy(
        self, source: Ref, header: Header, copy: LogCopy, blobs: Sequence[str], origin: Provenance
    ) -> None:
        """Make a session from a copy of another's lines, with its blobs; durable on return."""

    def stage(self, header: Header, started: str, source: str) -> StagedSession:
        """Return a session to be filled with a conversation that took place elsewhere."""

    def provenance(self, ref: Ref) -> Provenance:
        """Return which entries of a session were received from elsewhere, and how."""

    def accept(self, ref: Ref, last_seq: int) -> Provenance:
        """Accept for good what was received up to ``last_seq``; return what it was."""

    def sign(self, data: bytes) -> str | None:
        """Return a signature that only this store can make, ``None`` if it has no key."""

    @property
    def local_folder(self) -> Path:
        """A folder of this machine for sockets, locks and logs of runners; it may not exist."""

    def local_state(self, ref: Ref) -> Path:
        """Return a folder of this machine for what belongs to a session and is no entry.

        It may not exist yet; whoever uses it makes it. It goes with the session.
        """

    def close(self) -> None:
        """Let go of everything."""
