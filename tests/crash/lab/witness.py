"""Promises leave a process through a pipe, outside the file system under test.

What was said there has been said, whatever becomes of the process. One JSON array a line; a line is
shorter than a pipe's atomic write, so that threads and processes may share the pipe.

    ["intends", actor, number, op, facts]    a call begins
    ["promised", actor, number, facts]       it has returned: the store has promised this
    ["refused", actor, number, why]          it has raised one of Holdfast's own errors
    ["written", actor, label, pieces]        so many pieces of a stream are in the live file
    ["ran", actor, call]                     a command runs, in another process than its wrapper's
    ["fell", actor, trace]                   anything else was raised: a defect, whatever the fault
    ["done", actor]                          the scenario has come to its end
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

_LONGEST_LINE_BYTES = 4096  # PIPE_BUF on Linux


class Witness:
    """The writing end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def say(self, *words: Any) -> None:
        line = json.dumps(words).encode() + b"\n"
        assert len(line) <= _LONGEST_LINE_BYTES, line[:200]
        os.write(self._descriptor, line)


def heard(lines: Iterable[bytes]) -> Iterator[list[Any]]:
    """Yield what was said; a last line without its end was never said whole."""
    for line in lines:
        if line.endswith(b"\n"):
            yield json.loads(line)
