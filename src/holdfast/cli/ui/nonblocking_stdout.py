"""A terminal, or a pipe, that is written to without being waited for.

A thread does the writing: somebody who has stopped reading, or a line that has gone silent, must
not keep the program from hearing a signal. What waits to be written is bounded, for those who ask
for room first. Nothing is left in a buffer that would have to be flushed at exit.
"""

from __future__ import annotations

import asyncio
import errno
import queue
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

from holdfast.cli.run.output import note, put

_LAST_WORDS_SECONDS = 1.0  # for whoever has stopped reading, once it is time to leave
_MOST_WAITING_CHARACTERS = 256 * 1024
_HUNG_UP = 128 + signal.SIGHUP
_NOBODY_READS = 128 + signal.SIGPIPE
_FAILURE = 1


class NonblockingOutput:
    """Standard output and standard error; made on the event loop.

    ``failed`` is called there, once, with an exit code, when standard output takes no more. Where
    that is neither a terminal nor a reader that has gone, a sentence is said first.
    """

    def __init__(self, failed: Callable[[int], object]) -> None:
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._texts: queue.SimpleQueue[tuple[Callable[[], None], int] | None] = queue.SimpleQueue()
        self._waiting_characters = 0
        self._room = asyncio.Event()
        self._hurry = asyncio.Event()
        self._closed = asyncio.Event()
        # Not to be waited for at the end: it may hang in a write.
        threading.Thread(target=self._work, name="holdfast-screen", daemon=True).start()

    def write(self, text: str) -> None:
        """Queue text for standard output."""
        self._put(lambda: put(text.encode("utf-8", "replace")), len(text))

    def note(self, text: str) -> None:
        """Queue a line for standard error, after everything else."""
        self._put(lambda: note(text), len(text))

    async def room(self) -> None:
        """Return when the queue has room, or after ``hurry``."""
        while self._waiting_characters > _MOST_WAITING_CHARACTERS and not self._hurry.is_set():
            self._room.clear()
            await self._room.wait()

    def hurry(self) -> None:
        """Stop waiting for a reader that does not read."""
        self._hurry.set()
        self._room.set()

    async def close(self) -> None:
        """Return when everything is written; shortly after ``hurry`` the rest is dropped."""
        self._texts.put(None)
        done = asyncio.ensure_future(self._closed.wait())
        hurried = asyncio.ensure_future(self._hurry.wait())
        await asyncio.wait({done, hurried}, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        await asyncio.wait({done}, timeout=_LAST_WORDS_SECONDS)
        done.cancel()

    def _put(self, write: Callable[[], None], characters: int) -> None:
        self._waiting_characters += characters
        self._texts.put((write, characters))

    def _work(self) -> None:
        lost = False
        while (taken := self._texts.get()) is not None:
            write, characters = taken
            try:
                if not lost:
                    write()
            except OSError as error:
                lost = True
                self._soon(self._failed, _code_of(error))
            self._soon(self._written, characters)
        self._soon(self._closed.set)

    def _written(self, characters: int) -> None:
        self._waiting_characters -= characters
        self._room.set()

    def _soon(self, call: Callable[..., object], *given: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits for it any more
            self._loop.call_soon_threadsafe(call, *given)


def _code_of(error: OSError) -> int:
    """Return the exit code for an output that failed; if the disk is full, print that."""
    if error.errno == errno.EPIPE:
        return _NOBODY_READS
    if error.errno == errno.EIO:
        return _HUNG_UP
    note(f"Cannot write to standard output: {error.strerror}.")
    return _FAILURE
