"""How a tool takes its arguments and words its answer: what all tools have in common.

A model's mistake (a missing argument, a file that is not there) is a value: inside a tool it is
raised as ``Refusal``, which ``FileTool.run`` turns into a failed answer and which never gets out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar

import msgspec

from holdfast.model.message import AnyPart, Text
from holdfast.runtime.providers.contract import ToolSpec
from holdfast.runtime.tools.contract import Call, Done, Effect

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
        """Do it; see ``Tool.run``."""
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
        raise Refusal(f"The arguments are not right: {error}.") from None


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
