"""One open session: the surface that programs use. What happens is in the modules it calls."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import DiskFull, FormatTooNew, StorageError, UsageError
from holdfast.journal.files import NO_ROOM, PASSING
from holdfast.journal.numbering import Cursor
from holdfast.journal.reader import Journal
from holdfast.model.codec import dumps, encode_body, plain
from holdfast.model.entry import (
    FORMAT,
    TREE,
    Body,
    Checkpoint,
    Custom,
    Head,
    Meta,
    Position,
    Usage,
)
from holdfast.model.message import Message, user
from holdfast.store.blobs import Blobs, put_back
from holdfast.store.branch import Branch, walk
from holdfast.store.contract import Compaction, Recovery
from holdfast.store.follower import Follower
from holdfast.store.markdown import markdown
from holdfast.store.refusals import os_errors
from holdfast.store.rewrite import Copy, branch_numbers, kept_by_compaction, replace_journal
from holdfast.store.streams import Stream, new_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from holdfast.journal.damage import Damage
    from holdfast.journal.ticket import Ticket
    from holdfast.model.entry import Entry
    from holdfast.model.event import Event
    from holdfast.model.state import State, Totals
    from holdfast.store.drafts import Past
    from holdfast.store.home import Home
    from holdfast.store.recorder import Recorder

Place = Position | int | None


class Session:
    """A session that was created or opened. Works from any thread; ``async with`` works too.

    Blocking methods return once what they wrote is durable. ``submit`` (and ``Stream.submit``)
    return a ticket instead, to ``wait()`` for or to ``await``.
    """

    def __init__(
        self,
        home: Home,
        session_id: str,
        *,
        recorder: Recorder | None = None,
        journal: Journal | None = None,
        state: State | None = None,
        recovery: Recovery | None = None,
        new_meta: dict[str, Any] | None = None,
    ) -> None:
        self._home = home
        self.id = session_id
        self._recorder = recorder
        self._read_journal = journal
        self._read_state = state
        self._read_branch = Branch()
        self.recovery = recovery or Recovery()
        """What opening found and did."""
        self.path = _folder(home, session_id, recorder, journal)
        """The session's folder; it may not exist yet."""
        self._closed = False
        self._forget: Callable[[Session], None] | None = None
        self._fork: Callable[[Session, Journal, int | None], Session] | None = None
        self._new_meta = new_meta if new_meta is not None else {}
        if recorder is None and recovery is not None:
            self._read_branch.virtual = list(recovery.interrupted)

    def attach(
        self,
        *,
        forget: Callable[[Session], None],
        fork: Callable[[Session, Journal, int | None], Session],
    ) -> None:
        """Let the store know when the session closes, and make forks."""
        self._forget, self._fork = forget, fork

    # Appending

    def append(self, item: Body | Sequence[Body], id: str | None = None) -> Position:
        """Append a message (or another body) and return its position once it is durable.

        A list is one atomic batch: after a crash all of it is there, or nothing. With an ``id``
        the call is idempotent: if an entry of that id exists, its position is returned and nothing
        is written.

        Raises:
            DiskFull: accepted and numbered, waiting for room. The same call again waits for the
                same entries and does not write them twice.
            WriteFailed: the journal cannot be written any more.
            UsageError: it cannot be stored, or this session is closed or read-only.
        """
        recorder = self._recorder or self._writable()  # it refuses what else there is to refuse
        return recorder.append([item] if type(item) is Message else _as_list(item), id)

    def submit(self, item: Body | Sequence[Body], id: str | None = None) -> Ticket:
        """Append in the background: returns a ticket to wait for or to await."""
        recorder = self._recorder or self._writable()  # as above
        return recorder.submit([item] if type(item) is Message else _as_list(item), id)

    def adopt(self, pasts: Sequence[Past]) -> Position:
        """Append entries of a conversation that took place elsewhere: one batch, durable on return.

        Each has the number, time and parent that it brings. Numbers are above ``state.seq``.
        """
        return self._writable().adopt(pasts)

    def stream(
        self, *, model: str | None = None, call_id: str | None = None, name: str | None = None
    ) -> Stream:
        """Begin an assistant message that is streamed, or with ``call_id`` a tool's output."""
        recorder = self._writable()
        kind = "text" if call_id is None else "tool_output"
        pattern = new_stream(
            recorder.next_seq - 1, kind=kind, call_id=call_id, name=name, model=model
        )
        return recorder.begin_stream(pattern)

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

        Before the first entry nothing is written and ``None`` is returned; the facts go with it.
        """
        recorder = self._writable()
        with recorder.mutex:
            if recorder.unborn:
                encode_body(Meta(meta))  # refused now, not at the first append
                self._new_meta.update(meta)
                return None
        return recorder.append([Meta(meta)])

    def keep(self, data: bytes) -> str:
        """Store bytes in the session's folder, durably, and return the name of the blob.

        Garbage collection keeps what an entry names: a tool's result does so in ``kept``.

        Raises:
            DiskFull: there is no room.
            StorageError: the session has no entry yet, or the blob could not be written.
        """
        if self._writable().place is None:
            raise UsageError("A session without entries keeps nothing: append something first.")
        try:
            return Blobs(self._home.files, self.path).write(data)
        except OSError as error:
            if error.errno in PASSING:
                raise DiskFull(self.path, ()) from error
            raise StorageError(f"{self.path} cannot be written: {error}.") from error

    def blob(self, name: str) -> bytes | None:
        """Return the bytes that ``keep`` stored, ``None`` if they are missing or altered."""
        return Blobs(self._home.files, self.path).read_named(name)

    def event(self, name: str, data: Any = None, *, complete: bool | None = None) -> Position:
        """Record opaque data of a viewer, extension or framework."""
        return self.append(Custom(name, data, complete))

    def on_entry(self, callback: Callable[[Entry], None]) -> Callable[[], None]:
        """Call ``callback`` with each entry after it is durable, in order.

        Contract: runs outside all locks, may append. What it raises is logged; the entry stays.
        Returns a function that ends it.
        """
        return self._writable().listen(callback)

    def on_live(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Call ``callback`` with each piece of streamed text once it is in the live file, in order.

        Contract: returns at once and calls nothing of this session, whose streams wait for it.
        What it raises is logged. Returns a function that ends it.
        """
        return self._writable().listen_live(callback)

    # History

    def checkpoint(
        self,
        summary: Message | str | Sequence[Message],
        upto: Place = None,
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
            keep_from = self._keep_from(_number(upto), keep_last)
            body = Checkpoint(_summary(summary), keep_from, tokens)
            ticket = recorder.submit([body])
        return recorder.settle(ticket)

    def _keep_from(self, upto: int | None, keep_last: int) -> int:
        if not isinstance(keep_last, int) or keep_last < 0:
            raise UsageError("keep_last is a number of messages, 0 or more.")
        head = self.state.head
        if upto is not None and upto != head:
            with self._journal() as journal:
                on_branch = journal is not None and any(
                    entry.seq == upto for entry in walk(journal, head, [])
                )
            if not on_branch:
                raise UsageError(f"Entry {upto} is not on the current branch.")
        if upto is None:
            upto = self.state.seq
        branch = self._branch(whole=False)
        previous = branch.checkpoint
        lowest = previous.keep_from if previous is not None else 0
        covered = [seq for seq, _ in branch.numbered if lowest <= seq <= upto]
        if keep_last and covered:
            return covered[-keep_last] if keep_last <= len(covered) else covered[0]
        return max(lowest, upto + 1)

    def truncate(self, keep_last: int) -> Position:
        """Keep the last messages in the context, and the summary that there is."""
        return self.checkpoint(self.summary, keep_last=keep_last)

    def replace(self, messages: Sequence[Message]) -> Position:
        """Begin a new branch with exactly these messages; the old one stays in the journal."""
        return self.append([Head(None), *_messages(messages)])

    def clear(self) -> Position:
        """Begin a new, empty branch; the old one stays in the journal."""
        return self.append(Head(None))

    def rewind(self, to: Place) -> Position:
        """Go on from an earlier entry (``None``: from the beginning). Nothing is destroyed."""
        recorder = self._writable()
        number = _number(to)
        with recorder.at_rest():
            if number is not None:
                with self._journal() as journal:
                    entry = journal.find(number) if journal is not None else None
                if entry is None or entry.type not in TREE:
                    raise UsageError(f"There is no message or checkpoint numbered {number}.")
            ticket = recorder.submit([Head(number)])
        return recorder.settle(ticket)

    def fork(self, at: Place = None) -> Session:
        """Make a new session from the branch up to ``at`` (the head if not given)."""
        if self._recorder is not None:
            self._recorder.flush()
        with self._journal() as journal:
            if journal is None or self._fork is None:
                raise UsageError("There is nothing to fork: this session has no entries yet.")
            return self._fork(self, journal, _number(at) if at is not None else self.state.head)

    def compact(self) -> Compaction:
        """Reclaim disk space: drop what is off the branch or covered by the checkpoint.

        The old journal is kept, compressed, in the session's ``archive`` folder.

        Raises:
            DiskFull: there is no room for a copy. Everything is as it was.
            StorageError: copying failed; what was acknowledged is safe.
        """
        return self._rewritten(self._kept_by_compaction)

    def mend(self) -> Compaction:
        """Write a clean copy of the journal: every line that can be read, and a gap for the rest.

        The old journal is kept, compressed, in the session's ``archive`` folder. Raises as
        ``compact`` does.
        """
        return self._rewritten(lambda _: lambda __: True)

    def _rewritten(self, rule: Callable[[Journal], Callable[[Entry], bool]]) -> Compaction:
        recorder = self._writable()
        try:
            recorder.drop_finished_streams()
            return self._rewrite(recorder, rule)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise DiskFull(self.path, ()) from error
            raise StorageError(f"{self.path} could not be compacted: {error}.") from error

    def _kept_by_compaction(self, journal: Journal) -> Callable[[Entry], bool]:
        branch = self._branch(whole=False)
        keep_from = branch.checkpoint.keep_from if branch.checkpoint is not None else 0
        return kept_by_compaction(branch_numbers(journal, self.state.head, []), keep_from)

    def _rewrite(
        self, recorder: Recorder, rule: Callable[[Journal], Callable[[Entry], bool]]
    ) -> Compaction:
        with recorder.at_rest():
            trouble = recorder.trouble()
            if trouble is not None:
                raise trouble
            journal, place = recorder.journal(), recorder.place
            if journal is None or place is None:
                raise UsageError("There is nothing to compact: this session has no entries yet.")
            state = msgspec.structs.replace(self.state, gaps=[])
            old = recorder.header
            copy = Copy(
                journal,
                msgspec.structs.replace(old, holds=place.segment),
                rule(journal),
                lambda _: state,
                recorder.next_seq,
            )
            before = journal.size_bytes
            new_place, archived = replace_journal(self._home.files, place, journal, copy)
            assert copy.last is not None
            last = copy.last
            cursor = Cursor(last.seq, last.seq + 1, last.sum, copy.state.head)
            recorder.move(new_place, cursor, copy.state)
        return Compaction(before, copy.size_bytes, copy.left_out, str(archived))

    # Looking

    @property
    def state(self) -> State:
        """Everything session-wide that is durable: head, meta, totals, turn, queue, labels."""
        if self._recorder is not None:
            return self._recorder.state
        assert self._read_state is not None
        return self._read_state

    @property
    def totals(self) -> Totals:
        """Tokens and cost of all requests so far."""
        return self.state.totals

    @property
    def meta(self) -> dict[str, Any]:
        """The merged facts about the session."""
        return {**self._new_meta, **self.state.meta}

    @property
    def messages(self) -> list[Message]:
        """All messages of the current branch, oldest first."""
        return self._restored(self._branch(whole=True).messages)

    def context(self) -> list[Message]:
        """Return what a provider gets: the summary, then the messages that it does not cover."""
        return self._restored(self._branch(whole=False).context)

    def branch(self) -> Iterator[Entry]:
        """Yield the entries of the current branch from the head back to the root.

        Messages, checkpoints, tools, turns and approvals; read from the disk as they are asked
        for. What is appended meanwhile is not in it.
        """
        with self._journal() as journal:
            if journal is not None:
                yield from walk(journal, self.state.head, [])

    @property
    def summary(self) -> list[Message]:
        """The summary of the checkpoint that counts; empty if there is none."""
        checkpoint = self._branch(whole=False).checkpoint
        return [] if checkpoint is None else self._restored(checkpoint.summary)

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
        number = _number(after)
        return Follower(
            self._home.files, self.path, -1 if number is None else number, live=live, wait=wait
        )

    def export(self, format: str = "json") -> str:  # noqa: A002  as users say it
        """Return the conversation as text.

        ``json`` is one object, ``jsonl`` a message a line, ``markdown`` a page to read. Messages
        that are not durable yet are in it too: this is the way to save them if the disk fails.
        """
        if format not in ("json", "jsonl", "markdown"):
            raise UsageError(f"Unknown export format {format!r}: json, jsonl or markdown.")
        pending = self._recorder.pending_messages() if self._recorder is not None else []
        incomplete: dict[str, str] = {}
        try:
            messages = self.messages
        except StorageError as error:
            # The disk cannot even be read. What is in memory must be saved all the same.
            if self._recorder is None or not pending:
                raise
            messages, incomplete = self._recorder.branch.messages, {"incomplete": str(error)}
        messages = [*messages, *pending]
        if format == "markdown":
            return "".join(markdown(self.id, self.meta, messages))
        if format == "jsonl":
            return "".join(dumps(plain(message)).decode() + "\n" for message in messages)
        values = [plain(message) for message in messages]
        whole = {"session": self.id, "meta": self.meta, "messages": values, **incomplete}
        return dumps(whole).decode()

    def _branch(self, *, whole: bool) -> Branch:
        """Return the current branch, read as far as needed. A consistent copy."""
        recorder = self._recorder
        if recorder is None:
            with self._journal() as journal:
                assert journal is not None
                self._read_branch.load(journal, self.state.head, [], whole=whole)
            return self._read_branch
        with recorder.mutex:
            if recorder.branch.has(whole=whole):  # then nothing has to be read or opened
                return recorder.branch.copy()
        with recorder.mutex, self._journal() as journal:
            noticed: list[Damage] = []
            if journal is not None:
                recorder.branch.load(journal, recorder.state.head, noticed, whole=whole)
            recorder.note_damage(noticed)
            return recorder.branch.copy()

    @contextmanager
    def _journal(self) -> Iterator[Journal | None]:
        """Give the journal to read from; a closed session opens it again for the moment."""
        with os_errors(f"{self.path} cannot be read", self.path):
            journal = self._read_journal if self._recorder is None else self._recorder.journal()
            if journal is not None or not self._closed or self.state.seq < 0:
                yield journal
                return
            with Journal(self._home.files, self.path) as journal:
                yield journal

    def _restored(self, messages: list[Message]) -> list[Message]:
        blobs = Blobs(self._home.files, self.path)
        return [put_back(message, blobs) for message in messages]

    def _writable(self) -> Recorder:
        if self._recorder is None:
            if self._read_state is not None and self._read_state.unsupported is not None:
                raise FormatTooNew(self._read_state.unsupported, FORMAT)
            raise UsageError(f"Session {self.id} was opened read-only; open it with mode='write'.")
        self._recorder.check_ours()
        if self._closed:
            raise UsageError(f"Session {self.id} is closed; open it again to go on.")
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
            elif self._read_journal is not None:
                self._read_journal.close()
                self._read_journal = None
        finally:
            self._closed = self._recorder is None or self._recorder.closed
            if self._forget is not None and self._closed:
                self._forget(self)

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


def _folder(
    home: Home, session_id: str, recorder: Recorder | None, journal: Journal | None
) -> Path:
    """Return where a session is; one that was opened by its path may be outside the home."""
    place = journal if recorder is None else recorder.place
    return home.folder(session_id) if place is None else place.folder


def _as_list(item: Any) -> list[Any]:
    return list(item) if isinstance(item, list | tuple) else [item]


def _number(place: Place) -> int | None:
    if isinstance(place, Position):
        return place.seq
    if place is None or (isinstance(place, int) and not isinstance(place, bool)):
        return place
    raise UsageError("An entry is named by its number or by the Position that append returned.")


def _summary(given: Message | str | Sequence[Message]) -> list[Message]:
    if isinstance(given, str):
        return [user(given)]
    return [given] if isinstance(given, Message) else _messages(given)


def _messages(given: Sequence[Message]) -> list[Message]:
    if not isinstance(given, list | tuple) or not all(isinstance(m, Message) for m in given):
        raise UsageError("Give a list of messages, such as [holdfast.user('…')].")
    return list(given)
