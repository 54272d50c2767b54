"""The runner's socket: accepts clients of the same user, passes on requests, sends replies."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError, StorageError, UsageError
from holdfast.files import Files
from holdfast.runtime.protocol.broadcast import Broadcaster
from holdfast.runtime.protocol.client import PIECE_BYTES, RunnerGone, lines
from holdfast.runtime.protocol.messages import (
    FOR_ANY_VERSION,
    LONGEST_LINE_BYTES,
    PROTOCOL,
    Attach,
    Detach,
    Greeting,
    Hello,
    Reply,
    Request,
    StatusOf,
    decode_request,
    encode_reply,
    id_of,
    refusal,
)
from holdfast.runtime.protocol.socket_path import why_foreign
from holdfast.runtime.protocol.subscriber import Subscriber

_LOG = logging.getLogger("holdfast")
HELLO_SECONDS = 10.0
_GOOD_BYE_SECONDS = 2.0
_MOST_REMEMBERED = 1000
_MOST_CLIENTS = 200  # each takes a descriptor, of which a process has few

Answer = Callable[[Request], Coroutine[Any, Any, Reply]]
_files = Files()


class Server:
    """Serves the clients of one runner. ``answer`` does requests and returns the reply.

    Without a ``path`` no other process can connect, only clients in this one.
    """

    def __init__(
        self, path: Path | None, broadcaster: Broadcaster, answer: Answer, greeting: Greeting
    ) -> None:
        self._path = path
        self._broadcaster = broadcaster
        self._answer = answer
        self._greeting = greeting
        self._server: asyncio.Server | None = None
        self._socket: tuple[int, int] | None = None  # device and inode
        self._closing = False
        self._serving: set[asyncio.Task[None]] = set()  # the event loop holds no reference
        self._replies: OrderedDict[str, asyncio.Future[Reply]] = OrderedDict()
        self.refresh: Callable[[dict[str, str]], None] = lambda _: None
        """Called with a client's environment when it says hello."""
        self.why_not_attach: Callable[[], HoldfastError | None] = lambda: None
        """Returns why no client can attach now, ``None`` if it can."""

    async def listen(self) -> None:
        """Listen, or listen again; the socket of a dead runner is removed.

        The caller holds the session, so no other runner listens there or is about to.

        Raises:
            OSError: the disk is full, or there is no such folder.
        """
        self.stop_listening()
        self._closing = False
        if self._path is None:
            return
        _files.unlink(self._path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            listener.bind(str(self._path))
        except BaseException:
            listener.close()
            raise
        finally:
            os.umask(before)
        self._socket = _identity(self._path)
        self._server = await asyncio.start_unix_server(
            self._connected,
            sock=listener,
            limit=PIECE_BYTES,
            start_serving=False,  # if this is cancelled, the server must be known to close()
            **_keeping_the_socket(),
        )
        await self._server.start_serving()

    async def connect_here(self) -> socket.socket:
        """Return the other end of a new connection, for a client in this process."""
        ours, theirs = socket.socketpair()
        read, write = await asyncio.open_unix_connection(sock=ours, limit=PIECE_BYTES)
        serving = asyncio.ensure_future(self._connected(read, write))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        return theirs

    def stop_listening(self) -> None:
        """Accept no more clients. The socket file stays: it shows that a runner is stopping."""
        self._closing = True
        if self._server is not None:
            self._server.close()
            self._server = None

    def is_reachable(self) -> bool:
        """Tell whether clients can find the runner: its socket file may have been removed."""
        if self._path is None:
            return True
        return self._server is not None and _identity(self._path) == self._socket

    async def close(self) -> None:
        """Remove the socket file, and close every connection once its queue has been sent."""
        self.stop_listening()
        if self._path is not None and _identity(self._path) == self._socket is not None:
            with suppress(OSError):  # it is gone, or the next runner's
                _files.unlink(self._path)
        clients = list(self._broadcaster.clients)
        await asyncio.gather(*(client.finish(_GOOD_BYE_SECONDS) for client in clients))

    async def _connected(self, read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        refused = why_foreign(write.get_extra_info("socket"))
        if refused is None and len(self._broadcaster.clients) >= _MOST_CLIENTS:
            refused = f"{_MOST_CLIENTS} clients are already connected. Close some of them."
        if refused is not None:
            write.write(refusal("", UsageError(refused)))
            write.close()
            return
        client = Subscriber(_SocketSink(write))
        sending = asyncio.ensure_future(client.send_loop())
        self._broadcaster.clients.add(client)
        try:
            await self._serve(read, client)
        except HoldfastError as error:
            client.send(refusal("", error))
        except OSError:
            client.drop()
        finally:
            client.attached = False
            await client.finish(_GOOD_BYE_SECONDS)
            self._broadcaster.disconnect(client)
            sending.cancel()

    async def _serve(self, read: asyncio.StreamReader, client: Subscriber) -> None:
        """Do one request after the other until the client hangs up.

        Raises:
            HoldfastError: the connection has to end; says why.
        """
        coming = lines(read)
        speaks: int | None = None
        deadline = asyncio.get_running_loop().time() + HELLO_SECONDS
        while not client.dropped:
            line = await _next(coming, deadline if speaks is None else None)
            if line is None:
                return
            await client.ready()
            try:
                request = decode_request(line)
                if isinstance(request, Hello):
                    client.send(encode_reply(request, self._hello()), is_reply=True)
                    speaks = request.protocol
                    self.refresh(request.environment)
                    continue
                if speaks is None:
                    raise UsageError("The first request must be hello.")
                if speaks != PROTOCOL and not isinstance(request, FOR_ANY_VERSION):
                    raise UsageError(_SKEW.format(theirs=speaks, ours=PROTOCOL))
            except HoldfastError as error:
                client.send(refusal(id_of(line), error), is_reply=True)
                continue
            await self._reply(client, request, speaks)

    def _hello(self) -> Greeting:
        if self._closing:
            raise RunnerGone("The runner is stopping. Try again.")
        return self._greeting

    async def _reply(self, client: Subscriber, request: Request, speaks: int) -> None:
        if isinstance(request, Attach):
            await self._attach(client, request, speaks)
            return
        try:
            if isinstance(request, Detach):
                self._broadcaster.detach(client)
                reply = encode_reply(request, Reply())
            else:
                reply = encode_reply(request, await self._answered(request))
        except HoldfastError as error:
            reply = refusal(request.id, error)
        except Exception as error:  # noqa: BLE001  one request must not take the runner down
            _LOG.exception("A request failed: %s", type(request).__name__)
            reply = refusal(request.id, StorageError(f"The runner could not do this: {error}."))
        client.send(reply, is_reply=True)

    async def _attach(self, client: Subscriber, request: Attach, speaks: int) -> None:
        if (refused := self.why_not_attach()) is not None:
            client.send(refusal(request.id, refused), is_reply=True)
            return
        client.send(encode_reply(request, Reply()), is_reply=True)
        answers = request.answers and speaks == PROTOCOL  # otherwise its approvals are refused
        await self._broadcaster.attach(client, request.after, live=request.live, answers=answers)

    async def _answered(self, request: Request) -> Reply:
        """Return the answer to a request; one that was sent before is not done again.

        It may have come over another connection, and may still be under way. A refused request can
        be tried again.
        """
        if isinstance(request, StatusOf):  # it changes nothing, and is frequent
            return await self._answer(request)
        answer = self._replies.get(request.id)
        if answer is None:
            answer = asyncio.ensure_future(self._answer(request))
            self._replies[request.id] = answer
            self._forget_oldest()
        try:
            return await asyncio.shield(answer)
        except Exception:
            if self._replies.get(request.id) is answer:
                del self._replies[request.id]
            raise

    def _forget_oldest(self) -> None:
        """Forget the oldest answers beyond the limit, but none that is still under way."""
        surplus = len(self._replies) - _MOST_REMEMBERED
        if surplus > 0:
            done = [name for name, answer in self._replies.items() if answer.done()]
            for name in done[:surplus]:
                del self._replies[name]


class _SocketSink:
    """Writes the lines of one subscriber to its socket."""

    def __init__(self, write: asyncio.StreamWriter) -> None:
        self._write = write

    async def write(self, line: bytes) -> None:
        self._write.write(line)
        await self._write.drain()

    async def close(self) -> None:
        self._write.close()
        await self._write.wait_closed()

    def abort(self) -> None:
        self._write.transport.abort()


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a socket file, ``None`` if there is none."""
    try:
        status = _files.status_of(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _keeping_the_socket() -> dict[str, Any]:
    """Return the option that keeps asyncio from removing the socket; older versions never do.

    The file stays until the session has been released, which is after the server was closed.
    """
    return {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}


async def _next(coming: AsyncIterator[bytes], deadline: float | None) -> bytes | None:
    """Return the next line, ``None`` at the end of the connection.

    Raises:
        UsageError: it has not come by the deadline, or is too long.
    """
    try:
        async with asyncio.timeout_at(deadline):
            return await anext(coming, None)
    except TimeoutError:
        raise UsageError("The first request must be hello, without delay.") from None
    except ValueError:
        raise UsageError(f"A line may have at most {LONGEST_LINE_BYTES} bytes.") from None


_SKEW = (
    "This runner speaks version {ours} of the protocol and not {theirs}: it can be followed, "
    "cancelled and stopped; stop it after the turn, and continue with your own version."
)
