"""What commands leave behind in the session's folder, and what it says after a crash.

``wrapper`` writes it. This module prepares a call's folder, reads it, and ends a command that
still runs. Everything here blocks: call it in a thread.
"""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Literal

import msgspec

from holdfast.files import Files
from holdfast.model.ids import new_name
from holdfast.runtime.tools.shell import wrapper

_files = Files()
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LARGEST_BYTES = 64 * 1024
_NOBODY = b"[]\n"
_FORGOTTEN = "."  # no call's folder begins with it


class Process(msgspec.Struct, frozen=True):
    """A process, known by more than its number: numbers are used again."""

    pid: int
    start: str

    @property
    def runs(self) -> bool:
        """Whether it is still there."""
        return wrapper.start_of(self.pid) == self.start


class CommandStatus(msgspec.Struct, frozen=True):
    """How a command ended.

    ``exit`` is its exit status, negative for the signal that killed it. ``ended_by`` says why it
    was told to end: cancelled, timeout, output (too much of it). ``size_bytes`` is the size of the
    output then; a process that was left in the background may add to it.
    """

    exit: int
    ended_by: Literal["cancelled", "timeout", "output"] | None
    size_bytes: int


class Recovered(msgspec.Struct, frozen=True):
    """What is known of a command whose agent died.

    ``completed``: it ended, ``status`` says how. ``running``: it still does. ``vanished``: it was
    started and is gone without a status, so nobody knows what it did. ``never_ran``: it was not
    started, and will not be.
    """

    state: Literal["completed", "running", "vanished", "never_ran"]
    output: Path
    status: CommandStatus | None = None
    processes: tuple[Process, ...] = ()
    """The wrapper and the command."""


_STATUSES = msgspec.json.Decoder(CommandStatus)
_PROCESSES = msgspec.json.Decoder(tuple[Process, ...])


def folder_of(spool: Path, call_id: str) -> Path:
    """Return the folder of a call: named after its id, or the id's hash if that is no plain name.

    A provider may use an id again: give each round a spool of its own.
    """
    plain = _PLAIN_NAME.fullmatch(call_id) is not None
    return spool / (call_id if plain else f"id-{sha256(_bytes(call_id)).hexdigest()}")


def read_small_file(path: Path) -> bytes:
    """Return what one of our own small files has; nothing if it is larger than any of them.

    Raises:
        OSError: it cannot be read, or is not a regular file.
    """
    return _files.read_small(path, _LARGEST_BYTES) or b""


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def prepare(spool: Path, call_id: str) -> Path:
    """Return a call's folder, made and empty."""
    folder = folder_of(spool, call_id)
    forget(spool, call_id)
    _files.make_folders(folder)
    return folder


def forget(spool: Path, call_id: str) -> None:
    """Remove what a call left, once its result is durable. A running command goes on.

    The folder goes at once: a wrapper that is about to start must not find it without ``pid``.
    """
    forget_folder(folder_of(spool, call_id))


def forget_folder(folder: Path) -> None:
    """Remove what the call that a folder belongs to left; see ``forget``."""
    forgotten = folder.with_name(f"{_FORGOTTEN}{new_name()}")
    with suppress(FileNotFoundError):
        _files.rename(folder, forgotten)
        _remove(forgotten)


def clear(spool: Path) -> None:
    """Remove a spool of which every call was forgotten; another is left as it is."""
    for name in _files.names(spool):
        if name.startswith(_FORGOTTEN):  # by a process that died over it
            _remove(spool / name)
    with suppress(OSError):
        _files.remove_folder(spool)


def _remove(folder: Path) -> None:
    for name in _files.names(folder):
        _files.unlink(folder / name)
    with suppress(OSError):
        _files.remove_folder(folder)


def recover(spool: Path, call_id: str, *, claim: bool = True) -> Recovered:
    """Tell what became of a command.

    A wrapper may be about to start at this moment, its parent just killed. With ``claim`` it is
    kept from it, so that ``never_ran`` stays true; without (a reader changes nothing) such a
    command is reported as never run all the same.
    """
    return recover_folder(folder_of(spool, call_id), claim=claim)


def recover_folder(folder: Path, *, claim: bool = True) -> Recovered:
    """Tell what became of the command that a folder belongs to; see ``recover``."""
    output = folder / wrapper.OUTPUT
    processes = _processes(folder)
    if processes is None and claim:
        processes = _claimed(folder)
    if not processes:
        return Recovered("never_ran", output)
    # Whether it runs is asked first: one that ends in between has left its status by then.
    runs = any(process.runs for process in processes)
    status = status_in(folder)
    if status is not None:
        return Recovered("completed", output, status, processes)
    return Recovered("running" if runs else "vanished", output, None, processes)


def status_in(folder: Path) -> CommandStatus | None:
    """Return the status that a command left, ``None`` if there is none that can be read."""
    try:
        return decode_status(read_small_file(folder / wrapper.STATUS))
    except OSError:
        return None


def decode_status(data: bytes) -> CommandStatus | None:
    """Return a status from its bytes, ``None`` if it is none."""
    try:
        return _STATUSES.decode(data)
    except msgspec.MsgspecError:
        return None


def _processes(folder: Path) -> tuple[Process, ...] | None:
    """Return wrapper and command; nothing if the start was forbidden; ``None``: no file."""
    try:
        return _PROCESSES.decode(read_small_file(folder / wrapper.PID))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.MsgspecError):
        return (Process(0, "unreadable"),)


def _claimed(folder: Path) -> tuple[Process, ...] | None:
    """Forbid a wrapper to start; return who runs if it was faster."""
    _files.make_folders(folder)
    try:
        wrapper.claim(str(folder), _NOBODY)
    except FileExistsError:
        return _processes(folder)
    return ()


def end(recovered: Recovered, *, kill: bool = False) -> None:
    """Tell a running command to end; with ``kill`` there is no asking.

    The wrapper does the killing if it is there. If it is not, the group of the command gets the
    signal directly.
    """
    wrapping, command = recovered.processes
    with suppress(OSError):
        if wrapping.runs and not kill:
            os.kill(wrapping.pid, signal.SIGTERM)
        elif command.runs:
            os.killpg(command.pid, signal.SIGKILL if kill else signal.SIGTERM)
