"""The runner's end of the socket: who may connect, what a request does, what is replied."""

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
from holdfast.journal.files import Files
from holdfast.runtime.control.address import why_foreign
from holdfast.runtime.control.client import RunnerGone
from holdfast.runtime.control.hub import Hub
from holdfast.runtime.control.link import PIECE_BYTES, lines
from holdfast.runtime.control.protocol import (
    FOR_ANY_VERSION,
    LONGEST_LINE_BYTES,
    PROTOCOL,
    Attach,
    Detach,
    Hello,
    Request,
    StatusOf,
    decode_request,
    encode,
    id_of,
    refusal,
)
from holdfast.runtime.control.seat import Client
from holdfast.version import __version__

_LOG = logging.getLogger("holdfast")
HELLO_SECONDS = 10.0
_GOOD_BYE_SECONDS = 2.0
_MOST_REMEMBERED = 1000
_MOST_CLIENTS = 200  # each takes a descriptor, of which a process has few

Answer = Callable[[Request], Coroutine[Any, Any, dict[str, Any]]]
_files = Files()


class Server:
    """Listens for clients of one runner. ``answer`` does what a request asks for."""

    def __init__(self, path: Path, hub: Hub, answer: Answer, greeting: dict[str, Any]) -> None:
        self._path = path
        self._hub = hub
        self._answer = answer
        self._greeting = greeting
        self._server: asyncio.Server | None = None
        self._socket: tuple[int, int] | None = None  # device and inode
        self._closing = False
        self._replies: OrderedDict[str, asyncio.Future[dict[str, Any]]] = OrderedDict()
        self.refresh: Callable[[dict[str, str]], None] = lambda _: None
        """Told of a client's environment when it says hello."""
        self.why_not_attach: Callable[[], HoldfastError | None] = lambda: None
        """Says why nobody can attach just now, if so."""

    async def listen(self) -> None:
        """Listen, or listen anew; a socket that a dead runner left in the place is removed.

        Whoever calls this holds the session: nobody alive listens there, or is about to.

        Raises:
            OSError: there is no room, or no such folder.
        """
        self.stop_listening()
        self._closing = False
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
            start_serving=False,  # whoever is cancelled at that must not leave it unknown
            **_leaving_the_socket(),
        )
        await self._server.start_serving()

    def stop_listening(self) -> None:
        """Take no more clients. The socket stays: it tells others that somebody is leaving."""
        self._closing = True
        if self._server is not None:
            self._server.close()
            self._server = None

    def is_reachable(self) -> bool:
        """Tell whether whoever looks for the runner finds it: its socket may have been removed."""
        return self._server is not None and _identity(self._path) == self._socket

    async def close(self) -> None:
        """Remove the socket, and hang up on everybody once they have heard all there was."""
        self.stop_listening()
        if self._socket is not None and _identity(self._path) == self._socket:
            with suppress(OSError):  # or it is the next runner's by now, or gone
                _files.unlink(self._path)
        clients = list(self._hub.clients)
        await asyncio.gather(*(client.finish(_GOOD_BYE_SECONDS) for client in clients))

    async def _connected(self, read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        refused = why_foreign(write.get_extra_info("socket"))
        if refused is None and len(self._hub.clients) >= _MOST_CLIENTS:
            refused = f"{_MOST_CLIENTS} clients are connected already: close some of them."
        if refused is not None:
            write.write(refusal("", UsageError(refused)))
            write.close()
            return
        client = Client(write)
        sending = asyncio.ensure_future(client.pump())
        self._hub.clients.add(client)
        try:
            await self._converse(read, client)
        except HoldfastError as error:
            client.send(refusal("", error))
        except OSError:
            client.drop()
        finally:
            client.attached = False
            await client.finish(_GOOD_BYE_SECONDS)
            self._hub.part(client)
            sending.cancel()

    async def _converse(self, read: asyncio.StreamReader, client: Client) -> None:
        """Do what is asked, one request after the other, until the client hangs up.

        Raises:
            HoldfastError: this cannot go on; says why.
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
                    hello = encode({"type": "hello", "to": request.id, **self._hello()})
                    client.send(hello, is_reply=True)
                    speaks = request.protocol
                    self.refresh(request.environment)
                    continue
                if speaks is None:
                    raise UsageError("Say hello first.")
                if speaks != PROTOCOL and not isinstance(request, FOR_ANY_VERSION):
                    raise UsageError(_SKEW.format(theirs=speaks, ours=PROTOCOL))
            except HoldfastError as error:
                client.send(refusal(id_of(line), error), is_reply=True)
                continue
            await self._reply(client, request, speaks)

    def _hello(self) -> dict[str, Any]:
        if self._closing:
            raise RunnerGone("The runner is leaving; ask the next one.")
        return {"protocol": PROTOCOL, "version": __version__, **self._greeting}

    async def _reply(self, client: Client, request: Request, speaks: int) -> None:
        if isinstance(request, Attach):
            await self._attach(client, request, speaks)
            return
        try:
            if isinstance(request, Detach):
                self._hub.detach(client)
                reply = _reply_to(request, {})
            else:
                reply = _reply_to(request, await self._answered(request))
        except HoldfastError as error:
            reply = refusal(request.id, error)
        except Exception as error:  # noqa: BLE001  one request must not take the runner down
            _LOG.exception("A request failed: %s", type(request).__name__)
            reply = refusal(request.id, StorageError(f"The runner failed at this: {error}."))
        client.send(reply, is_reply=True)

    async def _attach(self, client: Client, request: Attach, speaks: int) -> None:
        if (refused := self.why_not_attach()) is not None:
            client.send(refusal(request.id, refused), is_reply=True)
            return
        client.send(_reply_to(request, {}), is_reply=True)
        answers = request.answers and speaks == PROTOCOL  # its approvals would be refused
        await self._hub.attach(client, request.after, live=request.live, answers=answers)

    async def _answered(self, request: Request) -> dict[str, Any]:
        """Return the answer to a request; one that was sent before is not carried out again.

        It may have come over another connection, and may be under way still. What was refused can
        be tried again.
        """
        if isinstance(request, StatusOf):  # it does nothing, and is asked for often
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
        """Remember no more answers than are allowed; what is under way is not forgotten."""
        surplus = len(self._replies) - _MOST_REMEMBERED
        if surplus > 0:
            done = [name for name, answer in self._replies.items() if answer.done()]
            for name in done[:surplus]:
                del self._replies[name]


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a socket from another in its place, ``None`` if there is none."""
    try:
        status = _files.status_of(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _leaving_the_socket() -> dict[str, Any]:
    """Return what has asyncio leave the socket alone; older versions do anyway.

    It stands until the session has been let go of, which is after nobody listens any more.
    """
    return {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}


def _reply_to(request: Request, answer: dict[str, Any]) -> bytes:
    return encode({"type": "reply", "to": request.id, "ok": True, **answer})


async def _next(coming: AsyncIterator[bytes], deadline: float | None) -> bytes | None:
    """Return the next line, ``None`` if there is none.

    Raises:
        UsageError: it has not come by the deadline, or is too long.
    """
    try:
        async with asyncio.timeout_at(deadline):
            return await anext(coming, None)
    except TimeoutError:
        raise UsageError("Say hello first, and at once.") from None
    except ValueError:
        raise UsageError(f"A line has at most {LONGEST_LINE_BYTES} bytes.") from None


_SKEW = (
    "This runner speaks version {ours} of the protocol and not {theirs}: it can be followed, "
    "cancelled and stopped; ask it to stop after the turn, and go on with your own version."
)
