"""Taking prompts back from within a chat: which one, and what of it, files included."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from holdfast.errors import SessionNotFound
from holdfast.model.entry import Entry
from holdfast.model.message import Message
from holdfast.runtime.control.client import new_request_id
from holdfast.runtime.control.protocol import Rewind
from holdfast.runtime.points import Point, points
from holdfast.runtime.tools.terminal import on_one_line
from holdfast.tui.choices import BACK, Choice, Way

if TYPE_CHECKING:
    from holdfast.tui.chat import Chat

_MOST_OFFERED = 9
_BECAME = {"restore": "put back", "remove": "removed", "skip": "left", "nothing": "as it was"}


async def begin_rewind(chat: Chat) -> None:
    """Ask which prompt is to be taken back."""
    if chat.turn_runs:
        chat.warn("A turn is running: cancel it first (Ctrl+C), then take prompts back.")
        return

    def read() -> list[Point]:
        with chat.reading() as session:
            return points(session)

    try:
        found = await asyncio.to_thread(read)
    except SessionNotFound:
        found = []
    if not found:
        chat.note("There is no prompt to take back.")
        return
    offered = found[: -_MOST_OFFERED - 1 : -1]
    for number, point in enumerate(offered, 1):
        files = f" · {point.files} file(s) changed since" if point.files else ""
        chat.note(f"{number}  {on_one_line(point.line, 60)}{files}")
    if older := len(found) - len(offered):
        chat.note(f"… {older} older: holdfast rewind {chat.session_id}")
    ways = [_taking(chat, str(number), point) for number, point in enumerate(offered, 1)]
    ways.append(Way("b", BACK, _nothing))
    choice = Choice("rewind", "Take back which prompt, with all behind it?", tuple(ways))
    chat.choices.ask(choice, first=True)


def _taking(chat: Chat, key: str, point: Point) -> Way:
    async def chosen() -> None:
        if not point.files:
            await _rewind(chat, point, files=False)
            return
        ways = (
            Way("a", "all of it", partial(_rewind, chat, point, files=True, conversation=True)),
            Way("c", "the conversation", partial(_rewind, chat, point, files=False)),
            Way("f", "the files", partial(_rewind, chat, point, files=True, conversation=False)),
            Way("b", BACK, _nothing),
        )
        question = f"{point.files} file(s) were changed since: take back what?"
        chat.choices.ask(Choice("rewind-what", question, ways), first=True)

    return Way(key, "that prompt", chosen)


async def _rewind(chat: Chat, point: Point, *, files: bool, conversation: bool = True) -> None:
    request = Rewind(id=new_request_id(), to=point.before, files=files, conversation=conversation)
    answer = await chat.request(request)
    for step in answer.get("files", []):
        why = f" ({step['reason']})" if step.get("reason") else ""
        chat.note(f"{_BECAME[step['action']]}: {step['path']}{why}")
    if conversation:
        chat.outbox.offer(await asyncio.to_thread(_said, chat, point.seq))


def _said(chat: Chat, seq: int) -> str:
    """Return the text of a prompt, to be edited and sent again; blocks."""
    with chat.reading() as session, session.follow(after=seq - 1, wait=False) as entries:
        entry = next(iter(entries), None)
    return entry.body.text if isinstance(entry, Entry) and isinstance(entry.body, Message) else ""


async def _nothing() -> None:
    return
