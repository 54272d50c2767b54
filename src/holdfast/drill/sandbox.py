"""The ground that a drill is held on: a home, a configuration and a project of its own.

Nothing of the user's is read or written. Every process that is started here has the scratch home
in its environment, and by that it is found and ended, whoever started it and whatever became of
that one.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from holdfast.drill.pty import PtyScreen, on_pipe, on_terminal
from holdfast.errors import StorageError
from holdfast.files import Files
from holdfast.model.codec import dumps
from holdfast.model.ids import new_name
from holdfast.model.sanitize import quoted_line
from holdfast.runtime.config.secret_variables import without_secrets
from holdfast.runtime.protocol.socket_path import run_folder
from holdfast.store.programs import current_folder, path_outside
from holdfast.store.scratch import scratch_root

_CONFIG = b'provider = "rehearsal"\nmode = "allow-all"\n'
_PROGRAM = [sys.executable, "-m", "holdfast"]
_HOME = "HOLDFAST_HOME"
_MARKS = "marks"
_ENDING_SECONDS = 5.0
_LOOK_SECONDS = 0.02
_files = Files()


class Sandbox:
    """The ground of one scenario: ``home`` for sessions, ``project`` to work in.

    What is in ``folder`` beside them is ours: the script of the model, the marks that commands
    leave, and the files that hold commands back.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.project = folder / "project"
        self.script = folder / "script.jsonl"
        self._config = folder / "config"
        self._errors = folder / "errors"
        self._screens: list[PtyScreen] = []
        for each in (folder, self.home, self.project, self._config):
            _files.make_folder(each)
        _files.publish(self._config / "config.toml", _CONFIG)
        _files.publish(self._errors, b"")

    @property
    def environment(self) -> dict[str, str]:
        """What programs are given: no keys, nothing of the user's, and words in plain text."""
        kept = {
            name: value
            for name, value in without_secrets(os.environ).items()
            if not name.startswith("HOLDFAST_")
        }
        if path := kept.get("PYTHONPATH"):
            absolute = (str(Path(each).absolute()) for each in path.split(os.pathsep))
            kept["PYTHONPATH"] = os.pathsep.join(absolute)
        return kept | {
            "PATH": path_outside(current_folder()),
            _HOME: str(self.home),
            "HOLDFAST_CONFIG": str(self._config),
            "TERM": "dumb",
        }

    # Programs

    def on_terminal(self, *words: str, first: tuple[str, ...] = ()) -> PtyScreen:
        """Start the program on a terminal of its own, in the place of the shell there.

        That has run the program with the words ``first`` before, and waited for a mark.
        """
        command = [*_PROGRAM, *words]
        if first:
            told = f"{shlex.join([*_PROGRAM, *first])} > /dev/null 2>> ../{self._errors.name}"
            wait = f"while ! [ -e ../{_MARKS} ]; do sleep 0.02; done"
            command = ["/bin/sh", "-c", f"{told} || exit; {wait}; exec {shlex.join(command)}"]
        screen = on_terminal(command, self.project, self.environment)
        self._screens.append(screen)
        return screen

    def on_pipe(self, *words: str, before: tuple[str, ...] = ()) -> PtyScreen:
        """Start the program on a pipe; ``before`` is a command that runs it."""
        errors = _files.open_append(self._errors)
        try:
            command = [*before, *_PROGRAM, *words]
            screen = on_pipe(command, self.project, self.environment, errors)
        finally:
            _files.close(errors)
        self._screens.append(screen)
        return screen

    @property
    def errors(self) -> str:
        """What programs on pipes have written to standard error."""
        return _files.read_whole(self._errors).decode("utf-8", "replace")

    @property
    def last_error(self) -> str:
        """The last line of it."""
        return quoted_line(self.errors.strip().rpartition("\n")[2], 200)

    def end_all(self) -> None:
        """End every process of this ground.

        Raises:
            StorageError: one cannot be ended.
        """
        for screen in self._screens:
            screen.close()
        self._screens.clear()
        end = time.monotonic() + _ENDING_SECONDS
        while pids := _processes_with(f"{_HOME}={self.home}"):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > end:
                raise StorageError(
                    f"Processes of the drill do not end: {pids}. End them with kill -9."
                )
            time.sleep(_LOOK_SECONDS)

    # Files

    def write_script(self, *steps: dict[str, Any]) -> None:
        """Tell the model what to do."""
        _files.publish(self.script, b"".join(dumps(step) + b"\n" for step in steps))

    def put(self, name: str) -> None:
        """Put a file there."""
        _files.publish(self.folder / name, b"")

    def take(self, name: str) -> None:
        """Take a file away."""
        _files.unlink(self.folder / name)

    def has(self, name: str) -> bool:
        """Tell whether a file is there."""
        return _files.exists(self.folder / name)

    def marks(self) -> list[str]:
        """Return the marks that commands have left, in order."""
        with suppress(FileNotFoundError):
            return _files.read_whole(self.folder / _MARKS).decode().splitlines()
        return []


class Scratch:
    """The folder of a whole drill."""

    def __init__(self) -> None:
        self.folder = scratch_root() / f"holdfast-drill-{new_name()}"
        self.grounds: list[Sandbox] = []
        try:
            _files.make_folder(self.folder)
        except OSError as error:
            told = f"A temporary home cannot be created in {self.folder.parent}: {error.strerror}."
            raise StorageError(f"{told} Set TMPDIR to a folder that can be written.") from error

    @contextmanager
    def ground(self, name: str) -> Iterator[Sandbox]:
        """Give the ground of a scenario; no process of it is left behind."""
        ground = Sandbox(self.folder / name)
        self.grounds.append(ground)
        try:
            yield ground
        finally:
            ground.end_all()

    def remove(self) -> None:
        """Remove everything."""
        for ground in self.grounds:
            runs = run_folder(ground.home)
            if ground.home not in runs.parents:  # where paths are too long for sockets
                _removed(runs)
        _removed(self.folder)


def _removed(folder: Path) -> None:
    end = time.monotonic() + _ENDING_SECONDS
    while folder.is_dir():
        try:
            _files.remove_tree(folder)
        except OSError:  # the last breath of a process that was killed may be a file
            if time.monotonic() > end:
                raise
            time.sleep(_LOOK_SECONDS)


def _processes_with(setting: str) -> list[int]:
    """Return the processes of this user that have a setting in their environment."""
    if Path("/proc/self/environ").exists():
        return [pid for pid in _pids() if setting.encode() in _environment(pid)]
    listed = subprocess.run(
        ["/bin/ps", "-A", "-E", "-ww", "-o", "pid=,command="],
        capture_output=True,
        check=False,
    )
    lines = (line.split(None, 1) for line in listed.stdout.splitlines())
    return [int(pid) for pid, *rest in lines if rest and setting.encode() in rest[0]]


def _pids() -> list[int]:
    return [int(name) for name in _files.names(Path("/proc")) if name.isdigit()]


def _environment(pid: int) -> list[bytes]:
    # Nothing that is another user's can be read, and nothing of one that has ended.
    with suppress(OSError):
        descriptor = _files.open_read(f"/proc/{pid}/environ")
        try:
            return _files.read_at(descriptor, 1 << 20, 0).split(b"\0")
        finally:
            _files.close(descriptor)
    return []
