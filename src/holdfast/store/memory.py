"""Sessions in the memory of this process: for tests, and for what nobody wants to keep.

The same lines, with the same checksums, as in files, but nothing survives the process. One process
is the only reader and writer there can be, so nothing is ever torn or damaged, and there is always
room.
"""

from __future__ import annotations

import hmac
import os
import socket
import threading
from bisect import bisect_right
from contextlib import nullcontext
from datetime import UTC, datetime
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.errors import SessionExists, SessionLocked, SessionNotFound, UsageError
from holdfast.journal.format import Cursor, chain_after, parse, timestamp
from holdfast.model.entry import Entry, Header
from holdfast.model.event import Event
from holdfast.model.ids import SESSION_ID, check_part, new_uid, only_match
from holdfast.model.lock_holder import Holder
from holdfast.store.backend import Opened, Ref
from holdfast.store.catalog.list_query import ListQuery
from holdfast.store.read.resume import interrupted_streams, resume_state
from holdfast.store.scratch import scratch_root
from holdfast.store.search.scan import Scan, activities_in
from holdfast.store.types import (
    IMPORT,
    INTERRUPTED,
    RUNNING,
    Compaction,
    Deleted,
    Leftovers,
    Page,
    Problem,
    Provenance,
    Receipt,
    Recovery,
    Report,
    Span,
    Summary,
    Tombstone,
    stamp,
)
from holdfast.store.write.erase import kept
from holdfast.store.write.rewrite import LogCopy
from holdfast.store.write.staged import StagedLines
from holdfast.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self

    from holdfast.journal.damage import Record
    from holdfast.model.state import State
    from holdfast.store.backend import Log
    from holdfast.store.search.documents import Activity
    from holdfast.store.search.scan import SearchRequest
    from holdfast.store.types import Hit
    from holdfast.store.write.encode import ImportedEntry
    from holdfast.store.write.erase import Erasure

    Progress = Callable[[int, int], None]

LOCATION = "memory://"
_BLOCK_ENTRIES = 256
_MOST_AT_ONCE = 2000


class _Kept(Struct, eq=False):
    """One session: its lines, and everything that belongs to them.

    ``entries`` only grows; a rewrite puts another list in its place. ``live_version`` changes when
    live text is removed. ``written`` is the time of the last change, whatever entries say.
    """

    id: str
    header: Header
    entries: list[Entry] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    live: list[Event] = field(default_factory=list)
    live_version: int = 0
    foreign: list[Span] = field(default_factory=list)
    received: list[Receipt] = field(default_factory=list)
    holder: object | None = None
    held_since: str = ""
    written: str = ""
    ids: dict[str, Entry] = field(default_factory=dict)
    indexed: int = -1
    """The entries with an id up to this number, for ``by_id``."""

    def by_id(self, id: str) -> Entry | None:
        """Return the last entry with that id."""
        entries = self.entries
        start = bisect_right(entries, self.indexed, key=attrgetter("seq"))
        for entry in entries[start:]:
            if entry.id is not None:
                self.ids[entry.id] = entry
        self.indexed = entries[-1].seq
        return self.ids.get(id)

    def held_by(self) -> Holder | None:
        """Return who writes to it: always this process."""
        if self.holder is None:
            return None
        return Holder(os.getpid(), socket.gethostname(), self.held_since, __version__)

    def check_free(self) -> None:
        """Raise ``SessionLocked`` if it has a writer."""
        holder = self.held_by()
        if holder is not None:
            raise SessionLocked(self.id, holder)

    def hold(self, holder: object) -> None:
        """Make ``holder`` its one writer."""
        self.check_free()
        self.holder, self.held_since = holder, timestamp()


class _Block(Struct, frozen=True):
    records: list[Record]


