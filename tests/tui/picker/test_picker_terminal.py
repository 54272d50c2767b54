"""The picker on real terminals: as tmux shows it, and what is left of a terminal behind it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from rich.cells import cell_len

import holdfast
from tests.cli.program import alive, until
from tests.tui.pane import SHELL, Desk, Pane, desk_of_its_own

_PICK = """
import signal, sys
import holdfast
from holdfast.tui.picker.app import pick
try:
    with holdfast.open_store(sys.argv[1]) as store:
        print("picked", pick(store, sys.argv[2], query=" ".join(sys.argv[3:])))
    print("handlers", [signal.getsignal(n) in (signal.SIG_DFL, signal.default_int_handler)
                       for n in (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH, signal.SIGINT)])
except holdfast.HoldfastError as error:
    sys.exit(f"error: {error}")
"""
_COLOUR = re.compile(rb"\x1b\[[0-9;]*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")


@pytest.fixture
def desk() -> Iterator[Desk]:
    with desk_of_its_own() as desk:
        (desk.root / "pick.py").write_text(_PICK)
        yield desk


@pytest.fixture
def full(desk: Desk) -> Desk:
    """A desk with sessions of all kinds."""
    with holdfast.open_store(desk.home) as store:
        titles = ["日本語のタイトル", "שלום עולם 123", "evil \x1b[31m\x07title", "Fix the build"]
        for number, title in enumerate(titles):
            with store.create(workspace=desk.folder, model="some-model") as session:
                session.update(title=title)
                session.append(holdfast.user(f"question {number}"))
                session.append(holdfast.assistant(f"answer {number}: xylophone"))
                session.usage(input=1, output=1, cost_usd=number + 0.25)
        with store.create(workspace=desk.root) as session:
            session.append([holdfast.user("cut off"), holdfast.Turn(state="started")])
    return desk


def opened(desk: Desk, columns: int, rows: int, *query: str, **environment: str) -> Pane:
    pane = desk.pane(columns, rows, **environment)
    script = desk.root / "pick.py"
    words = [sys.executable, str(script), str(desk.home), str(desk.folder), *query]
    pane.enter(shlex.join(words) + "; echo left with $?")
    return pane


def columns_of(pane: Pane) -> list[list[int]]:
    """Return where the right-aligned columns end, in cells, of every row of the table."""
    lines = pane.screen().split("\n")
    begin = next(number for number, line in enumerate(lines) if "▾updated" in line)
    ends = []
    for line in (each.partition("│")[0] for each in lines[begin:]):
        found = re.search(r"(▾updated|now|\d+[mhd])( +\S+)( +\S+)? *[▁-█]? *$", line.rstrip())
        if found is not None:
            ends.append([cell_len(line[: found.end(group)]) for group in (1, 2)])
    return ends


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (200, 60)])
def test_it_is_laid_out_for_the_size(full: Desk, columns: int, rows: int):
    pane = opened(full, columns, rows)
    pane.sees("[This folder 4]", "Fix the build", "4 shown · 1 in other folders (Ctrl+A)", "? keys")
    pane.sees("日本語のタイトル", "$3.25")
    if columns >= 120:
        pane.sees("> question 3", "answer 3: xylophone")
    screen = pane.screen()
    assert "\x1b" not in screen
    assert "evil \\x07title" in screen
    ends = columns_of(pane)
    assert len(ends) == 5, screen
    assert all(each == ends[0] for each in ends), f"{ends}\n{screen}"
    pane.press("C-a")
    pane.sees("[All 5]", "! cut off", "interrupted")
    pane.type("xylo")
    pane.sees("4 shown · 1 does not match")
    pane.press("Down", "Enter")
    pane.sees("picked Picked(session='", "how='resume'", "left with 0")


def test_nothing_of_it_is_left_behind(full: Desk):
    pane = opened(full, 100, 30)
    pane.sees("4 shown")
    pane.press("Escape")
    pane.sees("picked None", "handlers [True, True, True, True]", "left with 0")
    assert "4 shown" not in pane.text()
    check_clean(pane)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("key", ["", "C-r"], ids=["", "in a window"])
def test_a_signal_ends_it_and_the_terminal_is_as_before(full: Desk, number, key):
    pane = opened(full, 80, 24)
    pane.sees("4 shown")
    if key:
        pane.press(key)
        pane.sees("Enter rename")
    os.kill(pane.client, number)
    pane.sees(f"left with {128 + number}")
    assert "shown ·" not in pane.text()
    check_clean(pane)


def check_clean(pane: Pane) -> None:
    """See that a terminal echoes, has its cursor and screen, and reports no mouse."""
    flags = "#{cursor_flag} #{alternate_on} #{mouse_any_flag} #{bracket_paste_flag}"
    shown = pane.desk.tmux("display-message", "-p", "-t", pane.name, flags)
    assert shown.split()[:3] == ["1", "0", "0"]
    pane.enter("stty -a | grep -c -- '-echo \\|-icanon\\|-isig\\|-icrnl'; echo checked")
    pane.shows(f"0\nchecked\n{SHELL.rstrip()}")


def test_with_no_color_there_is_none(full: Desk):
    coloured = opened(full, 80, 24)
    coloured.sees("4 shown")
    coloured.press("C-a")
    coloured.sees("interrupted")
    assert _COLOUR.search(coloured.raw()), "what is looked for below is not there at all"
    coloured.press("Escape")
    coloured.sees("left with 0")
    pane = opened(full, 80, 24, NO_COLOR="1")
    pane.sees("4 shown")
    pane.press("C-a")
    pane.sees("interrupted", "! cut off")
    pane.press("C-r")
    pane.sees("Enter rename")
    pane.press("Escape")
    pane.loses("Enter rename")
    pane.press("?")
    pane.sees("restore the last deleted session")
    pane.press("Escape")
    pane.loses("restore the last deleted")
    pane.press("Escape")
    pane.sees("left with 0")
    assert b"\x1b[7" in pane.raw() or b";7" in pane.raw(), "the chosen row is not marked"
    assert not _COLOUR.search(pane.raw())


def test_a_dumb_terminal_is_told_what_to_do_instead(full: Desk):
    pane = full.pane(80, 24)
    words = [sys.executable, str(full.root / "pick.py"), str(full.home), str(full.folder)]
    pane.enter(f"TERM=dumb {shlex.join(words)}; echo left with $?")
    pane.shows("error: The session picker needs a terminal", "holdfast ls", "left with 1")


def test_without_a_terminal_it_says_so(full: Desk):
    words = [sys.executable, str(full.root / "pick.py"), str(full.home), str(full.folder)]
    environment = full.environment | {"TERM": "xterm"}
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, env=environment, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: The session picker needs a terminal, but standard input")
    assert b"Traceback" not in done.stderr


def test_it_follows_a_resize(full: Desk):
    pane = opened(full, 80, 24, COLUMNS="80", LINES="24")
    pane.sees("4 shown")
    pane.resize(160, 40)
    pane.sees("> question 3", "4 shown")
    pane.resize(60, 12)
    pane.loses("> question 3")
    pane.sees("Fix the build", "4 shown")
    pane.press("Escape")
    pane.sees("left with 0")


# Terminals that die


class _Line:
    """A terminal whose other end this process has in hand, with a picker on it."""

    def __init__(self, desk: Desk, *prefix: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
        words = [sys.executable, str(desk.root / "pick.py"), str(desk.home), str(desk.folder)]
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *prefix, *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=desk.environment | {"TERM": "xterm-256color"},
        )
        os.close(slave)

    def read_until(self, text: bytes) -> None:
        shown = b""

        def more() -> bool:
            nonlocal shown
            shown += os.read(self.master, 65536)
            return text in shown

        until(more, text)

    def unread(self) -> int:
        """Return how many bytes wait to be read."""
        return int.from_bytes(fcntl.ioctl(self.master, termios.FIONREAD, bytes(4)), sys.byteorder)

    def hang_up(self) -> None:
        os.close(self.master)
        self.master = -1

    def ended(self) -> int:
        until(lambda: not alive(self.process.pid), "its end")
        return self.process.wait()

    def close(self) -> None:
        if self.master >= 0:
            self.hang_up()
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()


@pytest.fixture
def line(full: Desk, request: pytest.FixtureRequest) -> Iterator[_Line]:
    line = _Line(full, *getattr(request, "param", ()))
    try:
        line.read_until(b"shown")
        yield line
    finally:
        line.close()


def test_a_terminal_that_is_closed_ends_it(line: _Line):
    line.hang_up()
    assert line.ended() == -signal.SIGHUP


_DEAF = ("env", "--ignore-signal=HUP")


@pytest.mark.parametrize("line", [_DEAF], indirect=True)
@pytest.mark.skipif(sys.platform != "linux", reason="env of the GNU kind")
def test_a_terminal_that_is_closed_ends_it_without_a_signal_too(line: _Line):
    line.hang_up()
    assert line.ended() in (0, 1)  # what it says at the end has no place to go


def test_a_terminal_that_nobody_reads_does_not_keep_it_from_ending(line: _Line):
    """Keys make it draw until the line takes no more; then it is told to end."""
    os.set_blocking(line.master, False)
    seen = [line.unread()]

    def stalled() -> bool:
        with suppress(BlockingIOError):
            os.write(line.master, b"\x01\x13")  # other rows, in another order
        time.sleep(0.02)
        seen.append(line.unread())
        return len(seen) > 60 and len(set(seen[-50:])) == 1

    until(stalled, "a full line")
    line.process.send_signal(signal.SIGTERM)
    assert line.ended() in (-signal.SIGTERM, 128 + signal.SIGTERM)
