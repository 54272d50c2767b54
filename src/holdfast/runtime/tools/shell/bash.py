"""The bash tool: a command of the shell that outlives whoever asked for it.

The command runs under ``wrapper`` and writes to a file; this module starts it, hands its output on
as it comes, and words the answer. ``attach`` waits for a command that an agent which died left
running; ``answer`` words what ``spool.recover`` found.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from holdfast.model.message import Text
from holdfast.runtime.config.secret_variables import PROVIDER_KEYS, without_secrets
from holdfast.runtime.providers.base import ToolSpec
from holdfast.runtime.tools.base import (
    Arguments,
    Call,
    Done,
    Effect,
    Refusal,
    checked,
    failed,
    os_sentence,
    schema,
    settled,
)
from holdfast.runtime.tools.shell import wrapper
from holdfast.runtime.tools.shell.output import shown, size_of
from holdfast.runtime.tools.shell.process import Child, Ended, Orphan, follow
from holdfast.runtime.tools.shell.spool import CommandStatus, Recovered, folder_of, prepare, recover
from holdfast.runtime.tools.subprocess_source import Standalone
from holdfast.store.programs import find_program, path_outside

TIMEOUT_SECONDS = 120.0
LONGEST_TIMEOUT_SECONDS = 3600.0
GRACE_SECONDS = 5.0
LARGEST_OUTPUT_BYTES = 64 * 1024 * 1024
_WRAPPER = Standalone(wrapper)
# What a command gets that was judged by its words: nothing that makes the shell or the loader run
# something else (BASH_ENV, exported functions, LD_PRELOAD).
_JUDGED_WITH = re.compile("HOME|USER|LOGNAME|LANG|LANGUAGE|LC_[A-Z]+|TERM|TMPDIR|TZ|LS_COLORS")
_LONGEST_COMMAND_BYTES = 128 * 1024 - 1  # what Linux takes as one argument


class BashArguments(Arguments, frozen=True):
    """A command of the shell."""

    command: str
    timeout: Annotated[float, Meta(gt=0, le=LONGEST_TIMEOUT_SECONDS)] | None = None


class Bash:
    """Runs commands. ``hidden`` names variables that are taken out of their environment."""

    effect: Effect = "unknown"
    spec = ToolSpec(
        name="bash",
        description=(
            "Run a command with bash in the workspace folder, without standard input. Both output "
            "streams are returned together, of long output its beginning and its end. It is "
            f"stopped after {TIMEOUT_SECONDS:.0f} seconds unless timeout says otherwise. A process "
            "that is to go on afterwards is started with & and its output sent to a file."
        ),
        parameters=schema(
            ("command",),
            command={"type": "string"},
            timeout={
                "type": "number",
                "description": f"Seconds, at most {LONGEST_TIMEOUT_SECONDS:.0f}.",
            },
        ),
    )

    def __init__(
        self,
        *,
        hidden: Iterable[str] = PROVIDER_KEYS,
        timeout_seconds: float = TIMEOUT_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
        largest_output_bytes: int = LARGEST_OUTPUT_BYTES,
    ) -> None:
        self._hidden = frozenset(hidden)
        self._timeout = timeout_seconds
        self._grace = grace_seconds
        self._largest = largest_output_bytes

    def subject(self, arguments: dict[str, Any]) -> str:
        """Return the command."""
        return str(arguments.get("command", ""))

    async def run(self, call: Call) -> Done:
        """Run it to its end; see ``Tool.run``."""
        try:
            arguments = checked(call.arguments, BashArguments)
            _check(arguments.command)
            await asyncio.to_thread(prepare, call.spool, call.id)
            timeout = arguments.timeout or self._timeout
            running, cancelled = await self._started(call, arguments.command, timeout)
        except Refusal as refusal:
            return failed(str(refusal))
        except OSError as error:
            return failed(f"The command could not be started: {os_sentence(error)}")
        except asyncio.CancelledError:
            return _NOT_STARTED
        folder = folder_of(call.spool, call.id)
        ended = await follow(running, folder, call.show, self._grace, cancelled=cancelled)
        if ended.status is None:
            found = await settled(recover, call.spool, call.id)
            if found.state == "never_ran" and ended.cancelled:
                return _NOT_STARTED  # a wrapper that is told to end before it listens just ends
            if found.state == "never_ran":
                return failed("The command could not be started: its wrapper ended before it.")
        return await settled(_worded, folder, ended, call.keep, timeout)

    async def _started(self, call: Call, command: str, seconds: float) -> tuple[Child, bool]:
        """Start a command; tell also whether the task was cancelled just then."""
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        # Not to be interrupted: a process that nobody knows of would go on.
        process = await settled(self._start, call, command, seconds)
        return Child(process, call.spool, call.id), task.cancelling() > before

    def _start(self, call: Call, command: str, timeout: float) -> subprocess.Popen[bytes]:
        avoid = (call.workspace, *call.allowed)
        shell = find_program("bash", avoid) or find_program("sh", avoid)
        if shell is None:
            raise Refusal("There is neither bash nor sh on PATH outside the workspace.")
        numbers = (str(timeout), str(self._grace), str(self._largest))
        folder = str(folder_of(call.spool, call.id).absolute())
        process = subprocess.Popen(  # noqa: S603  the command has been approved
            _WRAPPER.command(folder, *numbers, shell, command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=call.workspace,
            env=self._environment(call),
            start_new_session=True,
        )
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin as pipe:  # killed already: that will show
            pipe.write(_WRAPPER.source)
        process.stdin = None  # communicate would flush it
        return process

    def _environment(self, call: Call) -> dict[str, str]:
        own = without_secrets(os.environ)
        if call.only_looks:
            kept = {name: own[name] for name in own if _JUDGED_WITH.fullmatch(name)}
            return kept | {"PATH": path_outside((call.workspace, *call.allowed))}
        return {name: value for name, value in own.items() if name not in self._hidden}


async def attach(
    spool: Path,
    call_id: str,
    show: Callable[[str], None],
    keep: Callable[[bytes], str],
    *,
    grace_seconds: float = GRACE_SECONDS,
) -> Done:
    """Wait for a command that still runs, showing its output from the beginning.

    Cancelling the task ends the command, as it does for one that was just started.
    """
    folder = folder_of(spool, call_id)
    ended = await follow(Orphan(spool, call_id), folder, show, grace_seconds)
    return await settled(_worded, folder, ended, keep, None)


def answer(recovered: Recovered, keep: Callable[[bytes], str]) -> Done:
    """Word what was found in the spool; blocks. ``outcome`` may be never_ran or unknown too."""
    if recovered.state == "never_ran":
        return Done(content=[Text(text="[the command was never started]")], outcome="never_ran")
    if recovered.status is not None:
        ended = Ended(recovered.status, recovered.status.size_bytes, cancelled=False)
        return _worded(recovered.output.parent, ended, keep, None)
    text = shown(recovered.output, size_of(recovered.output), keep)
    note = _GONE
    if recovered.state == "running":
        note = f"is still running as process {recovered.processes[-1].pid}"
    return Done(content=[Text(text=_joined(text, f"the command {note}"))], outcome="unknown")


_NOT_STARTED = Done(content=[Text(text="[cancelled before it was started]")], outcome="cancelled")
_GONE = "is gone and left no status: it may have done all, some or none of its work"


def _check(command: str) -> None:
    try:
        size = len(os.fsencode(command))
    except UnicodeEncodeError:
        size = 0
    if not command.strip() or not size or "\0" in command:
        raise Refusal("There is no command, or it has characters that no command can have.")
    if size > _LONGEST_COMMAND_BYTES:
        raise Refusal(f"The command has {size:,} bytes; write it to a file and run that.")


def _worded(
    folder: Path, ended: Ended, keep: Callable[[bytes], str], timeout: float | None
) -> Done:
    text = shown(folder / wrapper.OUTPUT, ended.size_bytes, keep)
    note, outcome = _ending(ended.status, timeout)
    if ended.cancelled and outcome != "completed":
        note, outcome = "cancelled", "cancelled"
    if ended.status is not None and size_of(folder / wrapper.OUTPUT) < ended.size_bytes:
        note = f"{note}; a part of its output is lost".removeprefix("; ")
    return Done(content=[Text(text=_joined(text, note))], outcome=outcome)


def _ending(status: CommandStatus | None, timeout: float | None) -> tuple[str, str]:
    """Return a note on how a command ended, and the outcome."""
    if status is None:
        return f"the command {_GONE}", "unknown"
    if status.ended_by == "cancelled":
        return "cancelled", "cancelled"
    if status.ended_by == "timeout":
        after = "" if timeout is None else f" after {timeout:g} seconds"
        return f"stopped: it did not end in time{after}", "failed"
    if status.ended_by == "output":
        return "stopped: it printed too much; send output to a file", "failed"
    if status.exit < 0:
        return f"killed by signal {-status.exit}", "failed"
    return ("", "completed") if status.exit == 0 else (f"exit status {status.exit}", "failed")


def _joined(text: str, note: str) -> str:
    if not note:
        return text or "[no output]"
    line_end = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{line_end}[{note}]"
