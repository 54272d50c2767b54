"""The line to a runner: connected, taken apart into lines, and who is at the other end."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.runtime.control.protocol import LONGEST_LINE_BYTES

HELLO_SECONDS = 5.0
"""After so long without a word a runner is given up."""

PIECE_BYTES = 64 * 1024
_LOOK_AGAIN_SECONDS = 0.05
_LOCAL_PEERPID = 2  # macOS


class RunnerGone(StorageError):
    """The runner is not there any more, or never was."""

    exit_code = 75


class RunnerSilent(StorageError):
    """The runner is there and does not answer: it is stopped, or hangs.

    Attributes:
        session: whose runner, as far as its socket's name tells.
        pid: its process, if the system tells.
    """

    exit_code = 75

    def __init__(self, session: str, pid: int | None) -> None:
        which = "" if pid is None else f", process {pid},"
        number = "its process" if pid is None else pid
        super().__init__(
            f"Session {session} has a runner{which} that does not answer: if it is stopped, "
            f"kill -CONT {number} lets it go on; if it hangs, kill -9 {number} ends it, and "
            "everything that was saved stays."
        )
        self.session = session
        self.pid = pid


async def linked(path: Path) -> socket.socket:
    """Return a socket that is connected; where many wait to be, it waits with them.

    Raises:
        RunnerGone: nobody listens there.
        RunnerSilent: somebody does, and takes nobody.
    """
    deadline = time.monotonic() + HELLO_SECONDS
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.setblocking(False)
    try:
        while True:
            try:
                link.connect(str(path))
                return link
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise RunnerSilent(path.stem, None) from None
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
    except OSError as error:
        link.close()
        raise RunnerGone(f"There is no runner at {path} ({error.strerror}).") from None
    except BaseException:
        link.close()
        raise


async def lines(read: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield whole lines.

    In pieces: a reader that is to find line ends itself would take in two lines of the greatest
    length before it lets the other end wait.

    Raises:
        ValueError: one is too long.
    """
    parts: list[bytes] = []
    size = 0
    while piece := await read.read(PIECE_BYTES):
        *ended, rest = piece.split(b"\n")
        for each in ended:
            yield b"".join((*parts, each, b"\n"))
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > LONGEST_LINE_BYTES:
            raise ValueError("a line is too long")


def peer_pid(connection: socket.socket) -> int | None:
    """Return the process at the other end, ``None`` if the system does not tell."""
    try:
        if hasattr(socket, "SO_PEERCRED"):
            size = struct.calcsize("3i")
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
            return int(struct.unpack("3i", credentials)[0]) or None
        if sys.platform == "darwin":
            return connection.getsockopt(0, _LOCAL_PEERPID)
    except OSError:
        return None
    return None