class MemoryLog:
    """A view of the entries that a session has at this moment."""

    def __init__(self, kept: _Kept) -> None:
        self._kept = kept
        self._entries = kept.entries
        self._end = len(kept.entries)
        self.session_id = kept.id
        self.location = f"{LOCATION}{kept.id}"

    @property
    def header(self) -> Entry | None:
        """The first line."""
        return self._entries[0]

    @property
    def size_bytes(self) -> int:
        """Bytes of all lines."""
        return sum(len(entry.line) + 1 for entry in self._entries[: self._end])

    def _place_after(self, seq: int) -> int:
        return bisect_right(self._entries, seq, 0, self._end, key=lambda entry: entry.seq)

    def records(self, after: int = -1) -> Iterator[Record]:
        """Yield entries numbered above ``after``, in order."""
        for place in range(self._place_after(after), self._end):
            yield self._entries[place]

    def blocks_backward(self, seq: int | None = None) -> Iterator[_Block]:
        """Yield blocks back to the beginning, from the end or from entry ``seq``."""
        end = self._end if seq is None else self._place_after(seq)
        while end > 0:
            start = max(0, end - _BLOCK_ENTRIES)
            yield _Block(list(self._entries[start:end]))
            end = start

    def find(self, seq: int) -> Entry | None:
        """Return the entry numbered ``seq``."""
        place = self._place_after(seq) - 1
        found = self._entries[place] if place >= 0 else None
        return found if found is not None and found.seq == seq else None

    def find_archived(self, seq: int) -> Entry | None:
        """Return an entry that a rewrite has left out, if it was kept for its id."""
        self._kept.by_id("")
        return next((entry for entry in self._kept.ids.values() if entry.seq == seq), None)

    def find_id(self, id: str) -> Entry | None:
        """Return the last entry with that id, also one that a rewrite has left out."""
        found = self._kept.by_id(id)
        end = self._entries[self._end - 1].seq
        return found if found is not None and found.seq <= end else None

    def live_events(self) -> list[Event]:
        """Return the text of running streams, and of those that nobody finished."""
        return list(self._kept.live)

    def close(self) -> None:
        """Do nothing: there is nothing to let go of."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


class MemoryLive:
    """The text of running streams."""

    def __init__(self, kept: _Kept, changed: threading.Condition) -> None:
        self._kept = kept
        self._changed = changed
        self.size_bytes = _size(kept.live)

    def append(self, events: Iterable[Event]) -> None:
        """Add events."""
        added = list(events)
        with self._changed:
            self._kept.live += added
            self.size_bytes += _size(added)
            self._changed.notify_all()

    def sync(self) -> None:
        """Do nothing: memory has no second state."""

    def clear(self) -> None:
        """Remove all text."""
        if self._kept.live:
            self.rewrite(())

    def rewrite(self, events: Iterable[Event]) -> None:
        """Replace all text by these events."""
        with self._changed:
            self._kept.live = list(events)
            self._kept.live_version += 1
            self.size_bytes = _size(self._kept.live)
            self._changed.notify_all()

    def close(self) -> None:
        """Do nothing."""


def _size(events: Iterable[Event]) -> int:
    return sum(len(event.text.encode("utf-8", "surrogatepass")) for event in events)


class MemoryLogWriter:
    """The one holder of a session; the first append makes it."""

    def __init__(
        self, backend: MemoryBackend, header: Header, cursor: Cursor, kept: _Kept | None = None
    ) -> None:
        self._backend = backend
        self._header = header
        self._process = os.getpid()
        self._durable = kept, cursor
        self.location = f"{LOCATION}{header.session}"

    @property
    def exists(self) -> bool:
        """Whether the session was made and is still held."""
        return self._durable[0] is not None

    @property
    def cursor(self) -> Cursor:
        """Where numbering continues."""
        return self._durable[1]

    def check_held(self) -> None:
        """Raise ``UsageError`` in a process that was forked from the holder."""
        if os.getpid() != self._process:
            raise UsageError(
                "This session was opened before a fork and belongs to the parent process: "
                "open it again in the child process."
            )

    def errors(self, what: str) -> AbstractContextManager[None]:  # noqa: ARG002  nothing fails
        """Do nothing: memory raises no errors of its own."""
        return nullcontext()

    def append(self, entries: Sequence[Entry], payloads: Sequence[bytes], after: Cursor) -> None:
        """Store a round."""
        with self._backend.changed:
            kept = self._durable[0] or self._backend.make(self._header, self)
            for payload in payloads:
                kept.blobs[sha256(payload).hexdigest()] = payload
            last = kept.entries[-1].seq if kept.entries else -1
            # An interrupt may have this called twice with the same entries.
            kept.entries += [entry for entry in entries if entry.seq > last]
            kept.written = timestamp()
            self._durable = kept, after
            self._backend.changed.notify_all()

    def _kept(self) -> _Kept:
        kept = self._durable[0]
        assert kept is not None
        return kept

    def put_blob(self, data: bytes) -> str:
        """Store bytes and return their name."""
        name = sha256(data).hexdigest()
        self._kept().blobs[name] = data
        return name

    def open_live(self) -> MemoryLive:
        """Return the text of running streams."""
        return MemoryLive(self._kept(), self._backend.changed)

    def has_live_text(self) -> bool:
        """Tell whether there is live text."""
        kept = self._durable[0]
        return kept is not None and bool(kept.live)

    def has_live_file(self) -> bool:
        """Tell the same: what was removed does not come back."""
        return self.has_live_text()

    def record_reception(self, spans: Sequence[Span], source: str) -> None:
        """Record that entries with these numbers come from elsewhere."""
        kept = self._kept()
        kept.foreign = [*kept.foreign, *spans]
        kept.received = [*kept.received, Receipt(IMPORT, source, timestamp())]

    def begin_own(self, last_seq: int) -> None:
        """Do nothing: what is foreign always has an end here."""

    def log(self) -> MemoryLog | None:
        """Return a view of everything so far."""
        kept = self._durable[0]
        return None if kept is None else MemoryLog(kept)

    def hold(self, log: Log) -> None:
        """Do nothing: a view needs nothing."""

    def let_go(self, log: Log) -> None:
        """Do nothing."""

    def has_grown(self) -> bool:
        """Say no: ids are found in memory."""
        return False

    def save_ids(self, log: Log, *, closing: bool = False) -> None:
        """Do nothing: ids are found in memory."""

    def rewrite(self, keep: Callable[[Entry], bool], state: State) -> tuple[Compaction, State]:
        """Replace the lines by those for which ``keep`` says yes."""
        kept, cursor = self._kept(), self.cursor
        before = MemoryLog(kept)
        copy = LogCopy(before, self._header, keep, lambda _: state, cursor.next_seq)
        entries = _parsed(copy)
        kept.by_id("")  # entries that are left out are still found
        with self._backend.changed:
            kept.entries = entries
            last = entries[-1]
            self._durable = kept, Cursor(last.seq, last.seq + 1, last.sum, copy.state.head)
        return Compaction(before.size_bytes, copy.size_bytes, copy.left_out, ""), copy.state

    def erase(self, erasure: Erasure, state: State) -> State:
        """Remove an entry for good."""
        stored, cursor, seq = self._kept(), self.cursor, erasure.seq
        log = MemoryLog(stored)
        copy = LogCopy(
            log, self._header, lambda each: kept(each, seq), lambda _: state, cursor.next_seq, {seq}
        )
        entries = _parsed(copy)
        with self._backend.changed:
            stored.by_id("")
            stored.ids = {name: each for name, each in stored.ids.items() if each.seq != seq}
            stored.entries = entries
            named = b"".join(each.line for each in (*entries, *stored.ids.values()))
            for name in erasure.blobs:
                if name.encode() not in named:
                    stored.blobs.pop(name, None)
            last = entries[-1]
            self._durable = stored, Cursor(last.seq, last.seq + 1, last.sum, copy.state.head)
            self._backend.trash.bury(stored, seq, erasure.sum)
        return copy.state

    def finish_erasing(self, seq: int) -> None:
        """Do nothing: ``erase`` has removed all of it."""

    def release(self) -> None:
        """Let another writer have the session."""
        kept, cursor = self._durable
        self._durable = None, cursor
        if kept is not None and kept.holder is self:
            kept.holder = None


def _parsed(copy: LogCopy) -> list[Entry]:
    entries: list[Entry] = []
    chain: bytes | None = b""
    for chunk in copy.chunks():
        entry = parse(chunk[:-1], chain, 0, 0)
        assert entry is not None
        entries.append(entry)
        chain = chain_after(entry)
    return entries


class MemoryWatch:
    """What is new in a session."""

    def __init__(self, backend: MemoryBackend, session_id: str, after: int) -> None:
        self._backend = backend
        self._id = session_id
        self._after = after
        self._live = (0, 0)  # version of the live text, and how much of it was seen

    def entries(self) -> list[Entry]:
        """Return entries that were not returned before."""
        kept = self._backend.sessions.get(self._id)
        found: list[Entry] = []
        if kept is not None:
            for record in MemoryLog(kept).records(self._after):
                if len(found) == _MOST_AT_ONCE:
                    break
                assert isinstance(record, Entry)
                found.append(record)
        if found:
            self._after = found[-1].seq
        return found

    def live(self) -> tuple[list[Event], bool]:
        """Return new text, and whether all text before was removed."""
        kept = self._backend.sessions.get(self._id)
        if kept is None:
            return [], False
        with self._backend.changed:
            version, seen = self._live
            is_new = version != kept.live_version
            events = kept.live[0 if is_new else seen :]
            self._live = kept.live_version, len(kept.live)
        return events, is_new

    def wait(self, seconds: float) -> None:
        """Return when something changes in any session, or the time is over."""
        with self._backend.changed:
            if not self._has_new():
                self._backend.changed.wait(seconds)

    def _has_new(self) -> bool:
        kept = self._backend.sessions.get(self._id)
        if kept is None:
            return False
        last = kept.entries[-1].seq if kept.entries else -1
        return last > self._after or self._live != (kept.live_version, len(kept.live))

    def close(self) -> None:
        """Do nothing."""


class MemoryStaging:
    """A session that is being filled with entries made elsewhere."""

    def __init__(self, backend: MemoryBackend, header: Header, started: str, source: str) -> None:
        self.id = header.session
        self._backend = backend
        self._kept = _Kept(self.id, header)
        self._source = source
        self._lines = StagedLines(started)
        self._chain: bytes | None = b""
        self._append(self._lines.header(header))

    @property
    def next_seq(self) -> int:
        """The lowest number that the next entry may have."""
        return self._lines.next_seq

    def add(self, past: ImportedEntry) -> None:
        """Add one entry behind the others."""
        for line in self._lines.add(past):
            self._append(line)
        for payload in past.payloads:
            self._kept.blobs[sha256(payload).hexdigest()] = payload

    def _append(self, line: bytes) -> None:
        entry = parse(line, self._chain, 0, 0)
        assert entry is not None
        self._chain = chain_after(entry)
        self._kept.entries.append(entry)

    def publish(self) -> str:
        """Make it visible; return its id."""
        for line in self._lines.finish():
            self._append(line)
        self._kept.foreign = [(0, self._lines.next_seq - 1)]
        self._kept.received = [Receipt(IMPORT, self._source, timestamp())]
        self._backend.add(self._kept)
        return self.id

    def discard(self) -> None:
        """Do nothing: nobody has seen it."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Discard what was not published."""


