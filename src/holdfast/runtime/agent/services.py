"""What a turn works with: the session, who answers, the tools, the rules, the people to ask."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast.errors import DiskFull
from holdfast.journal.ticket import Ticket
from holdfast.model.entry import Position, Usage
from holdfast.runtime.agent.cancellation import CancelToken
from holdfast.runtime.agent.context import WINDOW_TOKENS, Frame
from holdfast.runtime.agent.prices import PriceTable
from holdfast.runtime.policy.policy import Policy
from holdfast.runtime.providers.base import Provider, TokenCounts
from holdfast.runtime.tools.base import AgentTool
from holdfast.runtime.tools.registry import standard_tools
from holdfast.runtime.tools.workspace import Workspace
from holdfast.store.session import Session

SPOOL_NAME = "spool"
_LOOK_AGAIN_SECONDS = 0.5


class Question(Struct, frozen=True):
    """What somebody is asked to approve; ``subject`` is the command or the path."""

    call_id: str
    tool: str
    subject: str
    arguments: dict[str, Any]


Ask = Callable[[Question], Awaitable[bool | None]]
"""Returns the answer, or ``None`` if there is nobody to give one now: then the turn waits."""


async def nobody(_: Question) -> bool | None:
    """Answer that there is nobody to ask."""
    return None


@dataclass
class TurnServices:
    """Made once for a session. Provider and model may be replaced between turns.

    ``tell`` shows people something that is in no journal, such as a retry. ``decision_id`` gives
    the id for the entry of a person's decision about a call, if it has one. ``known_tokens`` is the
    size of the context as the provider counted it last, ``None`` if it has not yet.
    """

    session: Session
    provider: Provider
    model: str
    workspace: Path
    system: str | None = None
    tools: dict[str, AgentTool] = field(default_factory=standard_tools)
    policy: Policy = field(default_factory=Policy)
    prices: PriceTable = field(default_factory=PriceTable)
    allowed: tuple[Path, ...] = ()
    max_tokens: int = 8192
    thinking: int = 0
    window_tokens: int = WINDOW_TOKENS
    compact_at: float = 0.8
    ask: Ask = nobody
    decision_id: Callable[[str], str | None] = lambda _: None
    tell: Callable[[str], None] = lambda _: None
    known_tokens: int | None = None

    @property
    def frame(self) -> Frame:
        """What a request has beside the messages."""
        return Frame(
            provider=self.provider.name,
            model=self.model,
            system=self.system,
            tools=[tool.spec for tool in self.tools.values()],
            max_tokens=self.max_tokens,
            thinking=self.thinking,
            window_tokens=self.window_tokens,
        )

    @property
    def files(self) -> Workspace:
        """The user's files, as far as tools may reach."""
        return Workspace(self.workspace, self.allowed)

    def usage(self, counts: TokenCounts, answered: str | None, asked: str) -> Usage:
        """Return what a request took, priced as of now, by the model that answered it."""
        cost = self.prices.cost_usd(counts, answered or asked)
        if cost is None:
            cost = self.prices.cost_usd(counts, asked)
        return Usage(
            counts.input,
            counts.output,
            cost,
            counts.cache_read,
            counts.cache_write,
            answered or asked,
        )

    def spool(self, seq: int) -> Path:
        """Return where the tools of one answer leave things; ids may be used again in the next.

        The name is signed: a spool that was copied here names processes of the sender's choice.
        """
        return self.session.local_state / SPOOL_NAME / self.session.signed_name(str(seq))

    def keeping(self, names: list[str], stop: CancelToken) -> Callable[[bytes], str]:
        """Return what a tool stores blobs with, in a thread; their names are added to ``names``.

        A full disk is waited for, as ``durable`` does, until the turn is to end.
        """
        loop = asyncio.get_running_loop()

        def keep(data: bytes) -> str:
            told = False
            while True:
                try:
                    names.append(self.session.keep(data))
                    return names[-1]
                except DiskFull as error:
                    if stop.cause is not None:
                        raise
                    if not told:
                        loop.call_soon_threadsafe(self.tell, str(error))
                    told = True
                    time.sleep(_LOOK_AGAIN_SECONDS)

        return keep

    async def durable(self, ticket: Ticket, *, giving_up: Callable[[], bool]) -> Position:
        """Return once entries are durable. A full disk is waited for, visibly.

        Raises:
            DiskFull: there is still no room, and ``giving_up`` says that nobody waits any longer.
            WriteFailed: they never will be.
        """
        told = False
        while True:
            try:
                return await ticket
            except DiskFull as error:
                if not told:
                    self.tell(str(error))
                told = True
                if giving_up():
                    raise
