"""The terminal program: one chat after the other, and what is done between them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from holdfast.runtime.agent.origin import recorded_workspace
from holdfast.store.store import Store
from holdfast.tui.chat.chat import Chat
from holdfast.tui.chat.exit import last_words
from holdfast.tui.target import ExitAction, Target, another


def run(store: Store, target: Target) -> int:
    """Chat until the user leaves; return the exit code."""
    while True:
        leaving = asyncio.run(_chat(store, target))
        # Whoever comes back to it has read this, and has had it sent.
        target = msgspec.structs.replace(target, prompt="", notes=(), is_first=False)
        if leaving.interlude is not None:
            leaving.interlude()
        if leaving.next == "pick":
            target = picked(store, target, leaving.query) or target
        elif leaving.next == "switch":
            target = leaving.target or target
        else:
            return leaving.code


async def _chat(store: Store, target: Target) -> ExitAction:
    chat = Chat(store, target)
    leaving = await chat.whole()
    stays = leaving.next == "switch" and leaving.target is None
    if not stays and (words := last_words(chat)):
        chat.say_at_the_end(words)
    return leaving


def picked(store: Store, of: Target, query: str = "") -> Target | None:
    """Let the user pick a session; ``None`` if none was."""
    from holdfast.tui.picker.app import pick  # noqa: PLC0415  slow to import, needed rarely

    folder = Path(of.launch.workspace)
    chosen = pick(store, folder, query=query)
    if chosen is None:
        return None
    session_id = chosen.session
    with store.open(session_id, mode="read") as session:
        recorded = recorded_workspace(session)
        if chosen.how == "fork":
            with session.fork() as copy:
                session_id = copy.id
    workspace = recorded if recorded is not None and Path(recorded).is_dir() else str(folder)
    return another(of, session_id, workspace, read_only=chosen.how == "read")
