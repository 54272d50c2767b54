"""A program on a terminal of its own: started, typed at, read, and asked what it has used."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

_LIMIT_SECONDS = 120.0
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_PROMPT = re.compile(r"^>[ \b]*$", re.MULTILINE)


class Program:
    """A process whose terminal has 80 columns and 24 rows; it is ended by ``with``.

    ``written`` is every byte it wrote to that terminal.
    """

    def __init__(self, words: list[str], environment: Mapping[str, str], folder: Path) -> None:
        self.written = b""
        self.began = time.perf_counter()
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(words[0], words, environment)  # noqa: S606  no shell is wanted
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.close(self._terminal)
        os.waitpid(self.pid, 0)

    @property
    def text(self) -> str:
        """What it wrote, without the sequences that move and colour."""
        plain = _SEQUENCE.sub("", self.written.decode("utf-8", "replace"))
        return plain.replace("\r", "")

    def until(self, *wanted: str | re.Pattern[str]) -> float:
        """Read until all of it was written; return the seconds since the start.

        Raises:
            TimeoutError: it did not come.
        """
        while not _has(self.text, wanted):
            if not self._read():
                raise TimeoutError(f"{wanted} never came; there is: {self.text[-2000:]}")
        return time.perf_counter() - self.began

    def until_prompt(self, *wanted: str) -> float:
        """Read until there is a prompt to type at, and ``wanted`` on the screen."""
        return self.until(_PROMPT, *wanted)

    def type(self, text: str) -> None:
        """Type something."""
        os.write(self._terminal, text.encode())

    def settle(self, quiet_seconds: float) -> float:
        """Read until nothing was written for so long; return when the last of it was."""
        last = time.perf_counter()
        while self._read(quiet_seconds):
            last = time.perf_counter()
        return last

    def _read(self, limit_seconds: float = _LIMIT_SECONDS) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], limit_seconds)
        try:
            piece = os.read(self._terminal, 65536) if ready else b""
        except OSError:  # Linux says so when the other end is closed
            piece = b""
        self.written += piece
        return bool(piece)

    def waited_seconds(self) -> float:
        """Return how long it was ready to run and others had the processors; 0 if nobody knows."""
        try:
            account = Path(f"/proc/{self.pid}/schedstat").read_text(encoding="ascii")
        except OSError:
            return 0.0
        return int(account.split()[1]) / 1e9

    def cpu_seconds(self) -> float:
        """Return the processor time that it has used so far, without that of its children."""
        if sys.platform == "linux":
            clock = (~self.pid << 3) | 2  # what clock_getcpuclockid(3) returns
            return time.clock_gettime(clock)
        raise NotImplementedError("Only Linux tells the processor time of another process.")


def _has(text: str, wanted: tuple[str | re.Pattern[str], ...]) -> bool:
    return all(each in text if isinstance(each, str) else each.search(text) for each in wanted)