class MemoryBlobs:
    """The blobs of one session, be it there or not."""

    def __init__(self, backend: MemoryBackend, session_id: str) -> None:
        self._backend = backend
        self._id = session_id

    def read_named(self, name: str) -> bytes | None:
        """Return a blob's bytes, ``None`` if it is missing."""
        kept = self._backend.sessions.get(self._id)
        return None if kept is None else kept.blobs.get(name)


class MemoryCatalog:
    """All sessions, each read when a list or a search needs it."""

    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend

    def _all(self) -> list[Summary]:
        found = [_summary(kept) for kept in list(self._backend.sessions.values())]
        found.sort(key=lambda each: (each.updated, each.id), reverse=True)
        return found

    def summaries(self, query: ListQuery, progress: Progress | None) -> list[Summary]:  # noqa: ARG002  it is done at once
        """Return summaries, last updated first."""
        return [each for each in self._all() if _fits(each, query)][: query.limit]

    def page(self, query: ListQuery) -> Page:
        """Return the same, and how many sessions there are beside."""
        every = self._all()
        place = replace(query, since=None, until=None)
        fitting = [each for each in every if _fits(each, query)]
        placed = sum(_fits(each, place) for each in every)
        return Page(fitting[: query.limit], len(fitting), placed, len(every))

    def search(self, request: SearchRequest) -> list[Hit]:
        """Return what is found by reading everything."""
        backend = self._backend
        scan = Scan(request, backend.log, lambda each: MemoryBlobs(backend, each))
        return scan.in_all(sorted(backend.sessions))

    def activity(self, progress: Progress | None) -> list[Activity]:  # noqa: ARG002  as above
        """Return what happened in all sessions, oldest first."""
        kept = list(self._backend.sessions.values())
        found = [each for one in kept for each in activities_in(one.id, MemoryLog(one))]
        found.sort(key=lambda each: (each.at, each.session, each.model or ""))
        return found


