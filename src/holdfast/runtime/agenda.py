"""What a runner is to do next: jobs between turns, then the prompts that were asked to be run.

The queue itself is in the journal. Here is only which of its prompts somebody wants to be run now;
the others are held. So a runner that starts anew runs nothing unasked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.errors import UsageError
from holdfast.runtime.turn import Outcome
from holdfast.store.session import Session

_MOST_JOBS = 1000

Job = Callable[[], Coroutine[Any, Any, Outcome | None]]


class Agenda:
    """The agenda of one runner. ``running`` is the prompt that the present turn was made from."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._jobs: deque[Job] = deque()
        self._wanted: list[int] = []
        self._edited: set[int] = set()
        self._holds = 0
        self._taken = 0
        self._newest = -1
        self._wake = asyncio.Event()
        self.running: int | None = None

    def wake(self) -> None:
        """Have whoever waits for something to do look again."""
        self._wake.set()

    async def pause(self, seconds: float) -> None:
        """Wait until there may be something new, and at most so long."""
        self._wake.clear()
        try:
            await asyncio.wait_for(self._wake.wait(), seconds)
        except TimeoutError:
            return

    @property
    def waiting(self) -> list[int]:
        """The prompts that wait in the queue, held or not."""
        return [seq for seq in self._session.state.queue if seq != self.running]

    @property
    def holds(self) -> bool:
        """Whether prompts wait that nobody has asked to be run."""
        return any(seq not in self._wanted and not self._is_new(seq) for seq in self.waiting)

    def _is_new(self, seq: int) -> bool:
        """Tell whether a prompt is just being taken: nobody has come to say that it is wanted."""
        return self._taken > 0 and seq > self._newest

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Have no prompt pass for held that becomes durable meanwhile."""
        if not self._taken:
            self._newest = self._session.state.seq
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1

    @property
    def has_jobs(self) -> bool:
        """Whether anything is to be done before the next prompt."""
        return bool(self._jobs)

    def next_job(self) -> Job | None:
        """Take the next job, if there is one."""
        return self._jobs.popleft() if self._jobs and not self._holds else None

    def next_prompt(self) -> int | None:
        """Take the next prompt that is to be run; one that is being edited is waited for."""
        if self._holds:
            return None
        while self._wanted and self._wanted[0] not in self._edited:
            seq = self._wanted.pop(0)
            if seq in self._session.state.queue:  # or it was taken out
                self.running = seq
                return seq
        return None

    def do(self, job: Job) -> None:
        """Have a job done between turns; the same is not done twice in one go.

        Raises:
            UsageError: there are too many.
        """
        if job in self._jobs:
            return
        if len(self._jobs) >= _MOST_JOBS:
            raise UsageError("Too many things wait to be done.")
        self._jobs.append(job)
        self.wake()

    def want(self, seq: int) -> None:
        """Have a prompt run, if it waits."""
        if seq in self.waiting and seq not in self._wanted:
            self._wanted.append(seq)
        self.wake()

    def want_all(self) -> list[int]:
        """Have every prompt run that waits; return their numbers."""
        self._wanted = self.waiting
        self.wake()
        return list(self._wanted)

    def hold_all(self) -> None:
        """Run no more prompts until somebody asks again."""
        self._wanted.clear()

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Keep everything from being begun meanwhile."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            self.wake()

    @contextmanager
    def editing(self, entry: int) -> Iterator[Callable[[int | None], None]]:
        """Keep a prompt from being run while it is edited; gives what puts another in its place."""

        def replace(seq: int | None) -> None:
            if entry in self._wanted:
                place = self._wanted.index(entry)
                self._wanted[place : place + 1] = [] if seq is None else [seq]

        if entry in self._edited:
            raise UsageError(f"The prompt {entry} is being edited by somebody else just now.")
        self._edited.add(entry)
        try:
            with self.taking():
                yield replace
        finally:
            self._edited.discard(entry)
            self.wake()
