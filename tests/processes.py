"""Other processes, which is what locks and crashes are about."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

# Sessions that such a process opens stay open until its standard input ends.
_PREAMBLE = """
import os, sys
import holdfast
from holdfast import user, assistant
store = holdfast.open_store(sys.argv[1])

def ready(word="ready"):
    print(word, flush=True)
    sys.stdin.readline()
"""


class Process:
    """A running process that reads and prints lines."""

    def __init__(self, source: str, arguments: Iterable[object]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PREAMBLE + source, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def read(self) -> str:
        """Return the next line that it prints."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().removesuffix("\n")

    def write(self, line: str) -> None:
        """Let it read a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def tell(self, line: str) -> str:
        """Let it read a line; return what it prints then."""
        self.write(line)
        return self.read()

    def kill(self) -> None:
        """Kill it with signal 9 and wait for its end."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Kill it and let go of its pipes."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@contextmanager
def running(source: str, *arguments: object) -> Iterator[Process]:
    """Run ``source`` in a process of its own; it has called ``ready`` when the block begins."""
    process = Process(source, arguments)
    try:
        first = process.read()
        assert first == "ready", f"the process said {first!r}"
        yield process
    finally:
        process.close()


def run(source: str, *arguments: object) -> str:
    """Run ``source`` to its end and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", _PREAMBLE + source, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
