"""What the loop asks of a tool, and what it gets back.

The order is the loop's: approval, then intent durable, then ``run``, then the result durable. A
tool only does its work: it never touches the session. What it shows while it runs goes through
``Call.show``, which the loop writes to the live file before anybody sees it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from holdfast.model.message import AnyPart, FileChange
from holdfast.runtime.providers.contract import ToolSpec

Effect = Literal["reads", "writes", "unknown"]
"""``reads`` may be run again after a crash; ``writes`` changes files of the workspace only, and
keeps what was there before; ``unknown`` may do anything."""


class Call(Struct, frozen=True):
    """One call of a tool.

    ``workspace`` is the folder that file tools cannot leave (``allowed`` lists others that they
    may use). ``spool`` is a folder in the session's own that outlives the process; a command's
    wrapper leaves its output and status there. ``show`` takes output as it comes. ``keep`` stores
    what a file was before it is changed and returns the name of the blob.
    """

    id: str
    arguments: dict[str, Any]
    workspace: Path
    spool: Path
    show: Callable[[str], None]
    keep: Callable[[bytes], str]
    allowed: tuple[Path, ...] = ()


class Done(Struct, frozen=True):
    """What a call came to; ``outcome`` is completed, failed or cancelled.

    A command whose wrapper was killed is ``unknown``; one that recovery finds may be ``never_ran``.
    """

    content: list[AnyPart]
    outcome: str = "completed"
    changes: list[FileChange] = field(default_factory=list)


class Tool(Protocol):
    """Something a model may call."""

    spec: ToolSpec
    effect: Effect

    async def run(self, call: Call) -> Done:
        """Do it.

        What a model got wrong (no such file, no match) is ``failed`` with a sentence that helps,
        never an exception. Cancelling the task cancels the work: TERM to the process group, KILL
        after five seconds, outcome ``cancelled``.
        """
        ...

    def subject(self, arguments: dict[str, Any]) -> str:
        """Return what an approval is about, as a person reads it: the command, the path."""
        ...
