"""The commands that begin with a slash; each says how to have the same without a screen."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.errors import SessionNotFound, UsageError
from holdfast.keeper.text import printable
from holdfast.model.sanitize import quoted_line
from holdfast.runtime.protocol.client import new_request_id
from holdfast.runtime.protocol.messages import (
    Cancel,
    Compact,
    ContinueTurn,
    HandOver,
    Rename,
    RunQueue,
    SetModel,
    StatusOf,
    Stop,
)
from holdfast.store.validation import valid_title
from holdfast.tui.chat import terminal_notify
from holdfast.tui.chat.exit import ask_to_leave
from holdfast.tui.chat.rewind_command import begin_rewind, jump, show_tree
from holdfast.tui.chat.trust_command import accepted
from holdfast.tui.target import ExitAction, copy_of, new_session

if TYPE_CHECKING:
    from holdfast.tui.chat.chat import Chat

Do = Callable[["Chat", str], Awaitable[None]]
_MOST_HITS = 15
_IN_FULL = ("/stop", "/quit", "/takeover")  # what ends something is not guessed


class Command(Struct, frozen=True):
    """A command: its names, what it does, and how to have the same without a screen."""

    name: str
    about: str
    do: Do
    headless: str
    aliases: tuple[str, ...] = ()


async def _resume(chat: Chat, argument: str) -> None:
    ask_to_leave(chat, ExitAction(next="pick", query=argument))


async def _new(chat: Chat, _: str) -> None:
    ask_to_leave(chat, ExitAction(next="switch", target=new_session(chat.target)))


async def _fork(chat: Chat, _: str) -> None:
    def copied() -> str:
        with chat.reading() as session, session.fork() as copy:
            return copy.id

    try:
        copy = await asyncio.to_thread(copied)
    except SessionNotFound:
        raise UsageError("There is nothing to fork yet.") from None
    ask_to_leave(chat, ExitAction(next="switch", target=copy_of(chat.target, copy)))


async def _rewind(chat: Chat, _: str) -> None:
    await begin_rewind(chat)


async def _tree(chat: Chat, argument: str) -> None:
    if argument:
        await jump(chat, argument)
    else:
        await show_tree(chat)


async def _rename(chat: Chat, argument: str) -> None:
    title = " ".join(printable(argument).split())
    if not title:
        raise UsageError("Give the new title, for example: /rename the parser's rewrite")
    await chat.request(Rename(id=new_request_id(), title=valid_title(title)))
    chat.status.title = title


async def _compact(chat: Chat, _: str) -> None:
    answer = await chat.request(Compact(id=new_request_id()))
    if answer.after_turn:
        chat.note("the context will be compacted when the turn ends")


async def _export(chat: Chat, argument: str) -> None:
    from holdfast.exchange.exporters import name_for, names  # noqa: PLC0415  not for every prompt
    from holdfast.exchange.exporting.export import export_to  # noqa: PLC0415  as above

    words = argument.split(maxsplit=1)
    kind = words.pop(0) if words and words[0] in names() else None

    def write() -> Path:
        named = Path(words[0] if words else ".").expanduser()
        place = Path(chat.target.launch.workspace) / named
        with chat.reading() as session:
            return export_to(session, kind or name_for(str(place)), place).path

    chat.note(f"written: {await asyncio.to_thread(write)}")


async def _stats(chat: Chat, argument: str) -> None:
    from holdfast.tui.chat.stats_command import show_stats  # noqa: PLC0415  loads SQLite

    await show_stats(chat, argument)


async def _copy(chat: Chat, _: str) -> None:
    if not chat.page.last_answer:
        raise UsageError("There is no answer to copy yet.")
    sequence = terminal_notify.copied(chat.page.last_answer)
    if sequence is None:
        raise UsageError("The answer is too long for the terminal's clipboard. Use /export.")
    chat.prompt.attract(sequence)
    chat.note("copied the last answer to the terminal's clipboard (OSC 52)")


async def _search(chat: Chat, argument: str) -> None:
    if not argument:
        raise UsageError("Give the words to search for, for example: /search timeout")
    hits = await asyncio.to_thread(lambda: list(chat.store.search(argument, limit=_MOST_HITS + 1)))
    for hit in hits[:_MOST_HITS]:
        chat.note(f"{hit.session} {hit.seq:>5} {hit.role:9} {quoted_line(hit.snippet, 100)}")
    if len(hits) > _MOST_HITS:
        chat.note(f"… more than {_MOST_HITS}; /resume {argument} searches in the picker")
    if not hits:
        chat.note(f"no message contains {quoted_line(argument)}")


async def _session(chat: Chat, _: str) -> None:
    lines = [f"session  {chat.session_id}", f"folder   {chat.target.launch.workspace}"]
    if not chat.target.read_only:
        status = (await chat.request(StatusOf(id=new_request_id()))).status
        lines.append(f"runner   pid {status.pid} · {status.state} · {status.version}")
        lines.append(f"model    {status.model}")
        lines.append(f"clients  {status.clients}")
    try:
        with chat.reading() as session:
            totals = session.totals
            where = "in" if session.folder is None else "on disk"
            lines.append(f"{where:8} {session.location}")
            lines.append(f"saved    entry {session.state.seq}")
            lines.append(f"cost     ${totals.cost_usd:.4f}")
            if not session.recovery.clean:
                lines.append(f"recovery {session.recovery}")
    except SessionNotFound:
        lines.append("on disk  nothing yet; the first prompt creates the session")
    for line in lines:
        chat.note(line)


async def _model(chat: Chat, argument: str) -> None:
    from holdfast.runtime.providers.catalog import REHEARSAL, VENDORS  # noqa: PLC0415  slow

    if not argument:
        chat.note(f"{chat.status.model} answers")
        known = ", ".join([*VENDORS, REHEARSAL])
        chat.note(f"Use /model NAME, or /model PROVIDER [NAME]. Providers: {known}")
        return
    first, _, rest = argument.partition(" ")
    if first in (*VENDORS, REHEARSAL):
        wish = SetModel(id=new_request_id(), provider=first, model=rest.strip() or None)
    else:
        wish = SetModel(id=new_request_id(), model=argument)
    answer = await chat.request(wish)
    when = "after this turn" if answer.after_turn else "from now on"
    chat.note(f"{argument} is used {when}")


async def _login(chat: Chat, argument: str) -> None:
    words = [sys.executable, "-P", "-m", "holdfast", "login", *argument.split()[:1]]

    def interlude() -> None:
        subprocess.run(words, check=False)  # noqa: S603  this very program

    ask_to_leave(chat, ExitAction(next="switch", interlude=interlude))


async def _help(chat: Chat, _: str) -> None:
    from holdfast.tui.chat.key_bindings import HELP  # noqa: PLC0415  it knows the chat, and so do we

    for command in COMMANDS:
        names = " ".join((command.name, *command.aliases))
        chat.note(f"{names:24} {command.about}")
    for key, about in HELP:
        chat.note(f"{key:24} {about}")


async def _quit(chat: Chat, _: str) -> None:
    ask_to_leave(chat)


async def _continue(chat: Chat, _: str) -> None:
    chat.choices.withdraw("interrupted")
    await chat.request(ContinueTurn(id=new_request_id()))


async def _run(chat: Chat, _: str) -> None:
    await chat.request(RunQueue(id=new_request_id()))


async def _trust(chat: Chat, _: str) -> None:
    if await accepted(chat):
        chat.note("accepted: the content of this session is now treated as your own")


async def _cancel(chat: Chat, _: str) -> None:
    await chat.request(Cancel(id=new_request_id()))


async def _stop(chat: Chat, _: str) -> None:
    await chat.request(Stop(id=new_request_id()))
    chat.status.state = "idle"
    chat.quit()


async def _take_over(chat: Chat, _: str) -> None:
    await chat.request(HandOver(id=new_request_id()))
    chat.note("the other runner closes the session; a new runner continues it")
    chat.link.want()


async def _details(chat: Chat, _: str) -> None:
    chat.unfold()


COMMANDS: tuple[Command, ...] = (
    Command("/resume", "open another session", _resume, "holdfast -r", ("/sessions",)),
    Command("/new", "start a new session", _new, "holdfast -p", ("/clear",)),
    Command("/fork", "continue in a copy", _fork, "holdfast -r ID --fork", ("/branch",)),
    Command("/rewind", "undo prompts", _rewind, "holdfast rewind", ("/undo",)),
    Command("/tree", "show the branches; /tree N continues from entry N", _tree, "holdfast tree"),
    Command("/rename", "set the title of the session", _rename, "holdfast -r ID -n TITLE"),
    Command("/compact", "replace old messages by a summary", _compact, "holdfast -r ID --compact"),
    Command("/export", "export the session: [FORMAT] [FILE]", _export, "holdfast export"),
    Command("/copy", "copy the last answer to the clipboard", _copy, "holdfast -p … | clip"),
    Command("/search", "search all sessions", _search, "holdfast search"),
    Command(
        "/session",
        "show the session's folder and runner",
        _session,
        "holdfast status",
        ("/status",),
    ),
    Command("/model", "show or change the model", _model, "holdfast -r ID --model NAME"),
    Command("/login", "store a provider's API key", _login, "holdfast login"),
    Command("/continue", "continue the interrupted turn", _continue, "--continue-turn"),
    Command("/run", "run the prompts that are on hold", _run, "--run-queue"),
    Command("/trust", "accept a session from elsewhere", _trust, "holdfast trust ID"),
    Command("/cancel", "cancel the turn", _cancel, "holdfast cancel"),
    Command("/stop", "stop the runner and exit", _stop, "holdfast stop"),
    Command(
        "/takeover", "restart the session's runner with this version", _take_over, "holdfast stop"
    ),
    Command("/details", "unfold the last shortened text", _details, "holdfast show"),
    Command(
        "/stats",
        "tokens and cost as charts; --by, --since, --until, --all",
        _stats,
        "holdfast stats",
    ),
    Command("/help", "show this help", _help, "holdfast --help"),
    Command("/quit", "exit; a running turn can continue", _quit, "", ("/exit",)),
)


def find(word: str) -> Command | None:
    """Return the command of a name, or of the only name that begins so."""
    for command in COMMANDS:
        if word in (command.name, *command.aliases):
            return command
    begun = [
        command
        for command in COMMANDS
        if any(name.startswith(word) for name in (command.name, *command.aliases))
    ]
    whole = any(command.name in _IN_FULL for command in begun)
    return begun[0] if len(begun) == 1 and len(word) > 1 and not whole else None
