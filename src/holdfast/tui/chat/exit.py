"""Leaving a chat: at once if nothing is at stake, else the user says what becomes of the turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.runtime.protocol.client import new_request_id
from holdfast.runtime.protocol.messages import Stop
from holdfast.tui.chat.choices import BACK, ChoicePrompt, Option
from holdfast.tui.target import ExitAction

if TYPE_CHECKING:
    from holdfast.tui.chat.chat import Chat

_QUIT = ExitAction()


def ask_to_leave(chat: Chat, leaving: ExitAction = _QUIT) -> None:
    """Leave, for good or for another session; ask first where that decides about something."""
    ends_with_it = chat.target.foreground
    if chat.turn_runs and (leaving.next == "quit" or ends_with_it):
        _ask_about_turn(chat, leaving)
    elif chat.status.trouble is not None and ends_with_it:
        _ask_about_trouble(chat, leaving)
    else:
        chat.leave(leaving)


def _ask_about_turn(chat: Chat, leaving: ExitAction) -> None:
    async def leave() -> None:
        chat.leave(leaving)

    async def stop() -> None:
        await chat.request(Stop(id=new_request_id()))
        chat.status.state = "idle"
        chat.leave(leaving)

    ways: tuple[Option, ...]
    if chat.target.foreground:
        ways = (Option("b", BACK, _stay), Option("s", "stop it, save it and exit", leave))
        question, enter = "A turn is running. It stops when this program exits.", "b"
    else:
        ways = (
            Option("k", "keep it running", leave),
            Option("s", "stop it", stop),
            Option("b", BACK, _stay),
        )
        question, enter = "A turn is running.", "k"
    chat.choices.ask(ChoicePrompt("leave", question, ways, enter=enter), first=True)


def _ask_about_trouble(chat: Chat, leaving: ExitAction) -> None:
    async def leave() -> None:
        chat.leave(leaving)

    ways = (Option("b", BACK, _stay), Option("l", "let it finish saving, then exit", leave))
    question = f"Not everything is saved: {chat.status.trouble}"
    chat.choices.ask(ChoicePrompt("leave", question, ways, enter="b"), first=True)


async def _stay() -> None:
    return


def last_words(chat: Chat) -> str:
    """Return the line that is shown after a chat: how to continue it."""
    if chat.target.ephemeral:
        return "this session was not saved"
    if chat.status.trouble is not None and not chat.target.foreground:
        held = "not everything is saved yet; the runner saves the rest when there is free space"
        return f"{held}; attach with: holdfast attach {chat.session_id}"
    if chat.status.seq < 0 and not chat.turn_runs:
        return ""  # nothing was said, and nothing is on the disk
    if chat.turn_runs and not chat.target.foreground:
        return f"still running; attach with: holdfast attach {chat.session_id}"
    return f"Resume with: holdfast -r {chat.session_id}"
