"""What people type at a session they are attached to: prompts, answers, commands.

Lines are done in order, each once it can be: what is typed before the runner is there waits for it,
and what a runner died over is sent to the next one, with the same id.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
import termios
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

from holdfast.errors import UsageError
from holdfast.model.message import Text
from holdfast.runtime.protocol.client import new_request_id
from holdfast.runtime.protocol.messages import (
    Approve,
    Cancel,
    Compact,
    ContinueTurn,
    QuestionAsked,
    Request,
    RunQueue,
    Stop,
    Submit,
)

QUIT = "/quit"
_PIECE_BYTES = 64 * 1024
_COMMANDS: dict[str, Callable[..., Request]] = {
    "/continue": ContinueTurn,
    "/run-queue": RunQueue,
    "/run": RunQueue,  # as the chat calls it
    "/compact": Compact,
    "/cancel": Cancel,
    "/stop": Stop,
}


def request_for(text: str, questions: dict[str, QuestionAsked]) -> Request:
    """Return the request that a typed line means, given the open questions.

    Raises:
        UsageError: the line is not valid.
    """
    word = text.strip().lower()
    if text.startswith("/"):
        return _command(text.strip())
    if questions:
        if word not in ("y", "yes", "n", "no"):
            raise UsageError("Answer y or n first.")
        call_id, question = next(iter(questions.items()))
        return Approve(
            id=new_request_id(),
            call_id=call_id,
            arguments_sha256=question.arguments_sha256,
            allow=word.startswith("y"),
        )
    return Submit(id=new_request_id(), content=[Text(text=text)])


def _command(word: str) -> Request:
    made = _COMMANDS.get(word)
    if made is None:
        known = ", ".join([*_COMMANDS, QUIT])
        raise UsageError(f"There is no command {word}. Commands: {known}.")
    return made(id=new_request_id())


class Typed:
    """Standard input, line by line. ``do`` is given each line, ``end`` the exit code at the end.

    ``on_terminal`` tells whether it was a terminal when it began: only there is its end a hang-up.
    """

    def __init__(self, do: Callable[[str], Awaitable[None]], end: Callable[[int], object]) -> None:
        self._do = do
        self._end = end
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._rest = b""
        self._code = 0
        self._working: asyncio.Task[None] | None = None
        self.on_terminal = False

    def listen(self) -> bool:
        """Start to read; return whether standard input can be read."""
        loop = asyncio.get_running_loop()
        try:
            descriptor = sys.stdin.fileno()
        except (AttributeError, ValueError):  # closed
            return False
        self.on_terminal = os.isatty(descriptor)
        try:
            loop.add_reader(descriptor, self._readable)
        except PermissionError:  # what is always ready cannot be waited for
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return False
            reading = threading.Thread(target=self._read_file, args=(descriptor, loop), daemon=True)
            reading.start()
        self._working = asyncio.ensure_future(self._work())
        return True

    def _read_file(self, descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
        """Read a file to its end, in a thread because the disk may be slow."""
        with suppress(RuntimeError):  # the loop is closed: nobody wants the rest
            piece = b"."
            while piece:
                try:
                    piece = os.read(descriptor, _PIECE_BYTES)
                except OSError:
                    piece = b""
                loop.call_soon_threadsafe(self._take, piece)

    def _readable(self) -> None:
        descriptor = sys.stdin.fileno()
        try:
            piece = os.read(descriptor, _PIECE_BYTES)
        except BlockingIOError:  # somebody who shares it has read it
            return
        except OSError:
            piece = b""
        if not piece:
            asyncio.get_running_loop().remove_reader(descriptor)
            self._code = 128 + signal.SIGHUP if _is_hung_up(descriptor) else 0
        self._take(piece)

    def _take(self, piece: bytes) -> None:
        """Process a piece of input; an empty one is the end."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self._lines.put_nowait(line.decode("utf-8", "replace"))
        if not piece:
            self._lines.put_nowait(self._rest.decode("utf-8", "replace"))
            self._lines.put_nowait(None)

    async def _work(self) -> None:
        while (line := await self._lines.get()) is not None:
            if line.strip():
                await self._do(line)
        self._end(self._code)


def _is_hung_up(descriptor: int) -> bool:
    """Return whether the terminal has gone; false if the user typed Ctrl+D."""
    try:
        termios.tcgetattr(descriptor)
    except termios.error as error:
        return bool(error.args[0] != _NO_TERMINAL)
    return False


_NO_TERMINAL = 25  # ENOTTY: it never was one