def _fits(summary: Summary, query: ListQuery) -> bool:
    return (
        (query.workspace is None or summary.workspace == query.workspace)
        and (query.projects is None or summary.project in query.projects)
        and (query.since is None or summary.updated >= query.since)
        and (query.until is None or summary.updated < query.until)
        and (query.key_prefix is None or _has_prefix(summary.key, query.key_prefix))
    )


def _has_prefix(key: str | None, prefix: str) -> bool:
    return key is not None and key.startswith(prefix)


def _summary(kept: _Kept) -> Summary:
    log = MemoryLog(kept)
    state = resume_state(log).state
    summary = Summary.of(kept.id, state, kept.header.key, log.size_bytes)
    if state.turn_is_open or interrupted_streams(log):
        summary = replace(summary, state=INTERRUPTED if kept.holder is None else RUNNING)
    # A session that claims a time in the future must not stay the newest.
    is_future = summary.updated > stamp(datetime.now(UTC))
    updated = kept.written if is_future else summary.updated
    return replace(summary, updated=updated, foreign=bool(kept.foreign))


class MemoryTrash:
    """Deleted sessions."""

    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend
        self._deleted: list[tuple[Deleted, _Kept]] = []
        self._tombstones: list[Tombstone] = []

    def move(self, ref: Ref) -> None:
        """Move a session to the trash."""
        with self._backend.changed:
            kept = self._backend.kept(ref.id)
            kept.check_free()
            del self._backend.sessions[ref.id]
            gone = Deleted(ref.id, f"{LOCATION}trash/{new_uid()}", timestamp())
            self._deleted.insert(0, (gone, kept))

    def restore(self, wanted: str) -> str:
        """Bring the last deleted session of that id, or unique part of one, back."""
        part = check_part(wanted)
        found = [each for each in self._deleted if part in each[0].id]
        ids = {gone.id for gone, _ in found}
        if len(ids) != 1:
            what = "No session" if not ids else f"More than one session ({len(ids)})"
            raise SessionNotFound(f"{what} with {part!r} in its id is in the trash.")
        self._backend.add(found[0][1])
        self._deleted.remove(found[0])
        return found[0][0].id

    def erase(self, ref: Ref) -> None:
        """Remove a session for good, and what the trash has under its id; leave a tombstone."""
        with self._backend.changed:
            there = self._backend.sessions.get(ref.id)
            if there is not None:
                there.check_free()
                del self._backend.sessions[ref.id]
                self.bury(there)
            for gone, stored in self._deleted:
                if gone.id == ref.id:
                    self.bury(stored)
            self._deleted = [each for each in self._deleted if each[0].id != ref.id]

    def bury(self, stored: _Kept, seq: int | None = None, line_sum: str | None = None) -> None:
        """Leave a tombstone."""
        header = stored.header
        self._tombstones.append(
            Tombstone(header.session, header.uid, timestamp(), header.key, seq, line_sum)
        )

    def tombstones(self) -> list[Tombstone]:
        """Return what was erased."""
        return list(self._tombstones)

    def log(self, gone: Deleted) -> MemoryLog:
        """Return a deleted session to read."""
        return next(MemoryLog(stored) for each, stored in self._deleted if each == gone)

    def deleted(self) -> list[Deleted]:
        """Return what is in the trash, last deleted first."""
        return [gone for gone, _ in self._deleted]

    def purge(self, gone: Deleted) -> None:
        """Remove a deleted session for good."""
        if gone not in self.deleted():
            raise UsageError(f"{gone.path} is not in the trash.")
        self._deleted = [each for each in self._deleted if each[0] != gone]

    def partial_purges(self, *, remove: bool) -> Leftovers:  # noqa: ARG002  there are none
        """Return nothing: no crash leaves half of a session."""
        return Leftovers()

    def cleanup(self, until: datetime) -> int:
        """Move sessions that were last updated before a time to the trash; return how many."""
        moved = 0
        for summary in self._backend.catalog.summaries(ListQuery(until=stamp(until)), None):
            if self._backend.kept(summary.id).holder is None:
                self.move(self._backend.ref(summary.id))
                moved += 1
        return moved

    def size_bytes(self, gone: Deleted) -> int:
        """Return how much room a deleted session takes."""
        return next((_room(kept) for each, kept in self._deleted if each == gone), 0)


