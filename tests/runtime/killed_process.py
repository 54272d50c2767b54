"""A process that is killed at one of its operations.

An operation has a name: what it does to which file, and how many times this was done before. Two
runs of the same turn do not do everything in the same order, but they do the same things.
"""

from __future__ import annotations

import functools
import os
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.files import Files
from holdfast.runtime.tools import file_change as change
from holdfast.runtime.tools.shell import spool
from holdfast.runtime.tools.shell.bash import Bash
from holdfast.runtime.tools.workspace import Workspace
from tests.disk import FakeUnsyncedFiles

COMMAND, CHANGE = "start of a command", "change of a file"
_OPERATIONS = (
    "open_append",
    "open_lock",
    "write",
    "write_at",
    "truncate",
    "reserve",
    "sync",
    "make_folder",
    "rename",
    "link",
    "unlink",
    "remove_folder",
    "touch",
)
_SLOW_SECONDS = 0.3
# What is different in every run: names of sessions, of temporary files and folders; signatures.
_CHANCE = re.compile(
    r"\d{8}-\d{6}-\w{8}|(?<=^\.)\w{8}$|(?<=\.)\w{8}$|(?<=^\.new-)\w+|(?<=-)[0-9a-f]{16}$"
)


class Fate:
    """Kills this process with signal 9 at one operation, before it or after it.

    ``say`` hears of every operation, before it.
    """

    def __init__(self, at: str, *, after: bool, say: Callable[[str], None]) -> None:
        self._at = at
        self._after = after
        self._say = say
        self._counts: Counter[str] = Counter()
        self._mutex = threading.RLock()  # one operation may be made of others

    def strikes(self, what: str) -> bool:
        """Tell whether the next operation of this kind is the one."""
        return f"{what} {self._counts[what] + 1}" == self._at

    def meet(self, what: str, operation: Callable[[], Any]) -> Any:
        """Do an operation, if there is no other fate."""
        with self._mutex:
            chosen = self.strikes(what)
            self._counts[what] += 1
            self._say(f"operation {what} {self._counts[what]}")
            if chosen and not self._after:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return operation()
            finally:
                if chosen:
                    os.kill(os.getpid(), signal.SIGKILL)


class FakeMortalFiles(FakeUnsyncedFiles):
    """Every operation that writes is one at which its process may be killed.

    Nothing is synced: what a process has written survives it without that.
    """

    def __init__(self, fate: Fate, root: Path) -> None:
        self._fate = fate
        self._root = root

    def sync_folder(self, folder: Path) -> None:
        if folder.is_relative_to(self._root):  # those above it are somebody else's
            self._operation("sync_folder", folder)

    def _operation(self, method: str, *args: Any, **kwargs: Any) -> Any:
        real = functools.partial(getattr(FakeUnsyncedFiles, method), self, *args, **kwargs)
        return self._fate.meet(f"{method} {_name(args[0])}", real)


def _name(target: Any) -> str:
    path = os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else str(target)
    return _CHANCE.sub("*", path.rpartition("/")[2])


for _method in _OPERATIONS:
    setattr(
        FakeMortalFiles,
        _method,
        functools.partialmethod(FakeMortalFiles._operation, _method),
    )


def make_mortal(fate: Fate, root: Path) -> Files:
    """Let the tools meet their fate too: in the spool, and where they take effect."""
    files = FakeMortalFiles(fate, root)
    interpreter = slow_interpreter(root)
    for module in (spool, change):
        module._files = files  # type: ignore[attr-defined]
    started, replaced = Bash._start, Workspace.replace_file

    def start(*args: Any) -> Any:
        if fate.strikes(COMMAND):  # then the next process comes before the wrapper has woken up
            sys.executable = str(interpreter)
        return fate.meet(COMMAND, lambda: started(*args))

    def replace(*args: Any) -> Any:
        return fate.meet(CHANGE, lambda: replaced(*args))

    for owner, name, method in ((Bash, "_start", start), (Workspace, "replace_file", replace)):
        setattr(owner, name, method)
    return files


def slow_interpreter(folder: Path) -> Path:
    """Make a Python that takes its time to start."""
    path = folder / "python"
    path.write_text(f'#!/bin/sh\nsleep {_SLOW_SECONDS}\nexec {sys.executable} "$@"\n')
    path.chmod(0o700)
    return path
