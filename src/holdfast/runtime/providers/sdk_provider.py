"""What providers over a vendor's SDK have in common: one client, and the way of one stream.

Holds a client and its connections; each ``stream`` is one request. Retries are somebody else's
business, so the SDK's own are off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Any, ClassVar, Protocol

from holdfast.runtime.providers import sdk
from holdfast.runtime.providers.base import Delta, Finished, Request
from holdfast.runtime.providers.sdk_errors import Faults, address

_NO_KEY = "none"  # SDKs insist on one; local servers do not look at it


class SdkAnswer(Protocol):
    """A message that grows event by event.

    ``started`` is true once anything of the answer was handed on, ``complete`` once nothing that
    follows can change it.
    """

    request: str | None
    started: bool
    complete: bool

    def take(self, event: dict[str, Any]) -> Iterator[Delta]:
        """Take one event; yield what it adds."""
        ...

    def finished(self) -> Finished:
        """Return the whole message."""
        ...


class VendorProvider:
    """Base of providers over an SDK; see ``contract.Provider``."""

    name: str
    _request_header: ClassVar[str]  # where the vendor puts its id of a request

    def __init__(self, key: str | None, base_url: str, timeout_seconds: float) -> None:
        self._base_url = base_url
        self.endpoint: str | None = address(base_url)
        self._key = key
        self._timeout_seconds = timeout_seconds
        self._faults = Faults(self.name, base_url, key or "")
        self._client: Any = None

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Yield deltas, ``Finished`` last."""
        answer = self._answer(request)
        finished: Finished | None = None
        events: Any = None
        try:
            client = await self._connected()
            events = await self._ask(client, request)
            answer.request = events.response.headers.get(self._request_header)
            while event := await sdk.following(events, complete=answer.complete):
                for delta in answer.take(event.to_dict(warnings=False)):
                    yield delta
            if answer.complete:
                finished = answer.finished()
        except Exception as error:  # noqa: BLE001  the edge to foreign code: nothing else escapes
            raise self._faults.translate(error) from None
        finally:
            await sdk.let_go(events)
        if finished is None:
            raise self._faults.ended(started=answer.started)
        if not finished.message.content and finished.message.stop == "end":
            raise self._faults.empty()
        yield finished

    async def close(self) -> None:
        """Let go of connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _connected(self) -> Any:
        if self._client is None:
            client = await asyncio.to_thread(self._open)
            self._client = self._client or client  # two first requests at once share one
        return self._client

    def _settings(self, module: Any) -> dict[str, Any]:
        """Return what every client is made with."""
        return {
            "api_key": self._key or _NO_KEY,
            "base_url": self._base_url,
            "max_retries": 0,
            "timeout": module.Timeout(self._timeout_seconds, connect=sdk.CONNECT_SECONDS),
        }

    def _open(self) -> Any:
        """Make a client. Loads the SDK and reads certificates, so it runs in a thread."""
        raise NotImplementedError

    async def _ask(self, client: Any, request: Request) -> Any:
        """Send the request; return the SDK's stream of events."""
        raise NotImplementedError

    def _answer(self, request: Request) -> SdkAnswer:
        """Return an answer that is still empty."""
        raise NotImplementedError
