"""What the loop asks of a tool, and what it gets back.

The order is the loop's: approval, then intent durable, then ``run``, then the result durable. A
tool only does its work: it never touches the session. What it shows while it runs goes through
``Call.show``, which the loop writes to the live file before anybody sees it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, ParamSpec, Protocol, TypeVar

import msgspec
from msgspec import Struct, field

from holdfast.model.message import AnyPart, FileChange, Text
from holdfast.runtime.providers.base import ToolSpec

Effect = Literal["reads", "writes", "unknown"]
"""``reads`` may be run again after a crash; ``writes`` changes files of the workspace only, and
keeps what was there before; ``unknown`` may do anything."""


class Call(Struct, frozen=True):
    """One call of a tool.

    ``workspace`` is the folder that file tools cannot leave (``allowed`` lists others that they
    may use). ``spool`` is a folder in the session's own that outlives the process; a command's
    wrapper leaves its output and status there. ``show`` takes output as it comes. ``keep`` stores
    what a file was before it is changed and returns the name of the blob.

    ``only_looks``: the command needs no approval, because of what its words say. ``autorun``: a
    person was told that other programs run this file by themselves, and approved the change.
    """

    id: str
    arguments: dict[str, Any]
    workspace: Path
    spool: Path
    show: Callable[[str], None]
    keep: Callable[[bytes], str]
    allowed: tuple[Path, ...] = ()
    only_looks: bool = False
    autorun: bool = False


class Done(Struct, frozen=True):
    """What a call came to; ``outcome`` is completed, failed or cancelled.

    A command whose wrapper was killed is ``unknown``; one that recovery finds may be ``never_ran``.
    """

    content: list[AnyPart]
    outcome: str = "completed"
    changes: list[FileChange] = field(default_factory=list)


class AgentTool(Protocol):
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


P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A", bound="Arguments")


class Refusal(Exception):
    """Why a tool does not do what it was asked to; the message is a sentence for the model."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of a tool's arguments.

    One that the tool does not know is refused, or a model would believe that it had an effect.
    """


class FileTool(Generic[A]):
    """Base of the tools that work inside this process."""

    spec: ToolSpec
    effect: Effect
    arguments: type[A]
    about: ClassVar[str] = "path"
    """The argument that an approval is about."""

    async def run(self, call: Call) -> Done:
        """Do it; see ``AgentTool.run``."""
        try:
            return await self.work(call, checked(call.arguments, self.arguments))
        except Refusal as refusal:
            return failed(str(refusal))
        except OSError as error:
            return failed(os_sentence(error))
        except asyncio.CancelledError:
            return Done(content=[Text(text="Cancelled before it was done.")], outcome="cancelled")

    async def work(self, call: Call, arguments: A) -> Done:
        """Do it with arguments that are known to be of the right types."""
        raise NotImplementedError

    def subject(self, arguments: dict[str, Any]) -> str:
        """Return what an approval is about."""
        return str(arguments.get(self.about) or ".")


def checked(arguments: dict[str, Any], wanted: type[A]) -> A:
    """Return the arguments as a struct; numbers and booleans may be given as text."""
    try:
        return msgspec.convert(arguments, wanted, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal(f"The arguments are not valid: {error}.") from None


def schema(required: tuple[str, ...], **properties: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def done(text: str, *parts: AnyPart) -> Done:
    """Answer with text, and other parts behind it."""
    return Done(content=[Text(text=text), *parts])


def failed(text: str) -> Done:
    """Answer that it did not work, and why."""
    return Done(content=[Text(text=text)], outcome="failed")


def os_sentence(error: OSError) -> str:
    """Say what the operating system said."""
    reason = error.strerror or type(error).__name__
    return f"{reason}: {error.filename}" if error.filename else f"{reason}."


async def settled(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function in a thread to its end, even if the task is cancelled meanwhile.

    A thread cannot be stopped. What it changes is changed, so the truth is its result and not that
    it was cancelled.
    """
    work = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    while not work.done():
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            continue
        except Exception:  # noqa: BLE001  raised below, where the result is taken
            break
    return work.result()


def counted(number: int, word: str) -> str:
    """Return a number with its noun, in the plural where it is one."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