def _room(kept: _Kept) -> int:
    return MemoryLog(kept).size_bytes + sum(map(len, kept.blobs.values()))


class MemoryMaintenance:
    """What a session takes, who writes to it, and whether it is sound."""

    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend

    def size_bytes(self, session: Ref | Deleted) -> int:
        """Return how much room a session takes."""
        if isinstance(session, Deleted):
            return self._backend.trash.size_bytes(session)
        return _room(self._backend.kept(session.id))

    def holder(self, ref: Ref) -> Holder | None:
        """Return who is writing to a session, ``None`` if no one is."""
        return self._backend.kept(ref.id).held_by()

    def verify(self, ref: Ref, progress: Progress | None) -> Report:
        """Check every line again, as it stands there."""
        log = self._backend.log(ref.id)
        problems: list[Problem] = []
        entries = messages = done = 0
        chain: bytes | None = b""
        for record in log.records():
            assert isinstance(record, Entry)
            entry = parse(record.line, chain, 0, 0)
            if entry is None or entry.status != "ok":
                problems.append(Problem("edited", f"entry {record.seq}", "its checksum is wrong"))
            chain = chain_after(record)
            entries += 1
            messages += record.type == "message"
            done += len(record.line) + 1
        if progress is not None:
            progress(done, done)
        return Report(ref.id, entries, messages, log.size_bytes, 1, problems)


