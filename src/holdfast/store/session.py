"""One open session: the surface that programs use. What happens is in the modules it calls."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from holdfast.errors import FormatTooNew, UsageError
from holdfast.model.entry import FORMAT, Body, Checkpoint, Custom, Head, Meta, Position, Usage
from holdfast.model.ids import new_name
from holdfast.model.message import Message
from holdfast.model.state import copied
from holdfast.store.read.branch import walk
from holdfast.store.read.follower import Follower
from holdfast.store.read.session_reader import SessionReader
from holdfast.store.read.text_formats import FORMATS, text_of
from holdfast.store.types import Compaction, Erased, ForkOptions, Provenance, Recovery, Span
from holdfast.store.validation import (
    EntryRef,
    as_list,
    bytes_of,
    check_callable,
    check_facts,
    check_selection,
    messages_of,
    number_of,
    required_number,
    stored_facts,
    summary_of,
    valid_name,
    with_project,
)
from holdfast.store.write import rewrite, snapshots
from holdfast.store.write.blob_refs import put_back
from holdfast.store.write.erase import erase
from holdfast.store.write.streams import Stream, new_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from holdfast.journal.ticket import Ticket
    from holdfast.model.entry import Entry
    from holdfast.model.event import Event
    from holdfast.model.state import State, Totals
    from holdfast.store.backend import Backend, Log, Ref
    from holdfast.store.steps import Run
    from holdfast.store.write.encode import ImportedEntry
    from holdfast.store.write.erase import Erasure
    from holdfast.store.write.recorder import Recorder

    EraseCopies = Callable[[str, Erasure, bool], tuple[list[str], list[str]]]

_SIGNATURE_DIGITS = 16


class Session:
    """A session that was created or opened. Works from any thread; ``async with`` works too.

    Blocking methods return once what they wrote is durable. ``submit`` (and ``Stream.submit``)
    return a ticket instead, to ``wait()`` for or to ``await``.
    """

    def __init__(
        self,
        backend: Backend,
        ref: Ref,
        *,
        recorder: Recorder | None = None,
        log: Log | None = None,
        state: State | None = None,
        recovery: Recovery | None = None,
        new_meta: dict[str, Any] | None = None,
    ) -> None:
        self._backend = backend
        self._ref = ref
        self.id = ref.id
        self._recorder = recorder
        self.recovery = recovery or Recovery()
        """What opening found and did."""
        self._reading = SessionReader(backend, ref, recorder, log, state, self.recovery.interrupted)
        self._forget: Callable[[Session], None] = lambda _: None
        self._fork: Callable[[Session, Ref, Log, ForkOptions], Session] | None = None
        self._erase_copies: EraseCopies = lambda *_: ([], [])
        self._new_meta = new_meta if new_meta is not None else {}

    def attach(
        self,
        *,
        forget: Callable[[Session], None],
        fork: Callable[[Session, Ref, Log, ForkOptions], Session],
        erase_copies: EraseCopies,
    ) -> None:
        """Let the store know when the session closes, make forks, and find copies of entries."""
        self._forget, self._fork, self._erase_copies = forget, fork, erase_copies

    def __repr__(self) -> str:
        """Return the id, the number of the last durable entry, and what can be done with it."""
        if self._reading.closed:
            mode = "closed"
        else:
            mode = "read-only" if self._recorder is None else "open for writing"
        return f"<Session {self.id}, last entry {self.seq}, {mode}>"

    @property
    def path(self) -> Path:
        """The session's folder; it may not exist yet.

        Raises:
            UsageError: the store does not keep sessions in folders.
        """
        if self.folder is None:
            raise UsageError(f"Session {self.id} has no folder: it is in {self.location}.")
        return self.folder

    @property
    def folder(self) -> Path | None:
        """The session's folder, as ``path``; ``None`` if the store does not use folders."""
        location = self._ref.location
        return location if isinstance(location, Path) else None

    @property
    def location(self) -> str:
        """Where the session is kept, for messages: a folder, or a URL."""
        return str(self._ref.location)

    @property
    def local_state(self) -> Path:
        """A folder of this machine for what belongs to the session and is no entry.

        It may not exist yet, and goes with the session.
        """
        return self._backend.local_state(self._ref)

    def provenance(self) -> Provenance:
        """Return which entries were received from elsewhere and how; reads a small file."""
        if self._recorder is not None and self._recorder.unborn:
            return Provenance()
        return self._backend.provenance(self._ref)

    def signed_name(self, name: str) -> str:
        """Return ``name`` with a signature of this store, for a folder in ``local_state``.

        A folder that came with a copied session cannot have such a name: it was made here.
        """
        signature = self._backend.sign(f"{self.id}/{name}".encode())
        return f"{name}-{(signature or new_name())[:_SIGNATURE_DIGITS]}"

    # Appending

    def append(
        self,
        item: Body | Sequence[Body],
        id: str | None = None,
        *,
        ids: Sequence[str] | None = None,
        expect_head: EntryRef | UnsetType = UNSET,
    ) -> Position:
        """Append a message (or another body) and return its position once it is durable.

        A list is one atomic batch: after a crash all of it is there, or nothing.

        Args:
            item: a body, or a list of them.
            id: makes the call idempotent: if an entry, or batch, of that id has this content, its
                position is returned with ``known`` set, and nothing is written.
            ids: one id for each entry of a list. The first entries may be known; only the rest is
                written, as one batch, and ``known`` is set if nothing was.
            expect_head: append only if this entry is the head (``None``: if the branch is empty);
                compared and appended in one step. Ids that are known are found first.

        Raises:
            IdConflict: the id belongs to other content, or a known id follows a new one in
                ``ids``. Nothing was appended.
            HeadMoved: another entry is the head. Nothing was appended.
            DiskFull: accepted and numbered, waiting for room. The same call again waits for the
                same entries and does not write them twice.
            WriteFailed: the journal cannot be written any more.
            UsageError: it cannot be stored, or this session is closed or read-only.
        """
        recorder = self._recorder or self._writable()  # it refuses what else there is to refuse
        if expect_head is not UNSET:
            expect_head = number_of(expect_head)
        items = [item] if type(item) is Message else as_list(item)
        return recorder.append(items, id, ids, expect_head)

    def submit(
        self,
        item: Body | Sequence[Body],
        id: str | None = None,
        *,
        ids: Sequence[str] | None = None,
        expect_head: EntryRef | UnsetType = UNSET,
    ) -> Ticket:
        """Append in the background: returns a ticket to wait for or to await.

        Arguments and errors are those of ``append``; waiting raises ``IdConflict`` and
        ``HeadMoved``. An error of a ticket that was never waited for is raised by ``close``.
        """
        recorder = self._recorder or self._writable()  # as above
        if expect_head is not UNSET:
            expect_head = number_of(expect_head)
        items = [item] if type(item) is Message else as_list(item)
        return recorder.submit(items, id, ids, expect_head)

    def adopt(self, pasts: Sequence[ImportedEntry], source: str = "a program") -> Position:
        """Append entries of a conversation that took place elsewhere: one batch, durable on return.

        Each has the number, time and parent that it brings. Numbers are above ``state.seq``.
        ``source`` says where they come from; before they are appended they are recorded as foreign.
        """
        recorder = self._writable()

        def record(spans: list[Span]) -> None:
            recorder.log_writer.record_reception(spans, source)

        return recorder.adopt(pasts, record)

    def stream(
        self, *, model: str | None = None, call_id: str | None = None, name: str | None = None
    ) -> Stream:
        """Begin an assistant message that is streamed, or with ``call_id`` a tool's output."""
        recorder = self._writable()
        kind = "text" if call_id is None else "tool_output"
        pattern = new_stream(
            recorder.next_seq - 1, kind=kind, call_id=call_id, name=name, model=model
        )
        return recorder.streams.begin(pattern)

    def usage(
        self,
        *,
        input: int,  # noqa: A002  the word everybody uses
        output: int,
        cost_usd: float | None = None,
        model: str | None = None,
        cache_read: int = 0,
        cache_write: int = 0,
        request: str | None = None,
        **extra: Any,
    ) -> Position:
        """Record what one request cost; totals are derived from these."""
        return self.append(
            Usage(input, output, cost_usd, cache_read, cache_write, model, request, extra=extra)
        )

    def update(self, **meta: Any) -> Position | None:
        """Merge facts about the session: title, tags, model, provider, anything.

        A ``workspace`` is recorded as ``create`` does it, with its project if none is given.
        Before the first entry nothing is written and ``None`` is returned; the facts go with it.
        """
        recorder = self._writable()
        meta = with_project(meta, self.meta)
        with recorder.mutex:
            if recorder.unborn:
                check_facts(self._new_meta, [Meta(meta)])
                self._new_meta.update(stored_facts(meta))  # refused now, not at the first append
                return None
        return recorder.append([Meta(meta)])

    def keep(self, data: bytes) -> str:
        """Store bytes in the session's folder, durably, and return the name of the blob.

        Garbage collection keeps what an entry names: a tool's result does so in ``kept``.

        Raises:
            DiskFull: there is no room.
            StorageError: the blob could not be written.
            UsageError: it is not bytes, or the session has no entry yet.
        """
        data = bytes_of(data)
        recorder = self._writable()
        if not recorder.exists:
            raise UsageError(
                "This session has no entries yet, so it has no folder. Append an entry first."
            )
        return recorder.log_writer.put_blob(data)

    def blob(self, name: str) -> bytes | None:
        """Return the bytes that ``keep`` stored, ``None`` if they are missing or altered."""
        return self._backend.blobs(self._ref).read_named(name)

    def event(self, name: str, data: Any = None, *, complete: bool | None = None) -> Position:
        """Record opaque data of a viewer, extension or framework."""
        return self.append(Custom(name, data, complete))

    # Snapshots

    def put(self, name: str, value: Any) -> Position:
        """Store the latest data under a name, durably: JSON data, or bytes.

        It replaces what was put under the name before, which ``compact`` then reclaims.

        Raises:
            UsageError: it cannot be stored, or too many names are in use.
        """
        return snapshots.put(self._writable(), name, value)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the durable data under a name, ``default`` if there is none.

        It is read without the entries before it. In a session that came from elsewhere it is what
        the sender put there: treat it as input.

        Raises:
            StorageError: it is damaged, or its blob is missing.
        """
        reading, blobs = self._reading, self._backend.blobs(self._ref)
        seq = reading.state.snapshots.get(valid_name(name))
        while seq is not None:
            entry, before = reading.entry(seq), seq
            seq = reading.state.snapshots.get(name)
            if seq == before:  # else it was replaced meanwhile, and perhaps left out
                return snapshots.value_of(entry, name, blobs)
        return default

    def drop(self, name: str) -> Position | None:
        """Remove what was put under a name; ``None`` if there is nothing."""
        return snapshots.drop(self._writable(), name)

    # Durable steps

    def run(self, id: str) -> Run:
        """Return the run of that id: durable steps that a program can continue after a crash.

        Nothing is written before its first step. See ``Run``.

        Raises:
            UsageError: the session is closed or read-only, or it is no id.
        """
        from holdfast.store.steps import Run  # noqa: PLC0415  few use it, and it imports a lot

        return Run(self, self._writable(), id)

    # Listening

    def on_entry(self, callback: Callable[[Entry], None]) -> Callable[[], None]:
        """Call ``callback`` with each entry after it is durable, in order.

        Contract: runs outside all locks, may append. What it raises is logged; the entry stays.
        Returns a function that ends it.
        """
        check_callable(callback)
        return self._writable().listeners.add(callback)

    def on_live(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Call ``callback`` with each piece of streamed text once it is in the live file, in order.

        Contract: returns at once and calls nothing of this session, whose streams wait for it.
        What it raises is logged. Returns a function that ends it.
        """
        check_callable(callback)
        return self._writable().listen_live(callback)

    # History

    def checkpoint(
        self,
        summary: Message | str | Sequence[Message],
        upto: EntryRef = None,
        keep_last: int = 0,
        tokens: int | None = None,
    ) -> Position:
        """Let the context start from a summary.

        The summary covers messages up to ``upto`` (the head if not given) but for the last
        ``keep_last`` of them. What came after ``upto`` is always kept, also if it arrived while
        the summary was being made; nothing that an earlier checkpoint covers comes back.
        """
        recorder = self._writable()
        with recorder.at_rest():
            number = number_of(upto)
            if not isinstance(keep_last, int) or keep_last < 0:
                raise UsageError("keep_last must be a number of messages, 0 or more.")
            if number is None:
                number = self._reading.state.seq
            elif not self._reading.is_on_branch(number):
                raise UsageError(f"Entry {number} is not on the current branch.")
            keep_from = self._reading.branch(whole=False).keep_from(number, keep_last)
            ticket = recorder.submit([Checkpoint(summary_of(summary), keep_from, tokens)])
        return recorder.settle(ticket)

    def truncate(self, keep_last: int) -> Position:
        """Keep the last messages in the context, and the summary that there is."""
        return self.checkpoint(self.summary, keep_last=keep_last)

    def replace(self, messages: Sequence[Message]) -> Position:
        """Begin a new branch with exactly these messages; the old one stays in the journal."""
        return self.append([Head(None), *messages_of(messages)])

    def clear(self) -> Position:
        """Begin a new, empty branch; the old one stays in the journal."""
        return self.append(Head(None))

    def rewind(self, to: EntryRef) -> Position:
        """Go on from an earlier entry (``None``: from the beginning). Nothing is destroyed."""
        recorder = self._writable()
        number = number_of(to)
        with recorder.at_rest():
            if number is not None and not self._reading.has_in_tree(number):
                raise UsageError(f"There is no message or checkpoint numbered {number}.")
            ticket = recorder.submit([Head(number)])
        return recorder.settle(ticket)

    def fork(self, at: EntryRef = None, *, key: str | None = None, events: bool = False) -> Session:
        """Make a new session from the branch up to ``at`` (the head if not given).

        Args:
            at: the last entry of the branch to copy.
            key: a key of your own for the new session, as in ``store.session(key)``.
            events: copy events and snapshots up to that entry, too.

        Raises:
            SessionExists: there is a session of that key.
        """
        if self._recorder is not None:
            self._recorder.flush()
        with self._reading.journal() as journal:
            if journal is None or self._fork is None:
                raise UsageError("There is nothing to fork: this session has no entries yet.")
            head = self._reading.state.head
            at = head if at is None else number_of(at)
            return self._fork(self, self._ref, journal, ForkOptions(at, key, events))

    def compact(self, *, latest_events: Collection[str] = ()) -> Compaction:
        """Reclaim disk space: drop what is off the branch or covered by the checkpoint.

        Facts and snapshots that were replaced later are dropped too. Events stay, because only
        the program that wrote them knows which it needs: of those named in ``latest_events`` the
        last one stays. The old journal is kept, compressed, in the session's ``archive`` folder.

        Raises:
            DiskFull: there is no room for a copy. Everything is as it was.
            StorageError: copying failed; what was acknowledged is safe.
        """
        check_selection(latest_events, None)
        return rewrite.compact(self._writable(), self._reading, latest_events)

    def mend(self) -> Compaction:
        """Write a clean copy of the journal: every line that can be read, and a gap for the rest.

        The old journal is kept, compressed, in the session's ``archive`` folder. Raises as
        ``compact`` does.
        """
        return rewrite.mend(self._writable())

    def erase(self, which: Position | int, *, everywhere: bool = False) -> Erased:
        """Remove one entry for good: its bytes are in no file of the store any more.

        A gap with its number stands in its place; messages after it hang on the one before it.
        Archives, marks, blobs, caches and what repair set aside are cleared of it. Counts and
        totals stay. Sessions that have a copy of the entry are named in the result; with
        ``everywhere`` it is erased there, too.

        Raises:
            DiskFull: there is no room for a copy of the journal. Everything is as it was.
            UsageError: there is no such entry, or the journal itself needs it.
        """
        recorder, seq = self._writable(), required_number(which)
        done = erase(recorder, seq)
        also, copies = self._erase_copies(self.id, done, everywhere)
        return Erased(self.id, seq, also, copies)

    # Looking

    @property
    def state(self) -> State:
        """Everything session-wide that is durable: head, meta, totals, turn, queue, labels.

        A copy of its own: changing it changes nothing of the session.
        """
        return self._reading.state.copy()

    @property
    def seq(self) -> int:
        """The number of the last durable entry, -1 before the first; copies nothing."""
        return self._reading.state.seq

    @property
    def head(self) -> int | None:
        """The number of the last entry of the current branch, ``None`` if the branch is empty."""
        return self._reading.state.head

    @property
    def totals(self) -> Totals:
        """Tokens and cost of all requests so far."""
        return self._reading.state.totals.copy()

    @property
    def meta(self) -> dict[str, Any]:
        """The merged facts about the session."""
        return copied({**self._new_meta, **self._reading.state.meta})

    @property
    def messages(self) -> list[Message]:
        """All messages of the current branch, oldest first."""
        return self._reading.messages

    def context(self) -> list[Message]:
        """Return what a provider gets: the summary, then the messages that it does not cover."""
        return self._reading.context

    def branch(self) -> Iterator[Entry]:
        """Yield the entries of the current branch from the head back to the root.

        Messages, checkpoints, tools, turns and approvals; read from the disk as they are asked
        for. What is appended meanwhile is not in it.
        """
        with self._reading.journal() as journal:
            if journal is not None:
                yield from walk(journal, self._reading.state.head, [])

    def entries(
        self,
        *,
        after: EntryRef = None,
        before: EntryRef = None,
        reverse: bool = False,
        types: Collection[str] | None = None,
        branch: bool = False,
        limit: int | None = None,
    ) -> Iterator[Entry]:
        """Yield durable entries, read as they are asked for.

        What is appended meanwhile is not in it. Damage is passed over.

        Args:
            after: only entries behind this one.
            before: only entries before this one.
            reverse: last one first.
            types: only entries of these types, such as ``message``.
            branch: only the current branch; else everything, session-wide entries too.
            limit: at most so many.
        """
        first, last = number_of(after), number_of(before)
        first = -1 if first is None else first
        check_selection(types, limit)
        found = self._reading.entries(first, last, reverse=reverse, branch=branch)
        wanted = (entry for entry in found if types is None or entry.type in types)
        return islice(wanted, limit)

    def entry(self, which: Position | int | str) -> Entry | None:
        """Return one durable entry by its number, position or id; ``None`` if it is not there.

        A number is found without reading the entries before it. Where a compaction left entries
        out, a ``gap`` has the number of the last of them.
        """
        return self._reading.entry(which if isinstance(which, str) else required_number(which))

    def with_blobs(self, message: Message) -> Message:
        """Return a message of an entry with the payloads that are stored apart in their places."""
        return put_back(message, self._backend.blobs(self._ref))

    @property
    def summary(self) -> list[Message]:
        """The summary of the checkpoint that counts; empty if there is none."""
        return self._reading.summary

    @property
    def trouble(self) -> Exception | None:
        """What keeps entries from becoming durable right now; ``None`` if all is well."""
        return self._recorder.trouble() if self._recorder is not None else None

    @property
    def read_only(self) -> bool:
        """Whether appending is refused."""
        return self._recorder is None

    def follow(
        self, after: Position | int = -1, *, live: bool = False, wait: bool = True
    ) -> Follower:
        """Return an iterator over entries numbered above ``after``, and over new ones as they come.

        With ``live`` also over text that is being streamed. Without ``wait`` it ends at the end.
        """
        number = number_of(after)
        number = -1 if number is None else number
        return Follower(self._backend, self._ref, number, live=live, wait=wait)

    def export(self, format: str = "json") -> str:  # noqa: A002  as users say it
        """Return the conversation as text.

        ``json`` is one object, ``jsonl`` a message a line, ``markdown`` a page to read. Messages
        that are not durable yet are in it too: this is the way to save them if the disk fails.
        """
        if format not in FORMATS:
            raise UsageError(f"Unknown export format {format!r}. Use json, jsonl or markdown.")
        messages, incomplete = self._reading.messages_with_pending()
        return text_of(format, self.id, self.meta, messages, incomplete)

    def _writable(self) -> Recorder:
        if self._recorder is None:
            unsupported = self._reading.state.unsupported
            if unsupported is not None:
                raise FormatTooNew(unsupported, FORMAT)
            raise UsageError(f"Session {self.id} was opened read-only; open it with mode='write'.")
        self._recorder.check_ours()
        if self._reading.closed:
            raise UsageError(f"Session {self.id} is closed; open it again to continue.")
        return self._recorder

    # Closing

    def close(self) -> None:
        """Make everything durable and let go. Running streams are kept as interrupted.

        Raises:
            DiskFull: entries still wait for room; the session stays open and goes on trying.
            WriteFailed: entries that nobody waited for were lost.
        """
        try:
            if self._recorder is not None:
                self._recorder.close()
        finally:
            if self._recorder is None or self._recorder.closed:
                self._forget(self)
                self._reading.close()

    def __enter__(self) -> Self:
        """Return the session."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    async def __aenter__(self) -> Self:
        """Return the session."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Close without blocking the event loop."""
        import asyncio  # noqa: PLC0415  whoever is here has it

        await asyncio.to_thread(self.close)
