"""How bodies are accepted into a session: by one thread at a time, in order, each once.

Whatever comes is checked and encoded before the mutex is taken. Under it: is the session open, was
the same accepted before, is an introduction due? Then it is queued, and whoever writes the queue
numbers it. A thread that needs the session to stand still shuts the door for the others.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.errors import UsageError
from holdfast.store.drafts import encode_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.journal.ticket import Ticket
    from holdfast.journal.writer import Writer
    from holdfast.model.entry import Body
    from holdfast.store.introduction import Introduction
    from holdfast.store.known import Known

_LONGEST_ID = 1000


class Acceptance:
    """Accepts bodies from any thread until it is ``closed``, which is set under the mutex."""

    def __init__(self, writer: Writer, introduction: Introduction, known: Known) -> None:
        self._writer = writer
        self._introduction = introduction
        self._known = known
        self.closed = False
        self._door = threading.Lock()  # shut by a thread that wants the session to come to rest
        self._inside: int | None = None  # that thread, once it has
        self._forked = False

    def check_ours(self) -> None:
        """Raise ``UsageError`` in a process that was forked from the one that opened it."""
        if self._forked:
            raise UsageError(
                "This session was opened before a fork and belongs to the parent process: "
                "open it anew in the child."
            )

    def check_open(self) -> None:
        """Raise ``UsageError`` once it is closed. The caller holds the mutex."""
        if self.closed:
            raise UsageError("This session is closed; open it again to append.")

    def leave_to_parent(self) -> None:
        """In a forked child: accept nothing more, whoever had shut the door."""
        self._forked = self.closed = True
        self._door = threading.Lock()

    def accept(
        self,
        items: Sequence[Body],
        id: str | None,
        *,
        resumable: bool = False,
        finishes_stream: bool = False,
    ) -> Ticket:
        """Check, encode and queue bodies as one batch; whoever writes it numbers it."""
        if self._forked:
            self.check_ours()
        if not items:
            raise UsageError("There is nothing to append: the list is empty.")
        if id is not None and not (isinstance(id, str) and 0 < len(id) <= _LONGEST_ID):
            raise UsageError(f"An entry's id is a string of 1 to {_LONGEST_ID} characters.")
        drafts, payloads = encode_all(items)
        while True:
            with self._writer.mutex:
                if not self._door.locked() or self._inside == threading.get_ident():
                    if self.closed:
                        self.check_open()
                    known = None
                    if id is not None or self._known.refused:
                        known = self._known.find(drafts, id, resumable=resumable)
                    if known is not None:
                        return known
                    if not self._introduction.given or self._introduction.unnoted:
                        self._introduction.enqueue()
                    if id is not None:
                        return self._known.enqueue(drafts, id, payloads)
                    ticket = self._writer.enqueue(drafts, None, payloads)
                    if finishes_stream:
                        ticket.finishes_stream = True
                    return ticket
            with self._door:  # not with the mutex: whoever shut it needs that
                pass

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Hold the session still: all that was accepted is durable, others wait at the door.

        Without a door a session that is busy would never come to rest.
        """
        with self._door:
            while True:
                self._writer.flush()  # without the mutex: those who are inside go on
                with self._writer.mutex:
                    if self._writer.idle:
                        self._inside = threading.get_ident()
                        try:
                            yield
                        finally:
                            self._inside = None
                        return

    @property
    def held_here(self) -> bool:
        """Whether it is this thread that holds the session still."""
        return self._inside == threading.get_ident()
