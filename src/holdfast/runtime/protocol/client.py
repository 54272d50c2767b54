"""One connection of a client to a runner: requests with their replies, and the runner's events.

Events that are not taken stop the reading: the runner drops a client that is too slow, which then
has to attach again. Only while a reply is outstanding is everything read that comes before it.
``reconnect.py`` builds on this.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Generic

from msgspec import Struct

from holdfast.errors import HoldfastError, StorageError
from holdfast.model.ids import new_name
from holdfast.runtime.protocol.messages import (
    LONGEST_LINE_BYTES,
    PROTOCOL,
    REFRESHED,
    Attach,
    Detach,
    Greeting,
    Hello,
    R,
    RefusedReply,
    RequestFor,
    RunnerEvent,
    StatusOf,
    decode_envelope,
    decode_event,
    decode_reply,
    encode,
)
from holdfast.runtime.protocol.socket_path import is_foreign
from holdfast.version import __version__

HELLO_SECONDS = 5.0
"""A runner that has not answered a hello after so long is given up."""

PIECE_BYTES = 64 * 1024
_LOOK_AGAIN_SECONDS = 0.05
_LOCAL_PEERPID = 2  # macOS
_REPLY_SECONDS = 60.0
_LEAVING_SECONDS = 2.0
_MOST_UNTAKEN_BYTES = 1024 * 1024


class RunnerGone(StorageError):
    """There is no runner, or it is gone."""

    exit_code = 75


class RunnerSilent(StorageError):
    """The runner does not answer: its process is stopped, or hangs.

    Attributes:
        session: the runner's session, as its socket is named.
        pid: its process, if it is known.
    """

    exit_code = 75

    def __init__(self, session: str, pid: int | None) -> None:
        which = "" if pid is None else f" (process {pid})"
        number = "PID" if pid is None else pid
        super().__init__(
            f"The runner of session {session}{which} does not answer. If it is suspended, continue "
            f"it with: kill -CONT {number}. If it hangs, end it with: kill -9 {number}. "
            "Saved data is not lost."
        )
        self.session = session
        self.pid = pid


class Refused(HoldfastError):
    """The runner refused a request; the message is the runner's own sentence."""

    def __init__(self, message: str, kind: str, code: int) -> None:
        super().__init__(message)
        self.kind = kind
        self.exit_code = code  # of the error that the runner met


def new_request_id() -> str:
    """Return a new id for a request; send the same request again with the same id."""
    return f"{new_name()}{new_name()}"


def environment_for_runner(
    environment: Mapping[str, str], key_variable: str | None = None
) -> dict[str, str]:
    """Return the variables that a runner is sent; no other leaves this process."""
    from holdfast.runtime.providers.catalog import SECRET_VARIABLES  # noqa: PLC0415  slow

    wanted = REFRESHED | SECRET_VARIABLES | {key_variable}
    return {name: value for name, value in environment.items() if name in wanted and _plain(value)}


