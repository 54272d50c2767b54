"""A tool runs before it is durable that it was begun: nobody knows what it did."""

from __future__ import annotations

import time
from typing import Any

from holdfast.files import Files
from holdfast.journal.ticket import Ticket
from holdfast.model.entry import Position, Tool
from holdfast.runtime.agent.services import TurnServices

CAUGHT_BY = ("B",)
VARIANT = "acted"


def apply() -> None:
    durable: Any = TurnServices.durable

    async def go_on(self: TurnServices, ticket: Ticket, **given: Any) -> Position:
        if any(isinstance(body, Tool) for _, body, _ in ticket.drafts):
            return Position(0, 0)
        position: Position = await durable(self, ticket, **given)
        return position

    append: Any = Files.append

    def append_late(self: Files, descriptor: int, data: bytes, end: int) -> int:
        if b'"type":"tool"' in data:  # a slow disk: else it might be durable in time by chance
            time.sleep(0.05)
        written: int = append(self, descriptor, data, end)
        return written

    Files.append = append_late  # type: ignore[method-assign]  # the same
    TurnServices.durable = go_on  # type: ignore[method-assign]  # the defect itself
