"""A client's end of the socket: requests and their replies, and everything else as it comes.

What is not taken is not read: a client that is held up leaves it to the runner to drop it, and
comes back with the last number it has. Only while a reply is waited for is everything read that
comes before it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError, StorageError
from holdfast.model.ids import new_name
from holdfast.runtime.control import link
from holdfast.runtime.control.address import is_foreign
from holdfast.runtime.control.link import (
    PIECE_BYTES,
    RunnerGone,
    RunnerSilent,
    lines,
    linked,
    peer_pid,
)
from holdfast.runtime.control.protocol import (
    PROTOCOL,
    REFRESHED,
    Attach,
    Detach,
    Hello,
    Request,
    StatusOf,
    encode,
    journal_line,
)
from holdfast.version import __version__

__all__ = [
    "Connection",
    "Refused",
    "RunnerGone",
    "RunnerSilent",
    "connect",
    "environment_for_runner",
    "new_request_id",
    "state_of",
]

_REPLY_SECONDS = 60.0
_LEAVING_SECONDS = 2.0
_MOST_UNTAKEN_BYTES = 1024 * 1024


class Refused(HoldfastError):
    """The runner did not do what it was asked; the message is its own sentence."""

    def __init__(self, message: str, kind: str, code: int) -> None:
        super().__init__(message)
        self.kind = kind
        self.exit_code = code  # that of the error it stands for


def new_request_id() -> str:
    """Return an id for a request; the same request sent again has the same."""
    return f"{new_name()}{new_name()}"


def environment_for_runner(
    environment: Mapping[str, str], key_variable: str | None = None
) -> dict[str, str]:
    """Return the variables that a runner is given anew; nothing else leaves this process."""
    from holdfast.runtime.providers.catalog import SECRET_VARIABLES  # noqa: PLC0415  slow

    wanted = REFRESHED | SECRET_VARIABLES | {key_variable}
    return {name: value for name, value in environment.items() if name in wanted and _plain(value)}


def _plain(value: str) -> bool:
    """Tell whether a value is text: bytes of another encoding have no place in JSON."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


class Connection:
    """A connection to a runner; ``hello`` holds what it said of itself.

    ``is_new`` tells that this client has had it started. ``taken`` counts the events that were
    taken; each reply has, as ``events_before``, how many had come when it came.
    """

    def __init__(
        self, read: asyncio.StreamReader, write: asyncio.StreamWriter, session: str = ""
    ) -> None:
        self._read = read
        self._write = write
        self._session = session
        self._replies: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._events: asyncio.Queue[tuple[dict[str, Any], int] | None] = asyncio.Queue()
        self._untaken_bytes = 0
        self.taken = 0
        self._room = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._attached = False
        self.hello: dict[str, Any] = {}
        self.is_new = False

    @property
    def skewed(self) -> bool:
        """Whether the runner is of another version: then it is only followed and ended."""
        return bool(self.hello.get("protocol") != PROTOCOL)

    async def request(self, request: Request) -> dict[str, Any]:
        """Send a request and return the reply.

        Raises:
            Refused: it was not done; says why.
            RunnerGone: it hung up. With the same id it can be sent again to the next.
            RunnerSilent: there was no reply for a long time.
        """
        if self._reading is None or self._reading.done():
            raise RunnerGone("The runner has hung up.")
        reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._replies[request.id] = reply
        self._room.set()
        self._attached = self._attached or isinstance(request, Attach)
        seconds = link.HELLO_SECONDS if isinstance(request, Hello) else _REPLY_SECONDS
        try:
            async with asyncio.timeout(seconds):
                self._write.write(encode(request))
                await self._write.drain()
                answer = await reply
        except TimeoutError:
            raise RunnerSilent(self._session, self._pid()) from None
        except OSError as error:
            raise RunnerGone(f"The runner does not answer: {error}.") from None
        finally:
            self._replies.pop(request.id, None)
            if not reply.cancel() and not reply.cancelled():
                reply.exception()  # it hung up before everything was sent: that is told already
        if not answer.get("ok", True):
            told, kind = str(answer.get("error")), str(answer.get("kind"))
            if kind == RunnerGone.__name__:
                raise RunnerGone(told)
            raise Refused(told, kind, int(answer.get("exit_code", 1)))
        return answer

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield everything that is not a reply; ends when the connection does."""
        while (taken := await self._events.get()) is not None:
            event, size = taken
            self._untaken_bytes -= size
            self.taken += 1
            self._room.set()
            yield event

    async def detach(self) -> None:
        """Leave on purpose, if attached: where a hang-up ends turns, what follows is none."""
        if self._attached:
            with suppress(HoldfastError, TimeoutError):  # one that does not know it, or is gone
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
        """Begin to read."""
        self._reading = asyncio.ensure_future(self._listen())

    async def _listen(self) -> None:
        try:
            async for line in lines(self._read):
                self._take(json.loads(line), line)
                await self._let_be_taken()
        except (OSError, ValueError):
            pass  # gone, in the middle of a line perhaps
        finally:
            self._events.put_nowait(None)
            for reply in self._replies.values():
                if not reply.done():
                    reply.set_exception(ConnectionResetError("it hung up"))

    def _take(self, message: dict[str, Any], line: bytes) -> None:
        if message["type"] == "entry":
            message["line"] = journal_line(line)
        if "to" in message:
            self._reply(message)
        else:
            self._events.put_nowait((message, len(line)))
            self._untaken_bytes += len(line)

    def _reply(self, message: dict[str, Any]) -> None:
        """Hand a reply on; one to nobody is why the runner hangs up, and concerns all who wait."""
        message["events_before"] = self.taken + self._events.qsize()
        for name, waiting in self._replies.items():
            if message["to"] in (name, "") and not waiting.done():
                waiting.set_result(message)

    async def _let_be_taken(self) -> None:
        """Read no more while much is not taken; whoever waits for a reply takes nothing."""
        while self._untaken_bytes > _MOST_UNTAKEN_BYTES and not self._replies:
            self._room.clear()
            await self._room.wait()

    def _pid(self) -> int | None:
        """Return the process at the other end, ``None`` if nobody tells.

        In a container of its own it knows itself by another number than the system does here.
        """
        return peer_pid(self._write.get_extra_info("socket")) or self.hello.get("pid")


async def state_of(path: Path, seconds: float) -> str | None:
    """Ask the runner that listens at ``path`` how it stands; ``None`` if it says nothing known.

    Raises:
        TimeoutError: it does not answer in time.
        HoldfastError: there is none, or it refuses.
    """
    async with asyncio.timeout(seconds):
        connection = await connect(path, {})  # who only asks changes nothing for commands
        try:
            answer = await connection.request(StatusOf(id=new_request_id()))
        finally:
            await connection.close()
    state = answer.get("status", {}).get("state")
    return state if isinstance(state, str) else None


async def connect(
    path: Path, environment: Mapping[str, str] | None = None, key_variable: str | None = None
) -> Connection:
    """Connect to the runner that listens at ``path``.

    ``key_variable`` is one of the user's own that has a key in it, too.

    Raises:
        RunnerGone: nobody does.
        RunnerSilent: somebody does, and says nothing.
        StorageError: somebody else does; it was told nothing.
    """
    read, write = await asyncio.open_unix_connection(sock=await linked(path), limit=PIECE_BYTES)
    connection = Connection(read, write, path.stem)
    try:
        if is_foreign(write.get_extra_info("socket")):
            raise StorageError(f"What listens at {path} belongs to another user.")
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