def _plain(value: str) -> bool:
    """Tell whether a value is valid UTF-8, as JSON requires."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


class Answer(Struct, Generic[R], frozen=True):
    """The reply to a request, and how many events of its connection came before it."""

    reply: R
    events_before: int


_ReplyLine = tuple[bytes, int]  # and how many events came before it


class Connection:
    """A connection to a runner; ``hello`` is the runner's first message.

    ``is_new`` tells that the runner was started for this client. ``taken`` counts the events that
    were taken.
    """

    def __init__(
        self, read: asyncio.StreamReader, write: asyncio.StreamWriter, session: str = ""
    ) -> None:
        self._read = read
        self._write = write
        self._session = session
        self._replies: dict[str, asyncio.Future[_ReplyLine]] = {}
        self._events: asyncio.Queue[tuple[RunnerEvent, int] | None] = asyncio.Queue()
        self._untaken_bytes = 0
        self.taken = 0
        self._room = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._attached = False
        self.hello = Greeting()
        self.is_new = False

    @property
    def skewed(self) -> bool:
        """Whether the runner speaks another protocol: it can only be followed and stopped."""
        return self.hello.protocol != PROTOCOL

    async def request(self, request: RequestFor[R]) -> R:
        """Send a request and return the reply; raises as ``ask``."""
        return (await self.ask(request)).reply

    async def ask(self, request: RequestFor[R]) -> Answer[R]:
        """Send a request; return the reply, and how many events came before it.

        Raises:
            Refused: it was not done; says why.
            RunnerGone: the runner hung up. The request can be sent again, with the same id.
            RunnerSilent: there was no reply in time.
        """
        if self.hung_up:
            raise RunnerGone("The runner closed the connection.")
        reply: asyncio.Future[_ReplyLine] = asyncio.get_running_loop().create_future()
        self._replies[request.id] = reply
        self._room.set()
        self._attached = self._attached or isinstance(request, Attach)
        seconds = HELLO_SECONDS if isinstance(request, Hello) else _REPLY_SECONDS
        try:
            async with asyncio.timeout(seconds):
                self._write.write(encode(request))
                await self._write.drain()
                line, events_before = await reply
        except TimeoutError:
            raise RunnerSilent(self._session, self._pid()) from None
        except OSError as error:
            raise RunnerGone(f"The runner does not answer: {error}.") from None
        finally:
            self._replies.pop(request.id, None)
            if not reply.cancel() and not reply.cancelled():
                reply.exception()  # the runner hung up while we sent; that is raised already
        try:
            answer = decode_reply(line, request)
        except ValueError as error:
            raise StorageError(
                f"The runner sent a reply that this version cannot read: {error}. "
                "Stop the runner with holdfast stop and try again."
            ) from None
        if not isinstance(answer, RefusedReply):
            return Answer(answer, events_before)
        if answer.kind == RunnerGone.__name__:
            raise RunnerGone(answer.error)
        raise Refused(answer.error, answer.kind, answer.exit_code)

    async def next_event(self) -> RunnerEvent | None:
        """Return the next event; ``None`` once the runner has hung up and all events are taken."""
        received = await self._events.get()
        if received is None:
            self._events.put_nowait(None)  # for the next call
            return None
        event, size_bytes = received
        self._untaken_bytes -= size_bytes
        self.taken += 1
        self._room.set()
        return event

    @property
    def hung_up(self) -> bool:
        """Whether the runner has hung up; events that came before may still be untaken."""
        return self._reading is None or self._reading.done()

    async def wait_hung_up(self) -> None:
        """Return when the runner has hung up."""
        if self._reading is not None:
            await asyncio.wait({self._reading})

    async def detach(self) -> None:
        """Detach, if attached: hanging up after that ends no turn, whatever is configured."""
        if self._attached:
            with suppress(HoldfastError, TimeoutError):  # an old runner, or one that is gone
                async with asyncio.timeout(_LEAVING_SECONDS):
                    await self.request(Detach(id=new_request_id()))

    async def close(self) -> None:
        """Hang up."""
        self._write.transport.abort()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        with suppress(OSError):
            await self._write.wait_closed()

    def start(self) -> None:
        """Start to read."""
        self._reading = asyncio.ensure_future(self._listen())

    async def _listen(self) -> None:
        try:
            async for line in lines(self._read):
                self._take(line)
                await self._let_be_taken()
        except (OSError, ValueError, RecursionError):
            pass  # gone, in the middle of a line perhaps
        finally:
            self._events.put_nowait(None)
            for reply in self._replies.values():
                if not reply.done():
                    reply.set_exception(ConnectionResetError("it closed the connection"))

    def _take(self, line: bytes) -> None:
        if (to := decode_envelope(line).to) is not None:
            self._reply(to, line)
        elif (event := decode_event(line)) is not None:
            self._events.put_nowait((event, len(line)))
            self._untaken_bytes += len(line)

    def _reply(self, to: str, line: bytes) -> None:
        """Pass on a reply; one without an id says why the runner hangs up, and goes to all."""
        received = line, self.taken + self._events.qsize()
        for name, waiting in self._replies.items():
            if to in (name, "") and not waiting.done():
                waiting.set_result(received)

    async def _let_be_taken(self) -> None:
        """Wait while too many events are untaken, unless a reply is outstanding."""
        while self._untaken_bytes > _MOST_UNTAKEN_BYTES and not self._replies:
            self._room.clear()
            await self._room.wait()

    def _pid(self) -> int | None:
        """Return the runner's process id, ``None`` if it is not known.

        The system's answer comes first: a runner in a container has another id inside of it.
        """
        return _peer_pid(self._write.get_extra_info("socket")) or self.hello.pid


async def state_of(path: Path, seconds: float) -> str:
    """Return the state of the runner at ``path``.

    Raises:
        TimeoutError: it does not answer in time.
        HoldfastError: there is no runner, or it refuses.
    """
    async with asyncio.timeout(seconds):
        connection = await connect(path, {})  # asking must not change the environment of commands
        try:
            return (await connection.request(StatusOf(id=new_request_id()))).status.state
        finally:
            await connection.close()


async def connect(
    path: Path, environment: Mapping[str, str] | None = None, key_variable: str | None = None
) -> Connection:
    """Connect to the runner that listens at ``path``.

    ``key_variable`` is a variable of the user's own that has a provider's key in it.

    Raises:
        RunnerGone: no runner does.
        RunnerSilent: it does not answer.
        StorageError: the process there belongs to another user; nothing was sent to it.
    """
    connected = await _connected_socket(path)
    if is_foreign(connected):
        connected.close()
        raise StorageError(f"The socket {path} belongs to a process of another user.")
    return await connect_over(connected, path.stem, environment, key_variable)


async def connect_over(
    connected: socket.socket,
    session: str,
    environment: Mapping[str, str] | None = None,
    key_variable: str | None = None,
) -> Connection:
    """Return a connection over a socket that is connected to a runner; raises as ``connect``."""
    read, write = await asyncio.open_unix_connection(sock=connected, limit=PIECE_BYTES)
    connection = Connection(read, write, session)
    try:
        connection.start()
        known = os.environ if environment is None else environment
        given = environment_for_runner(known, key_variable)
        connection.hello = await connection.request(
            Hello(id=new_request_id(), protocol=PROTOCOL, version=__version__, environment=given)
        )
    except BaseException:
        await connection.close()
        raise
    return connection


async def _connected_socket(path: Path) -> socket.socket:
    """Return a connected socket; wait while the runner's backlog is full.

    Raises:
        RunnerGone: no runner listens there.
        RunnerSilent: it accepts no connection.
    """
    deadline = time.monotonic() + HELLO_SECONDS
    connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connecting.setblocking(False)
    try:
        while True:
            try:
                connecting.connect(str(path))
                return connecting
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise RunnerSilent(path.stem, None) from None
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
    except OSError as error:
        connecting.close()
        raise RunnerGone(f"There is no runner at {path} ({error.strerror}).") from None
    except BaseException:
        connecting.close()
        raise


async def lines(read: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield whole lines.

    Read in pieces: ``StreamReader.readline`` would buffer two lines of the greatest length before
    it makes the other end wait.

    Raises:
        ValueError: a line is too long.
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


def _peer_pid(connection: socket.socket) -> int | None:
    """Return the process at the other end, ``None`` if the system does not say."""
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
