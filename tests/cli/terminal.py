"""A program on a terminal of its own that only takes lines: typed at, looked at, hung up on."""

from __future__ import annotations

import os
import pty
import select
import signal
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.cli.program import PROGRAM, Program, until

_PATIENCE_SECONDS = 60.0


class Terminal:
    """A pseudo-terminal with the program in it, whose process session it leads."""

    def __init__(self, program: Program, *words: str) -> None:
        self.screen = ""
        self._code: int | None = None
        self._hung_up = False
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.chdir(program.folder)
            os.execve(PROGRAM[0], [*PROGRAM, *words], {**program.environment, "TERM": "dumb"})
        attributes = termios.tcgetattr(self._master)
        attributes[3] &= ~termios.ECHO
        with suppress(termios.error):
            termios.tcsetattr(self._master, termios.TCSANOW, attributes)
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        with suppress(OSError):  # the other end is closed
            while not self._hung_up:
                if select.select([self._master], [], [], 0.02)[0]:
                    piece = os.read(self._master, 65536)
                    self.screen += piece.decode(errors="replace").replace("\r\n", "\n")

    def shows(self, text: str) -> None:
        with self.told():
            until(lambda: text in self.screen or self._reap(), text)
        assert text in self.screen, self.screen

    @contextmanager
    def told(self) -> Iterator[None]:
        """Have a failure show the screen."""
        try:
            yield
        except AssertionError as error:
            raise AssertionError(f"{error}; the screen is:\n{self.screen}") from None

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def hang_up(self) -> None:
        """Close the terminal, as its window is closed or its line is dropped."""
        if not self._hung_up:
            self._hung_up = True
            self._reading.join()  # as long as somebody reads there it stays open
            os.close(self._master)

    def wait(self) -> int:
        """Return the exit code."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._reap():
            assert time.monotonic() < deadline, f"it does not end: {self.screen}"
            time.sleep(0.01)
        assert self._code is not None
        self._reading.join(timeout=1)
        assert "Traceback" not in self.screen, self.screen
        return self._code

    def _reap(self) -> bool:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code is not None

    def close(self) -> None:
        if not self._reap():
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
        self.hang_up()


@contextmanager
def terminal(program: Program, *words: str) -> Iterator[Terminal]:
    opened = Terminal(program, *words)
    try:
        yield opened
    finally:
        opened.close()
