"""What the loop asks of a provider, and what it gets back.

A provider turns one ``Request`` into a stream of deltas that ends with ``Finished``. It keeps no
state between requests: everything it needs to know is in the request, which ``context`` builds. It
never touches the session; the loop writes each delta down before anybody sees it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Protocol

from msgspec import Struct, field

from holdfast.model.message import Message

SUM_UP = """\
[The conversation is about to be shortened: your summary will take the place of everything before
the last few messages. Write it now, without calling a tool. Keep: what the person wants, in their
own words where they matter; decisions and why they were made; what was done, with exact paths,
names, commands and figures; what failed; what is open, and the very next step. Leave out what is
settled and of no more use.]"""
"""What a model is asked when the context is to be shortened."""


class ToolSpec(Struct, frozen=True):
    """A tool as a model is told of it; ``parameters`` is a JSON schema of the arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


class Request(Struct, frozen=True):
    """One request. ``messages`` are paired and made fit for the provider already.

    ``cached`` lists the indices of messages after which a cache breakpoint stands, in rising order;
    the prefix before the last one is byte-stable between requests. ``thinking`` is a budget in
    tokens, 0 for none.
    """

    model: str
    messages: list[Message]
    system: str | None = None
    tools: list[ToolSpec] = field(default_factory=list)
    cached: tuple[int, ...] = ()
    max_tokens: int = 8192
    thinking: int = 0


class TextDelta(Struct, frozen=True):
    """More of the answer's text."""

    text: str


class ThinkingDelta(Struct, frozen=True):
    """More of the model's reasoning."""

    text: str


class ToolCallDelta(Struct, frozen=True):
    """More of a tool call's arguments, as JSON text; ``name`` comes with the first."""

    call_id: str
    text: str
    name: str | None = None


class ProviderStatus(Struct, frozen=True):
    """Something people should see while they wait, such as a retry in so many seconds."""

    text: str
    retry_in_seconds: float | None = None


class TokenCounts(Struct, frozen=True):
    """Tokens of one request. ``input`` does not include those read from or written to a cache.

    ``known`` is false if the provider did not say: the numbers are 0 then, and no cost follows.
    """

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0
    known: bool = True


class Finished(Struct, frozen=True):
    """The end of a stream: the whole message, as it goes into the journal, and what it took.

    ``message.stop`` is ``end``, ``tool_calls``, ``length``, ``refusal`` or the provider's own word;
    ``message.request`` the provider's id of the request; ``message.model`` the model that answered.
    """

    message: Message
    counts: TokenCounts


Delta = TextDelta | ThinkingDelta | ToolCallDelta | ProviderStatus | Finished


class Provider(Protocol):
    """A source of answers."""

    name: str
    """``anthropic``, ``openai``, ``rehearsal``: recorded in the session."""

    endpoint: str | None
    """The address that is asked, recorded with the name; ``None`` if there is none."""

    def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Yield deltas, ``Finished`` last.

        Closing the generator early (a cancelled turn) closes the connection; whoever may leave it
        early holds it with ``contextlib.aclosing``.

        Raises:
            ProviderError: ``ConnectFailed``, ``TimedOut``, ``BadStatus`` or ``EmptyReply``, with
                ``retryable``, or ``ProviderUnavailable``; nothing else escapes. Raised in the
                middle, deltas before it count.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
