"""A home, a folder to work in, and a terminal on which the real program runs."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import signal
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self
from unittest.mock import patch

import holdfast
from scripts.pictures.svg import Screen

SHOWN_FOLDER = "/home/me/app"
_LIMIT_SECONDS = 60.0
_LOOK_SECONDS = 0.1
_STILL_SECONDS = 0.8
_SEQUENCE = re.compile(r"\x1b\[[0-9;:]*m")
_CONF = """\
set -g default-terminal tmux-256color
set -g status off
set -g escape-time 0
"""


@contextmanager
def written_ago(age: timedelta) -> Iterator[None]:
    """Have entries written as if it were some time ago; they are shown with their age."""
    at = (datetime.now(UTC) - age).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    names = ("holdfast.journal.format.timestamp", "holdfast.store.local.log_writer.timestamp")
    with patch(names[0], lambda: at), patch(names[1], lambda: at):
        yield


class Stage:
    """A terminal; ``with`` ends everything that was started on it.

    The folder's real name is as long as the one that is shown for it, so that no line changes.
    """

    def __init__(self, columns: int = 80, rows: int = 30) -> None:
        self.columns, self.rows = columns, rows
        self._scratch = Path(tempfile.mkdtemp(prefix="holdfast-pictures-"))
        self.folder = _folder(len(SHOWN_FOLDER))
        self.home = self._scratch / "home"
        self._environment = {
            "PATH": os.environ["PATH"],
            "LC_ALL": "C.UTF-8",
            "HOME": str(self._scratch),
            "HOLDFAST_HOME": str(self.home),
            "HOLDFAST_CONFIG": str(self._scratch / "config"),
            "PYTHONPATH": str(Path(holdfast.__file__).parents[1]),
            "TMUX_TMPDIR": str(self._scratch),
        }
        (self._scratch / "tmux.conf").write_text(_CONF, encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server", check=False)
        self.run("stop", "--all", check=False)
        shutil.rmtree(self._scratch, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def script(self, text: str) -> str:
        """Write what the rehearsal model is to do; return the name of the file."""
        path = self._scratch / "script.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def run(self, *words: str, check: bool = True) -> str:
        """Run the program beside the terminal; return what it says."""
        command = [sys.executable, "-m", "holdfast", *words]
        done = subprocess.run(
            command,
            env=self._environment,
            cwd=self.folder,
            check=check,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def open(self, *words: str, stays: bool = False) -> None:
        """Start the program on the terminal, which stays when it ends only if that is wanted."""
        program = shlex.join([sys.executable, "-m", "holdfast", *words])
        if stays:
            program += "; exec sleep 600"
        size = ["-x", str(self.columns), "-y", str(self.rows)]
        self._tmux("new-session", "-d", *size, "-s", "stage", "-c", str(self.folder), program)

    def type(self, text: str, *keys: str) -> None:
        """Type a text, then press keys, named as tmux names them."""
        self._tmux("send-keys", "-t", "stage", "-l", text)
        for key in keys:
            self._tmux("send-keys", "-t", "stage", key)

    def press(self, key: str) -> None:
        """Press a key."""
        self._tmux("send-keys", "-t", "stage", key)

    def close(self) -> None:
        """Close the terminal, as its window's button does."""
        self._tmux("kill-session", "-t", "stage")

    def until_saved(self, text: str) -> None:
        """Wait until a text is in the journal of the session, in a result.

        Raises:
            TimeoutError: it did not come.
        """
        deadline = time.monotonic() + _LIMIT_SECONDS
        while time.monotonic() < deadline:
            for journal in self.home.glob("sessions/*/*/journal.jsonl"):
                if text in journal.read_text(encoding="utf-8"):
                    return
            time.sleep(_LOOK_SECONDS)
        raise TimeoutError(f"{text!r} was not saved")

    def crash(self) -> None:
        """Kill everything at once, as a power cut does: terminal, chat, runner and commands."""
        ours = f"HOLDFAST_HOME={self.home}".encode()
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if ours in (path / "environ").read_bytes().split(b"\0"):
                    os.kill(int(path.name), signal.SIGKILL)

    def until(self, *wanted: str) -> None:
        """Wait until all of it is on the screen.

        Raises:
            TimeoutError: it did not come.
        """
        deadline = time.monotonic() + _LIMIT_SECONDS
        while not all(each in self.text for each in wanted):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{wanted} did not come:\n{self.text}")
            time.sleep(_LOOK_SECONDS)

    @property
    def text(self) -> str:
        """What is on the screen, without its colours."""
        return _SEQUENCE.sub("", self._captured())

    def screen(self) -> Screen:
        """Return what is on the screen, once that stands still."""
        before, since = "", time.monotonic()
        while time.monotonic() - since < _STILL_SECONDS:
            now = self._captured()
            if now != before:
                before, since = now, time.monotonic()
            time.sleep(_LOOK_SECONDS)
        place = self._tmux("display-message", "-p", "#{cursor_x} #{cursor_y} #{cursor_flag}")
        x, y, shown = map(int, place.split())
        lines = before.replace(str(self.folder), SHOWN_FOLDER).split("\n")
        return Screen(lines, self.columns, (x, y) if shown else None)

    def _captured(self) -> str:
        return self._tmux("capture-pane", "-t", "stage", "-e", "-p")

    def _tmux(self, *words: str, check: bool = True) -> str:
        base = ["tmux", "-u", "-L", "pictures", "-f", str(self._scratch / "tmux.conf")]
        done = subprocess.run(
            [*base, *words], env=self._environment, check=check, capture_output=True, text=True
        )
        return done.stdout


def _folder(length: int) -> Path:
    """Make a folder whose whole name has a given length."""
    base = f"{Path(tempfile.gettempdir()).resolve()}/"
    letters = string.ascii_lowercase
    while True:
        rest = "".join(secrets.choice(letters) for _ in range(max(length - len(base), 6)))
        path = Path(base + rest)
        if not path.exists():
            path.mkdir(mode=0o700)
            return path