class MemoryBackend:
    """All sessions of one store, in the memory of this process. Works from any thread."""

    folder_work = None
    is_shared = False
    location = LOCATION

    def __init__(self) -> None:
        self.sessions: dict[str, _Kept] = {}
        self.changed = threading.Condition(threading.RLock())
        self.catalog = MemoryCatalog(self)
        self.trash = MemoryTrash(self)
        self.maintenance = MemoryMaintenance(self)
        self._key = os.urandom(32)
        self._state_name = f"holdfast-memory-{new_uid()}"

    def errors(self, what: str, ref: Ref | None = None) -> AbstractContextManager[None]:  # noqa: ARG002  nothing fails
        """Do nothing: memory raises no errors of its own."""
        return nullcontext()

    # For the parts of this medium

    def kept(self, session_id: str) -> _Kept:
        """Return a session that is there; raises ``SessionNotFound``."""
        kept = self.sessions.get(session_id)
        if kept is None:
            raise SessionNotFound(
                f"There is no session {session_id!r}: it may be in another store or in the trash."
            )
        return kept

    def log(self, session_id: str) -> MemoryLog:
        """Return what a session has at this moment."""
        return MemoryLog(self.kept(session_id))

    def make(self, header: Header, holder: object) -> _Kept:
        """Make a session, held by ``holder``; an interrupt may have it done twice."""
        kept = self.sessions.get(header.session)
        if kept is not None and kept.holder is holder:
            return kept
        kept = _Kept(header.session, header)
        kept.hold(holder)
        self.add(kept)
        return kept

    def add(self, kept: _Kept) -> None:
        """Let everybody see a session."""
        with self.changed:
            if kept.id in self.sessions:
                raise SessionExists(f"Session {kept.id} already exists. Nothing was changed.")
            kept.written = kept.written or timestamp()
            self.sessions[kept.id] = kept

    # Which sessions there are

    def ids(self) -> set[str]:
        """Return the ids of all sessions."""
        return set(self.sessions)

    def has(self, session_id: str) -> bool:
        """Tell whether there is a session of that id."""
        return session_id in self.sessions

    def ref(self, session_id: str) -> Ref:
        """Return the session of a valid id, be it there or not."""
        return Ref(session_id, f"{LOCATION}{session_id}")

    def resolve(self, wanted: str | os.PathLike[str]) -> Ref:
        """Find a session by id, or a unique part of one."""
        if isinstance(wanted, os.PathLike):
            raise SessionNotFound(
                f"{wanted} is a path, but this store is in memory. Use a session id."
            )
        part = check_part(wanted)
        found = part if SESSION_ID.fullmatch(part) else only_match(part, list(self.sessions))
        return self.ref(self.kept(found).id)

    def owns(self, ref: Ref) -> bool:
        """Tell whether it is a session of this store."""
        return ref.id in self.sessions

    # Reading and writing one

    def create(self, header: Header) -> MemoryLogWriter:
        """Return the writer of a session that its first append will make."""
        return MemoryLogWriter(self, header, Cursor(None, 0, b"", None))

    def open(self, ref: Ref, key: str | None, *, write: bool) -> Opened:  # noqa: ARG002  no two keys have one id
        """Open a session; with ``write`` it is held."""
        with self.changed:
            kept = self.kept(ref.id)
            if write:
                kept.check_free()
            log = MemoryLog(kept)
            resumed = resume_state(log)
            interrupted = [] if kept.holder is not None else interrupted_streams(log)
            recovery = Recovery(interrupted=interrupted)
            if not write or resumed.state.unsupported is not None:
                return Opened(kept.header, resumed.state, recovery, log=log)
            last = kept.entries[-1]
            cursor = Cursor(
                last.seq,
                last.seq + 1,
                chain_after(last) or b"",
                resumed.state.head,
                resumed.since_mark_bytes,
            )
            writer = MemoryLogWriter(self, kept.header, cursor, kept)
            kept.hold(writer)
            return Opened(kept.header, resumed.state, recovery, writer=writer)

    def read(self, ref: Ref) -> MemoryLog:
        """Return all of a session."""
        return self.log(ref.id)

    def blobs(self, ref: Ref) -> MemoryBlobs:
        """Return the blobs of a session, be it there or not."""
        return MemoryBlobs(self, ref.id)

    def watch(self, ref: Ref, after: int) -> MemoryWatch:
        """Return what is new in a session behind entry ``after``."""
        return MemoryWatch(self, ref.id, after)

    def copy(
        self, source: Ref, header: Header, copy: LogCopy, blobs: Sequence[str], origin: Provenance
    ) -> None:
        """Make a session from a copy of another's lines, with its blobs."""
        known = self.kept(source.id).blobs
        self.add(
            _Kept(
                header.session,
                header,
                _parsed(copy),
                blobs={name: known[name] for name in blobs if name in known},
                foreign=origin.foreign,
                received=origin.received,
            )
        )

    def stage(self, header: Header, started: str, source: str) -> MemoryStaging:
        """Return a session to be filled with a conversation that took place elsewhere."""
        return MemoryStaging(self, header, started, source)

    # Where entries came from

    def provenance(self, ref: Ref) -> Provenance:
        """Return which entries of a session were received from elsewhere, and how."""
        kept = self.kept(ref.id)
        return Provenance(kept.foreign, kept.received)

    def accept(self, ref: Ref, last_seq: int) -> Provenance:
        """Accept for good what was received up to ``last_seq``; return what it was."""
        before = self.provenance(ref)
        self.kept(ref.id).foreign = [
            (max(first, last_seq + 1), last)
            for first, last in before.foreign
            if last is not None and last > last_seq
        ]
        return before

    def sign(self, data: bytes) -> str | None:
        """Return a signature that only this store can make."""
        return hmac.new(self._key, data, sha256).hexdigest()

    @property
    def local_folder(self) -> Path:
        """A temporary folder with a random name; the opener of the store removes it."""
        return scratch_root() / self._state_name

    def local_state(self, ref: Ref) -> Path:
        """Return a folder below ``local_folder``."""
        return self.local_folder / ref.id

    def close(self) -> None:
        """Do nothing: the sessions go when nobody refers to them any more."""
