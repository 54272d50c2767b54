"""The picker's terminal: left as it was found, whatever ends the picker.

Textual's driver sets handlers for the signals of a terminal and does not put back what was there,
dies of a terminal that is gone, and waits for one that nobody reads. All of that is seen to here.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO, Any

from textual.drivers.linux_driver import LinuxDriver

from holdfast.errors import UsageError
from holdfast.tui.tty import can_move_cursor, is_terminal

_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_OF_TERMINALS = (
    signal.SIGTSTP,
    signal.SIGCONT,
    signal.SIGTTOU,
    signal.SIGTTIN,
    signal.SIGWINCH,
)
_STUCK_SECONDS = 5.0


def check_terminal() -> None:
    """See that there is a terminal for a whole screen.

    Raises:
        UsageError: there is none.
    """
    if not can_move_cursor():
        why = "this terminal cannot show it (TERM is dumb)"
    elif not is_terminal(sys.__stdin__):
        why = "standard input is not a terminal"
    elif not (is_terminal(sys.__stderr__) or is_terminal(sys.__stdout__)):
        why = "the output is not a terminal"
    else:
        return
    raise UsageError(
        f"The session picker needs a terminal, but {why}. List the sessions with: holdfast ls. "
        "Resume one with: holdfast -r ID (or part of an id, or a title)"
    )


class _Paper:
    """What the screen is written on. A terminal that is gone takes everything in silence.

    Otherwise the thread that writes would die of it, and whoever waits for that thread would wait
    forever.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()


class PickerDriver(LinuxDriver):
    """Textual's driver, on whichever of the two outputs is a terminal."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        stream = sys.__stderr__ if is_terminal(sys.__stderr__) else sys.__stdout__
        self._file: Any = _Paper(stream) if stream is not None else None

    def _get_terminal_size(self) -> tuple[int, int]:
        # Not as COLUMNS and LINES say, where those are exported: they do not follow a resize.
        try:
            size = os.get_terminal_size(self._file.fileno())
        except (OSError, ValueError):
            return super()._get_terminal_size()
        return size.columns or 80, size.lines or 24

    def _run_input_thread(self) -> None:
        with suppress(OSError):  # the terminal is gone; the app looks at that itself
            self.run_input_thread()


def hung_up() -> bool:
    """Tell whether the terminal is gone."""
    if sys.__stdin__ is None:
        return True
    try:
        poll = select.poll()
        poll.register(sys.__stdin__.fileno(), 0)
        return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))
    except (OSError, ValueError):
        return True


@contextmanager
def ended_by_signals(leave: Callable[[], object]) -> Iterator[None]:
    """Have a signal leave the block in an orderly way, and take effect behind it.

    What the signals did before is put back. One that was ignored stays ignored.
    """
    before = {number: signal.getsignal(number) for number in (*_ENDING, *_OF_TERMINALS)}
    modes = _modes()
    caught: list[int] = []

    def told(number: int, _: FrameType | None) -> None:
        caught.append(number)
        leave()
        if len(caught) == 1:
            # A terminal that nobody reads keeps the loop from coming to its end.
            stuck = threading.Timer(_STUCK_SECONDS, _end, (number, modes))
            stuck.daemon = True
            stuck.start()
            timers.append(stuck)

    timers: list[threading.Timer] = []
    for number in _ENDING:
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, told)
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
        for number, action in before.items():
            if action is not None:
                signal.signal(number, action)
        if caught:
            signal.raise_signal(caught[0])


def _modes() -> list[Any] | None:
    try:
        return termios.tcgetattr(0)
    except termios.error:
        return None


def _end(number: int, modes: list[Any] | None) -> None:
    """End the process at once; the terminal at least shows again what is typed."""
    if modes is not None:
        with suppress(termios.error):
            termios.tcsetattr(0, termios.TCSANOW, modes)
    os._exit(128 + number)
