"""What a session shows of itself: its state, its branch, its messages.

One that is written to shows what its recorder has made durable; one that is only read shows its
journal as it was when it was opened. Both can be read when they are closed, too: the files are
opened for the moment. Nothing is written from here; damage that is met is left to the recorder.
"""

from __future__ import annotations

from array import array
from contextlib import contextmanager, nullcontext
from itertools import takewhile
from typing import TYPE_CHECKING

from holdfast.errors import StorageError
from holdfast.model.entry import Entry, in_tree
from holdfast.store.read.branch import Branch, walk
from holdfast.store.write.blob_refs import put_back

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.journal.damage import Damage
    from holdfast.model.message import Message
    from holdfast.model.state import State
    from holdfast.store.backend import Backend, Log, Ref
    from holdfast.store.write.recorder import Recorder


class SessionReader:
    """Reads for one session, from its ``recorder``; without one from ``snapshot`` and ``state``.

    ``interrupted`` are messages that a snapshot shows and nobody has written.
    """

    def __init__(
        self,
        backend: Backend,
        ref: Ref,
        recorder: Recorder | None,
        snapshot: Log | None,
        state: State | None,
        interrupted: Sequence[Message],
    ) -> None:
        self._backend = backend
        self._ref = ref
        self._recorder = recorder
        self.snapshot = snapshot
        self._state = state
        self._branch = Branch()
        self._branch.virtual = list(interrupted)
        self.closed = False

    @property
    def state(self) -> State:
        """Everything session-wide that is durable."""
        if self._recorder is not None:
            return self._recorder.state
        assert self._state is not None
        return self._state

    @property
    def messages(self) -> list[Message]:
        """All messages of the current branch, oldest first."""
        return self._restored(self.branch(whole=True).messages)

    @property
    def context(self) -> list[Message]:
        """What a provider gets: the summary, then the messages that it does not cover."""
        return self._restored(self.branch(whole=False).context)

    @property
    def summary(self) -> list[Message]:
        """The summary of the checkpoint that counts; empty if there is none."""
        checkpoint = self.branch(whole=False).checkpoint
        return [] if checkpoint is None else self._restored(checkpoint.summary)

    def messages_with_pending(self) -> tuple[list[Message], str | None]:
        """Return all messages, also those that are not durable yet, and why some are missing.

        Raises:
            StorageError: they cannot be read, and there is nothing in memory that must be saved.
        """
        recorder = self._recorder
        blobs = self._backend.blobs(self._ref)
        pending = recorder.pending_messages(blobs) if recorder is not None else []
        try:
            return [*self.messages, *pending], None
        except StorageError as error:
            # The disk cannot even be read. What is in memory must be saved all the same.
            if recorder is None or not pending:
                raise
            return [*recorder.branch.messages, *pending], str(error)

    def is_on_branch(self, number: int) -> bool:
        """Tell whether an entry is on the current branch."""
        head = self.state.head
        if number == head:
            return True
        with self.journal() as journal:
            return journal is not None and any(
                entry.seq == number for entry in walk(journal, head, [])
            )

    def entries(
        self, after: int, before: int | None, *, reverse: bool, branch: bool
    ) -> Iterator[Entry]:
        """Yield durable entries numbered between ``after`` and ``before``, in either order."""
        with self.journal() as log:
            if log is None:
                return
            end = self.state.seq + 1  # the writer's own view moves on
            before = end if before is None else min(before, end)
            if branch:
                found = self._on_branch(log, before)
            elif reverse:
                found = _backward(log, before)
            else:
                found = _forward(log, after, before)
            if reverse or not branch:
                yield from takewhile(lambda entry: entry.seq > after, found)
                return
            numbers = array("q", takewhile(lambda seq: seq > after, (each.seq for each in found)))
            for entry in _forward(log, numbers[-1] - 1, before) if numbers else ():
                if numbers and entry.seq == numbers[-1]:
                    numbers.pop()
                    yield entry

    def entry(self, which: int | str) -> Entry | None:
        """Return the durable entry of a number or an id, ``None`` if it cannot be read."""
        with self.journal() as log:
            if log is None:
                return None
            if isinstance(which, int):
                return log.find(which) if 0 <= which <= self.state.seq else None
            return log.find_id(which)

    def _on_branch(self, log: Log, before: int) -> Iterator[Entry]:
        """Yield the current branch from the head, or from the last entry before one, backwards."""
        for entry in walk(log, self.state.head, []):
            if entry.seq < before:
                yield entry

    def has_in_tree(self, number: int) -> bool:
        """Tell whether there is an entry of that number that belongs to a branch, any branch."""
        with self.journal() as journal:
            entry = journal.find(number) if journal is not None else None
        return entry is not None and in_tree(entry.type, entry.body)

    def branch(self, *, whole: bool) -> Branch:
        """Return the current branch, read as far as needed. A consistent copy."""
        recorder = self._recorder
        if recorder is None:
            with self.journal() as journal:
                assert journal is not None
                self._branch.load(journal, self.state.head, [], whole=whole)
            return self._branch
        while True:
            with recorder.mutex:
                branch = recorder.branch
                if branch.has(whole=whole):  # then nothing has to be read or opened
                    return branch.copy()
                meanwhile, head = branch.watch(), recorder.state.head
            read = Branch()
            noticed: list[Damage] = []
            with self.journal() as journal:  # without the mutex: those who append do not wait
                if journal is not None:
                    read.load(journal, head, noticed, whole=whole)
            with recorder.mutex:
                if journal is None or branch.install(read, meanwhile):
                    recorder.introduction.note(noticed)
                    return branch.copy()

    @contextmanager
    def journal(self) -> Iterator[Log | None]:
        """Give the journal to read from; a closed session opens it again for the moment."""
        recorder = self._recorder
        held = nullcontext(self.snapshot) if recorder is None else recorder.held_journal()
        with self._backend.errors("cannot be read", self._ref), held as journal:
            if journal is not None or not self.closed or self.state.seq < 0:
                yield journal
                return
            with self._backend.read(self._ref) as opened:
                yield opened

    def _restored(self, messages: list[Message]) -> list[Message]:
        blobs = self._backend.blobs(self._ref)
        return [put_back(message, blobs) for message in messages]

    def close(self) -> None:
        """Let go of the files; from here on they are opened for the moment."""
        self.closed = True
        if self.snapshot is not None:
            self.snapshot.close()
            self.snapshot = None


def _forward(log: Log, after: int, before: int) -> Iterator[Entry]:
    for record in log.records(after):
        if isinstance(record, Entry):
            if record.seq >= before:
                return
            yield record


def _backward(log: Log, before: int) -> Iterator[Entry]:
    for block in log.blocks_backward(before):
        for record in reversed(block.records):
            if isinstance(record, Entry) and record.seq < before:
                yield record
