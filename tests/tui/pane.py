"""The program on a real terminal: a pane of a tmux server of its own, in a home of its own.

The pane has a shell, as a user's has; everything the program writes is kept twice: as tmux shows it
(screen and scrollback) and raw, byte for byte.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Program, alive, of_type, said, until
from tests.crash.lab.packages import provided, why_missing

PATIENCE_SECONDS = 30.0
SHELL = "shell$ "
_LOOK_SECONDS = 0.03
_READING_SECONDS = 0.5  # a little more than a choice takes no keys for
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏?"
_CONF = """\
set -g default-terminal tmux-256color
set -g history-limit 50000
set -g set-clipboard on
set -g allow-passthrough on
set -g status off
set -g escape-time 0
"""


def need_tmux() -> None:
    """Skip loudly where there is no tmux and none may be installed; never if that is forbidden."""
    if not provided("tmux", "tmux"):
        reason = f"The chat was NOT tried on a terminal: no tmux, {why_missing('tmux')}."
        assert not os.environ.get("HOLDFAST_NOTHING_SKIPPED"), reason
        pytest.skip(reason)


class Desk:
    """A user with a home, a project, and as many terminals as are opened."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.program = Program(root / "user")
        self.folder = self.program.folder
        self.home = self.program.home
        self.environment = self.program.environment | {
            "PATH": f"{root / 'bin'}:{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "TMUX_TMPDIR": str(root),
            "HISTFILE": "",
        }
        for name in ("TMUX", "TMUX_PANE", "NO_COLOR", "VISUAL", "EDITOR", "STY", "COLORTERM"):
            self.environment.pop(name, None)
        self._panes = 0
        self._bin()
        (root / "tmux.conf").write_text(_CONF)
        (root / "bashrc").write_text(f"PS1='{SHELL}'\n")

    def _bin(self) -> None:
        folder = self.root / "bin"
        folder.mkdir()
        script = folder / "holdfast"
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m holdfast "$@"\n')
        script.chmod(0o755)

    def tmux(self, *words: str) -> str:
        """Speak to the server."""
        base = ["tmux", "-u", "-L", "desk", "-f", str(self.root / "tmux.conf")]
        done = subprocess.run(
            [*base, *words], env=self.environment, cwd=self.folder, check=True, capture_output=True
        )
        return done.stdout.decode()

    def pane(self, columns: int = 100, rows: int = 30, **environment: str) -> Pane:
        """Open a terminal with a shell in it."""
        self._panes += 1
        return Pane(self, f"p{self._panes}", columns, rows, environment)

    def chat(
        self, *words: str | Path, columns: int = 100, rows: int = 30, **environment: str
    ) -> Pane:
        """Open a terminal and chat in it; the prompt is there, and a runner."""
        pane = self.pane(columns, rows, **environment)
        pane.chat(*words)
        return pane

    def close(self) -> None:
        """End everything that was started here."""
        for pid in self.runners():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        with suppress(subprocess.CalledProcessError):
            self.tmux("kill-server")
        self.program.close()
        deadline = time.monotonic() + PATIENCE_SECONDS / 4
        while pids := self.runners():
            if time.monotonic() > deadline:
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    # What is going on, and what is on disk

    def runners(self) -> list[int]:
        """The processes that hold sessions of this home."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                environment = (path / "environ").read_bytes()
                line = (path / "cmdline").read_bytes()
                if (
                    f"HOLDFAST_HOME={self.home}\0".encode() in environment
                    and b"holdfast.runtime.runner.spawn" in line
                ):
                    found.append(int(path.name))
        return [pid for pid in found if alive(pid)]

    @property
    def runner(self) -> int:
        """The one runner there is."""
        until(lambda: len(self.runners()) == 1, "one runner")
        (pid,) = self.runners()
        return pid

    @property
    def session(self) -> str:
        """The id of the one session there is on disk."""
        until(self.program.sessions, "a session on disk")
        (folder,) = self.program.sessions()
        return folder.name

    def journal(self, session: str | None = None) -> list[dict[str, Any]]:
        return self.program.journal(session)

    def said(self, role: str, session: str | None = None) -> list[str]:
        """The texts of the messages of a role."""
        return said(self.journal(session), role)

    def turns(self, session: str | None = None) -> list[str]:
        """How the turns stand, one word an entry."""
        return [each["state"] for each in of_type(self.journal(session), "turn")]

    def await_turns(self, *states: str, session: str | None = None) -> None:
        """Wait until the journal has these entries of turns, and no others."""
        until(
            lambda: self.program.sessions() and self.turns(session) == list(states),
            f"turns {states}",
        )


class Pane:
    """One terminal."""

    def __init__(
        self, desk: Desk, name: str, columns: int, rows: int, environment: dict[str, str]
    ) -> None:
        self.desk = desk
        self.name = name
        self._raw = desk.root / f"{name}.raw"
        self._raw.touch()
        given = [word for pair in environment.items() for word in ("-e", "=".join(pair))]
        desk.tmux(
            *("new-session", "-d", "-s", name, "-x", str(columns), "-y", str(rows), *given),
            f"exec bash --noprofile --rcfile {shlex.quote(str(desk.root / 'bashrc'))} -i",
            *(";", "pipe-pane", "-t", name, "-O", f"exec cat >> {shlex.quote(str(self._raw))}"),
        )
        self.shows(SHELL.rstrip())

    # What is done at it

    def press(self, *keys: str) -> None:
        """Press keys by their tmux names: Enter, C-c, Escape, Up."""
        self.desk.tmux("send-keys", "-t", self.name, *keys)

    def type(self, text: str) -> None:
        """Type something, and no Enter."""
        self.desk.tmux("send-keys", "-t", self.name, "-l", text)

    def enter(self, text: str) -> None:
        """Type a line and Enter; Ctrl+J stands for each line feed in it."""
        words: list[str] = []
        for number, line in enumerate(text.split("\n")):
            if number:
                words += ["send-keys", "-t", self.name, "C-j", ";"]
            if line:  # a semicolon at its end would end tmux's command
                typed = line[:-1] + "\\;" if line.endswith(";") else line
                words += ["send-keys", "-t", self.name, "-l", "--", typed, ";"]
        self.desk.tmux(*words, "send-keys", "-t", self.name, "Enter")

    def paste(self, text: str) -> None:
        """Paste, bracketed if the program asked for that."""
        path = self.desk.root / f"{self.name}.paste"
        path.write_text(text)
        self.desk.tmux(
            *("load-buffer", "-b", self.name, str(path), ";"),
            *("paste-buffer", "-p", "-t", self.name, "-b", self.name),
        )

    def chat(self, *words: str | Path) -> None:
        """Start a chat from the shell."""
        self.enter(shlex.join(["holdfast", *map(str, words)]) + "; echo left with $?")
        self.stands("saved ✓|read-only")

    def resize(self, columns: int, rows: int) -> None:
        self.desk.tmux(
            *("resize-window", "-t", self.name, "-x", str(columns), "-y", str(rows)),
        )

    def kill(self) -> None:
        """Close the terminal, as a window is closed."""
        self.desk.tmux("kill-session", "-t", self.name)

    @property
    def client(self) -> int:
        """The process of the chat."""
        shell = int(self.desk.tmux("display-message", "-p", "-t", self.name, "#{pane_pid}"))
        children = Path(f"/proc/{shell}/task/{shell}/children")
        until(lambda: children.read_text().split(), "the chat's process")
        return int(children.read_text().split()[0])

    # What is seen on it

    def screen(self) -> str:
        """What is visible."""
        return self.desk.tmux("capture-pane", "-p", "-t", self.name)

    def text(self) -> str:
        """Scrollback and screen, wrapped lines joined."""
        captured = self.desk.tmux("capture-pane", "-p", "-J", "-S", "-", "-t", self.name)
        return "\n".join(line.rstrip() for line in captured.split("\n"))

    def raw(self) -> bytes:
        """All bytes that were written to the terminal."""
        return self._raw.read_bytes()

    def status(self) -> str:
        """The last line that is not empty."""
        return self.screen().rstrip().rpartition("\n")[2]

    def shows(self, *pattern: str, times: int = 1) -> None:
        """Wait until the scrollback or the screen has some text, so often at least."""

        def found() -> bool:
            text = self.text()
            return all(text.count(each) >= times for each in pattern)

        self.until(found, pattern)

    def sees(self, *pattern: str) -> None:
        """Wait until the screen has some text."""

        def found() -> bool:
            screen = self.screen()
            return all(each in screen for each in pattern)

        self.until(found, pattern)

    def loses(self, *pattern: str) -> None:
        """Wait until the screen has some text no more."""

        def gone() -> bool:
            screen = self.screen()
            return not any(each in screen for each in pattern)

        self.until(gone, f"no {pattern}")

    def stands(self, pattern: str) -> None:
        """Wait until the status line matches."""
        self.until(lambda: re.search(pattern, self.status()), pattern)

    def rests(self, session: str | None = None) -> None:
        """Wait until nothing runs and the status line has the journal's last number."""

        def rest() -> bool:
            status = self.status()
            last = self.desk.journal(session)[-1]["seq"]
            return status.endswith(f"saved ✓ seq {last}") and status[0] not in _SPINNER

        self.until(rest, "rest")

    def asks(self, *pattern: str) -> None:
        """Wait for a choice, and until it can be made: nobody decides before they can have read."""
        self.sees(*pattern)
        time.sleep(_READING_SECONDS)

    def left(self, code: int = 0) -> None:
        """Wait until the chat has ended with a code, and the shell is back."""
        self.shows(f"left with {code}\n{SHELL.rstrip()}")

    def until(self, condition: Callable[[], object], what: object) -> None:
        """Wait for something; show the terminal if it never comes."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} never came; the terminal:\n{self.text()}")
            time.sleep(_LOOK_SECONDS)


@contextmanager
def desk_of_its_own() -> Iterator[Desk]:
    """Give a desk far from this machine's settings; its path is short, as a socket's must be."""
    need_tmux()
    root = Path(tempfile.mkdtemp(prefix="desk-"))
    desk = Desk(root)
    try:
        yield desk
    finally:
        desk.close()
        shutil.rmtree(root, ignore_errors=True)
