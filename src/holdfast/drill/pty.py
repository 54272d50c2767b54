"""The program on a terminal or a pipe of ours, and every byte that it showed there.

One thread does it all: screens are read whenever something is waited for, so that an interrupt
finds nothing half done.
"""

from __future__ import annotations

import codecs
import errno
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.files import Files
from holdfast.model.sanitize import quoted_line

PATIENCE_SECONDS = 20.0
_LOOK_SECONDS = 0.01
_AT_ONCE_BYTES = 1 << 16
_SIZE = (24, 80)
_files = Files()
# A terminal hangs up only on those whose own it is; nothing else makes it one's own everywhere.
_TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class StuckError(Exception):
    """Something that had to happen did not; the message says what, as a clause."""


class PtyScreen:
    """What one program shows. ``text`` is what was read so far; ``first`` when it began."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self.text = ""
        self.first: float | None = None
        self._descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        os.set_blocking(descriptor, False)

    @property
    def is_open(self) -> bool:
        """Whether more may come."""
        return self._descriptor >= 0

    def look(self, patience_seconds: float = 0.0) -> None:
        """Read what there is; wait a little if there is nothing."""
        if not self.is_open:
            time.sleep(patience_seconds)
            return
        if not select.select([self._descriptor], [], [], patience_seconds)[0]:
            return
        try:
            while data := os.read(self._descriptor, _AT_ONCE_BYTES):
                self.first = self.first or time.monotonic()
                self.text += self._decoder.decode(data)  # half a character waits for the rest
        except BlockingIOError:
            return
        except OSError as error:  # so a terminal tells that nobody has it any more
            if error.errno != errno.EIO:
                raise
        self.hang_up()

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Read until a condition holds.

        Raises:
            StuckError: it does not, for a very long time, or the program has ended before.
        """
        end = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            ended = self.process.poll() is not None
            self.look(_LOOK_SECONDS)
            if ended and not self.is_open and not condition():
                code, last = self.process.returncode, self.text.strip().rpartition("\n")[2]
                showed = f", showing {quoted_line(last)}" if last else ""
                raise StuckError(f"{what} did not come: the program ended before ({code}){showed}")
            if time.monotonic() > end:
                raise StuckError(f"{what} did not come in {PATIENCE_SECONDS:g} seconds")

    def shows(self, text: str) -> None:
        """Read until a text is shown."""
        self.until(lambda: text in self.text, f"“{text.strip()}” on the screen")

    def whole(self) -> str:
        """Read to the end of the program; return all of it."""
        self.until(lambda: not self.is_open, "the end of what it shows")
        until(lambda: self.process.poll() is not None, "the end of the program")
        return self.text

    def hang_up(self) -> None:
        """Close our end; of a terminal that is what closing its window does."""
        if self.is_open:
            descriptor, self._descriptor = self._descriptor, -1
            _files.close(descriptor)

    def kill(self) -> None:
        """Kill the program with -9; what it had shown can still be read."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Kill the program, if it is there, and let go of everything."""
        self.kill()
        self.hang_up()


def on_terminal(command: list[str], folder: Path, environment: Mapping[str, str]) -> PtyScreen:
    """Start a program on a terminal of its own, which it can be hung up with."""
    ours, its = pty.openpty()
    try:
        settings = termios.tcgetattr(its)
        settings[1] &= ~termios.OPOST  # what is shown is to be compared, so nothing is added
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(its, termios.TCSANOW, settings)
        termios.tcsetwinsize(its, _SIZE)
        process = subprocess.Popen(  # noqa: S603  this very program
            [sys.executable, "-I", "-S", "-c", _TAKE_TERMINAL, *command],
            stdin=its,
            stdout=its,
            stderr=its,
            cwd=folder,
            env=dict(environment),
            start_new_session=True,
        )
    except BaseException:
        _files.close(ours)
        raise
    finally:
        _files.close(its)
    return PtyScreen(process, ours)


def on_pipe(
    command: list[str], folder: Path, environment: Mapping[str, str], errors: int
) -> PtyScreen:
    """Start a program with standard output on a pipe and standard error in a file."""
    process = subprocess.Popen(  # noqa: S603  this very program
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        cwd=folder,
        env=dict(environment),
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout as pipe:
        return PtyScreen(process, _files.duplicate(pipe.fileno()))


def until(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds that shows on no screen.

    Raises:
        StuckError: it does not, for a very long time.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise StuckError(f"{what} did not come in {PATIENCE_SECONDS:g} seconds")
        time.sleep(_LOOK_SECONDS)
