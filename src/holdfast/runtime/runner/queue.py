"""What a runner does next: jobs between turns, then the prompts that a client asked to run.

The queue itself is in the journal. This module only knows which of its prompts were asked for since
the runner started; the others are held. So a new runner runs nothing unasked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.errors import UsageError
from holdfast.runtime.agent.turn import Outcome
from holdfast.store.session import Session

_MOST_JOBS = 1000

Job = Callable[[], Coroutine[Any, Any, Outcome | None]]


class PromptQueue:
    """The jobs and prompts of one runner. ``running`` is the prompt of the current turn."""

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
        """Wake ``pause``."""
        self._wake.set()

    async def pause(self, seconds: float) -> None:
        """Wait until there may be something to do, and at most so long."""
        self._wake.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    @property
    def waiting(self) -> list[int]:
        """The prompts that wait in the queue, held or not."""
        return [seq for seq in self._session.state.queue if seq != self.running]

    @property
    def holds(self) -> bool:
        """Whether prompts wait that no client has asked to run."""
        return any(seq not in self._wanted and not self._is_new(seq) for seq in self.waiting)

    def _is_new(self, seq: int) -> bool:
        """Tell whether a prompt is just being submitted, and about to be wanted."""
        return self._taken > 0 and seq > self._newest

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Do not report a prompt as held that becomes durable inside this block."""
        if not self._taken:
            self._newest = self._session.seq
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1

    @property
    def has_jobs(self) -> bool:
        """Whether jobs are to be done before the next prompt."""
        return bool(self._jobs)

    def next_job(self) -> Job | None:
        """Take the next job, if there is one."""
        return self._jobs.popleft() if self._jobs and not self._holds else None

    def next_prompt(self) -> int | None:
        """Take the next prompt to run; return ``None`` while it is being edited."""
        if self._holds:
            return None
        while self._wanted and self._wanted[0] not in self._edited:
            seq = self._wanted.pop(0)
            if seq in self._session.state.queue:  # or it was taken out
                self.running = seq
                return seq
        return None

    def do(self, job: Job) -> None:
        """Add a job to do between turns; the same job is not added twice.

        Raises:
            UsageError: too many jobs wait.
        """
        if job in self._jobs:
            return
        if len(self._jobs) >= _MOST_JOBS:
            raise UsageError("Too many requests are waiting. Try again later.")
        self._jobs.append(job)
        self.wake()

    def want(self, seq: int) -> None:
        """Run a prompt in its turn, if it is in the queue."""
        if seq in self.waiting and seq not in self._wanted:
            self._wanted.append(seq)
        self.wake()

    def want_all(self) -> list[int]:
        """Run every queued prompt; return their numbers."""
        self._wanted = self.waiting
        self.wake()
        return list(self._wanted)

    def hold_all(self) -> None:
        """Run no more prompts until a client asks again."""
        self._wanted.clear()

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Start nothing inside this block."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            self.wake()

    @contextmanager
    def editing(self, entry: int) -> Iterator[Callable[[int | None], None]]:
        """Do not run a prompt while it is edited; gives a function that replaces it."""

        def replace(seq: int | None) -> None:
            if entry in self._wanted:
                place = self._wanted.index(entry)
                self._wanted[place : place + 1] = [] if seq is None else [seq]

        if entry in self._edited:
            raise UsageError(f"Prompt {entry} is being edited in another terminal.")
        self._edited.add(entry)
        try:
            with self.taking():
                yield replace
        finally:
            self._edited.discard(entry)
            self.wake()
