"""What a session shows of itself: its state, its branch, its messages.

One that is written to shows what its recorder has made durable; one that is only read shows its
journal as it was when it was opened. Both can be read when they are closed, too: the files are
opened for the moment. Nothing is written from here; damage that is met is left to the recorder.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from holdfast.errors import StorageError
from holdfast.journal.reader import Journal
from holdfast.model.entry import TREE
from holdfast.store.blobs import Blobs, put_back
from holdfast.store.branch import Branch, walk
from holdfast.store.refusals import os_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.journal.damage import Damage
    from holdfast.journal.files import Files
    from holdfast.model.message import Message
    from holdfast.model.state import State
    from holdfast.store.recorder import Recorder


class Reading:
    """Reads for one session, from its ``recorder``; without one from ``snapshot`` and ``state``.

    ``interrupted`` are messages that a snapshot shows and nobody has written.
    """

    def __init__(
        self,
        files: Files,
        recorder: Recorder | None,
        snapshot: Journal | None,
        state: State | None,
        interrupted: Sequence[Message],
    ) -> None:
        self._files = files
        self._recorder = recorder
        self.snapshot = snapshot
        if recorder is None:
            assert snapshot is not None
            self.path = snapshot.folder  # outside the home, if it was opened by its path
        else:
            self.path = recorder.path
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
        pending = recorder.pending_messages() if recorder is not None else []
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

    def has_in_tree(self, number: int) -> bool:
        """Tell whether there is an entry of that number that belongs to a branch, any branch."""
        with self.journal() as journal:
            entry = journal.find(number) if journal is not None else None
        return entry is not None and entry.type in TREE

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
    def journal(self) -> Iterator[Journal | None]:
        """Give the journal to read from; a closed session opens it again for the moment."""
        recorder = self._recorder
        held = nullcontext(self.snapshot) if recorder is None else recorder.held_journal()
        with os_errors(f"{self.path} cannot be read", self.path), held as journal:
            if journal is not None or not self.closed or self.state.seq < 0:
                yield journal
                return
            with Journal(self._files, self.path) as opened:
                yield opened

    def _restored(self, messages: list[Message]) -> list[Message]:
        blobs = Blobs(self._files, self.path)
        return [put_back(message, blobs) for message in messages]

    def close(self) -> None:
        """Let go of the files; from here on they are opened for the moment."""
        self.closed = True
        if self.snapshot is not None:
            self.snapshot.close()
            self.snapshot = None
