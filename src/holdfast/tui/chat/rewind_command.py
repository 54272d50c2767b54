"""``/rewind`` and ``/tree`` in the chat: undo prompts and file changes, or switch branches."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from holdfast.errors import SessionNotFound, UsageError
from holdfast.keeper.tree import SessionTree, read_tree, tree_lines
from holdfast.model.entry import Entry
from holdfast.model.message import Message
from holdfast.model.sanitize import quoted_line
from holdfast.runtime.agent.rewind_points import Point, points
from holdfast.runtime.protocol.client import new_request_id
from holdfast.runtime.protocol.messages import Rewind
from holdfast.tui.chat.choices import BACK, ChoicePrompt, Option

if TYPE_CHECKING:
    from holdfast.tui.chat.chat import Chat

_MOST_OFFERED = 9
_AUTORUN = "other programs run these files automatically. Restore them?"
_MOST_LINES = 200
_BECAME = {"restore": "restored", "remove": "removed", "skip": "skipped", "nothing": "unchanged"}


async def begin_rewind(chat: Chat) -> None:
    """Ask which prompt to undo."""
    if chat.turn_runs:
        chat.warn("A turn is running. Cancel it first (Ctrl+C), then undo prompts.")
        return

    def read() -> list[Point]:
        with chat.reading() as session:
            return points(session)

    try:
        found = await asyncio.to_thread(read)
    except SessionNotFound:
        found = []
    if not found:
        chat.note("There is no prompt to undo.")
        return
    offered = found[: -_MOST_OFFERED - 1 : -1]
    for number, point in enumerate(offered, 1):
        files = f" · {point.files} file(s) changed since" if point.files else ""
        chat.note(f"{number}  {quoted_line(point.line, 60)}{files}")
    if older := len(found) - len(offered):
        chat.note(f"… {older} older: holdfast rewind {chat.session_id}")
    ways = [_taking(chat, str(number), point) for number, point in enumerate(offered, 1)]
    ways.append(Option("b", BACK, _nothing))
    choice = ChoicePrompt("rewind", "Undo which prompt, with everything after it?", tuple(ways))
    chat.choices.ask(choice, first=True)


def _taking(chat: Chat, key: str, point: Point) -> Option:
    async def chosen() -> None:
        if not point.files:
            await _rewind(chat, point, files=False)
            return
        ways = (
            Option("a", "all", partial(_rewind, chat, point, files=True, conversation=True)),
            Option("c", "the conversation", partial(_rewind, chat, point, files=False)),
            Option("f", "the files", partial(_rewind, chat, point, files=True, conversation=False)),
            Option("b", BACK, _nothing),
        )
        question = f"{point.files} file(s) were changed since. Undo what?"
        chat.choices.ask(ChoicePrompt("rewind-what", question, ways), first=True)

    return Option(key, "that prompt", chosen)


async def _rewind(
    chat: Chat,
    point: Point,
    *,
    files: bool,
    conversation: bool = True,
    autorun: bool | None = None,
) -> None:
    request = Rewind(
        id=new_request_id(),
        to=point.before,
        files=files,
        conversation=conversation,
        autorun=autorun,
    )
    answer = await chat.request(request)
    if found := answer.autorun:
        again = partial(_rewind, chat, point, files=files, conversation=conversation)
        ways = (
            Option("w", "write these, too", partial(again, autorun=True)),
            Option("l", "leave them as they are", partial(again, autorun=False)),
            Option("b", BACK, _nothing),
        )
        named = "\n".join(quoted_line(path, 200) for path in found)
        question = f"Careful: {_AUTORUN}:\n{named}"
        chat.choices.ask(ChoicePrompt("rewind-autorun", question, ways), first=True)
        return
    for step in answer.files:
        why = f" ({step.reason})" if step.reason else ""
        chat.note(f"{_BECAME[step.action]}: {step.path}{why}")
    if conversation:
        chat.outbox.offer(await asyncio.to_thread(_said, chat, point.seq))


def _said(chat: Chat, seq: int) -> str:
    """Return the text of a prompt, to be edited and sent again; blocks."""
    with chat.reading() as session, session.follow(after=seq - 1, wait=False) as entries:
        entry = next(iter(entries), None)
    return entry.body.text if isinstance(entry, Entry) and isinstance(entry.body, Message) else ""


async def _nothing() -> None:
    return


async def show_tree(chat: Chat) -> None:
    """Show the branches of the session; the last lines if there are many."""

    def read() -> SessionTree:
        with chat.reading() as session:
            return read_tree(session)

    try:
        lines = tree_lines(await asyncio.to_thread(read))
    except SessionNotFound:
        lines = []
    renderer = chat.renderer()
    shown = [renderer.styled(line, "" if line[0] == "*" else "dim") for line in lines]
    if hidden := shown[:-_MOST_LINES]:
        shown = [renderer.note(f"… {len(hidden)} earlier lines"), *shown[-_MOST_LINES:]]
    chat.prompt.show("\n" + "".join(shown))
    chat.note("* marks the current branch; /tree NUMBER continues from that entry")


async def jump(chat: Chat, argument: str) -> None:
    """Continue from another entry.

    Raises:
        UsageError: the argument is not a number.
    """
    if not argument.isdecimal():
        raise UsageError("Give a number that /tree shows, for example /tree 12.")
    await chat.request(Rewind(id=new_request_id(), to=int(argument)))
