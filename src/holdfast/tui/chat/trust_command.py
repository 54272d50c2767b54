"""The question whether a session from elsewhere is accepted, asked in a chat."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.errors import SessionNotFound
from holdfast.tui.chat.choices import BACK, ChoicePrompt, Option

if TYPE_CHECKING:
    from holdfast.runtime.agent.foreign import ForeignContent
    from holdfast.tui.chat.chat import Chat


async def accepted(chat: Chat) -> bool:
    """Show what accepting the chat's session would allow and ask; tell whether it is accepted.

    The runner need not be asked: it reads what is accepted each time it decides.
    """

    def read() -> ForeignContent | None:
        from holdfast.runtime.agent.foreign import facts_of  # noqa: PLC0415  slow to import

        try:
            with chat.reading() as session:
                return facts_of(session)
        except SessionNotFound:
            return None

    facts = await asyncio.to_thread(read)
    if facts is None:
        chat.note("nothing in this session came from elsewhere")
        return False
    for line in facts.lines():
        chat.note(line)
    answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def decide(*, yes: bool) -> None:
        if not answer.done():
            answer.set_result(yes)

    ways = (
        Option("y", "accept it", lambda: decide(yes=True)),
        Option("n", BACK, lambda: decide(yes=False)),
    )
    chat.choices.ask(
        ChoicePrompt("trust", f"Accept this session, {facts.source}?", ways), first=True
    )
    if not await answer:
        return False
    await asyncio.to_thread(lambda: chat.store.accept(chat.session_id, upto=facts.last_seq))
    chat.status.foreign = False
    return True
