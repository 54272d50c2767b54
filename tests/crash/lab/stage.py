"""Plays the scenario in processes that may be killed, forked from one that has all imported.

A fresh interpreter takes a quarter of a second to import the store; a fork of one that has done so
takes a millisecond. The process that forks is started with whatever the layer needs (a preloaded
library, a mutant), and each child may be prepared by a function before it plays.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

from tests.crash import mutants
from tests.crash.lab.layer import Plan
from tests.crash.lab.witness import Witness

SCENARIO = "tests.crash.lab.scenario:run"
_ROOT = Path(__file__).resolve().parents[3]


class Play(Struct):
    """What was said on stage, and how it ended: an exit status, or minus the signal."""

    said: list[list[Any]]
    status: int


class Stage:
    """A process that forks players. Use it in a ``with`` block."""

    def __init__(self, plan: Plan, environment: dict[str, str] | None = None) -> None:
        self._heard, said = os.pipe()
        self._lines = os.fdopen(self._heard, "rb")
        command = [sys.executable, "-m", "tests.crash.lab.stage", str(said), plan.mutant or ""]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stderr=None if os.environ.get("HOLDFAST_CRASH_VERBOSE") else subprocess.DEVNULL,
            pass_fds=[said],
            cwd=_ROOT,
            env={**os.environ, **(environment or {})},
        )
        os.close(said)

    def play(
        self,
        home: Path,
        *,
        play: str = SCENARIO,
        options: dict[str, Any] | None = None,
        prepare: list[Any] | None = None,
        kill_after: float | None = None,
        strike: Callable[[], object] | None = None,
    ) -> Play:
        """Let a child play; with ``kill_after`` it is killed after so many seconds.

        ``play`` names a function (``module:name``) that gets the home, a witness and ``options``
        (``variant`` of the scenario); ``prepare`` a function and its arguments, called before.
        ``strike`` is called here when the time is over, just before the kill.
        """
        assert self._process.stdin is not None
        request = [str(home), play, options or {}, prepare]
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        kind, pid = self._hear()
        assert kind == "child", kind
        if kill_after is not None:
            _kill_after(pid, kill_after, strike)
        said: list[list[Any]] = []
        while (words := self._hear())[0] != "dead":
            said.append(words)
        return Play(said, words[1])

    def _hear(self) -> list[Any]:
        line = self._lines.readline()
        assert line, "the stage is gone"
        words: list[Any] = json.loads(line)
        return words

    def close(self) -> None:
        """End the stage."""
        self._process.kill()
        self._process.communicate()
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _kill_after(pid: int, seconds: float, strike: Callable[[], object] | None) -> None:
    handle = None
    with suppress(ProcessLookupError):  # it may have come to its end
        handle = os.pidfd_open(pid)  # a number may be given to another process, a handle may not
    try:
        time.sleep(seconds)
        if strike is not None:
            strike()
        if handle is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        if handle is not None:
            os.close(handle)


def length_seconds(stage: Stage, home: Path, variant: str) -> float:
    """Return how long the scenario takes from its first call to its end, on that disk."""
    lengths = []
    for _ in range(2):
        began = time.monotonic()
        stage.play(home, options={"variant": variant})
        lengths.append(time.monotonic() - began)
        shutil.rmtree(home)
    return min(lengths)  # the first play pays for reading what all later ones have in memory


def _named(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def _serve(witness: Witness) -> None:
    for line in sys.stdin:
        home, play, options, prepare = json.loads(line)
        function = _named(play)
        preparation = _named(prepare[0]) if prepare else None
        # The child does not run before its number is told, for it may kill itself at once.
        ready, go = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.read(ready, 1)
            if preparation is not None:
                preparation(*prepare[1:])
            function(Path(home), witness, **options)
            os._exit(0)
        witness.say("child", pid)
        os.write(go, b".")
        os.close(ready)
        os.close(go)
        _, status = os.waitpid(pid, 0)
        witness.say("dead", os.waitstatus_to_exitcode(status))


def main() -> None:
    """Serve one stage."""
    descriptor, mutant = sys.argv[1:]
    importlib.import_module(SCENARIO.partition(":")[0]).preload()
    if mutant:
        mutants.apply(mutant)
    _serve(Witness(int(descriptor)))


if __name__ == "__main__":
    main()
