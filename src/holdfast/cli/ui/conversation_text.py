"""A conversation as text for a terminal, message by message.

Control characters are replaced here, so nothing in a message can control the terminal.
"""

from __future__ import annotations

from typing import Any

from holdfast.keeper.conversation import ConversationEntry
from holdfast.keeper.text import counted, local_time, printable
from holdfast.model.codec import dumps, plain
from holdfast.model.message import (
    AnyPart,
    File,
    Image,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from holdfast.model.sanitize import for_terminal
from holdfast.runtime.agent.origin import source_of
from holdfast.store.session import Session
from holdfast.tui.tty import Colours

_WHO = {"user": ("you", "green"), "assistant": ("assistant", "blue"), "tool": ("tool", "magenta")}
_INDENT = "    "


def heading(session: Session, colours: Colours) -> str:
    """Return what is known about a session: its title, facts, and whether it is foreign."""
    meta, totals = session.meta, session.totals
    facts = [session.id, *(_fact(meta, name) for name in ("workspace", "model"))]
    facts.append(counted(session.state.messages, "message"))
    if totals.requests:
        tokens = totals.input + totals.output + totals.cache_read + totals.cache_write
        facts.append(f"{tokens:,} tokens")
    if totals.cost_usd:
        facts.append(f"${totals.cost_usd:.4f}")
    title = printable(session.state.title or "") or "(no messages yet)"
    lines = [colours(title, "bold"), colours(" · ".join(filter(None, facts)), "dim")]
    provenance = session.provenance()
    if provenance.any_foreign:
        told = f"foreign: {source_of(provenance)}; nothing in it runs here before you accept it"
        lines.append(colours(told, "yellow"))
    return "\n".join(lines)


def _fact(meta: dict[str, Any], name: str) -> str:
    value = meta.get(name)
    return printable(value) if isinstance(value, str) else ""


def block(entry: ConversationEntry, colours: Colours) -> str:
    """Return an entry with a heading line."""
    first = entry.messages[0] if entry.messages else None
    role = "summary" if entry.is_summary or first is None else first.role
    who, colour = _WHO.get(role, (printable(role), "yellow"))
    facts = [local_time(entry.at), "unfinished" if entry.seq is None else f"#{entry.seq}"]
    if first is not None and first.stop in ("interrupted", "cancelled"):
        facts.append(first.stop)
    if entry.status != "ok":
        facts.append(entry.status)
    lines = [f"\n{colours(who, 'bold', colour)} {colours('· ' + ' · '.join(facts), 'dim')}"]
    for message in entry.messages:
        for part in message.content:
            lines += _part(part, colours)
    return "\n".join(lines)


def _part(  # noqa: PLR0911  one return a kind of part
    part: AnyPart, colours: Colours
) -> list[str]:
    match part:
        case Text():
            return [for_terminal(part.text).strip("\n")]
        case Thinking():
            return [colours(_indented(part.text), "dim")]
        case ToolCall():
            given = part.partial if part.partial is not None else _arguments(part.arguments)
            return [f"{colours(f'▸ {printable(part.name)}', 'cyan')} {_indented(given).lstrip()}"]
        case ToolResult():
            inner = [line for each in part.content for line in _part(each, Colours(on=False))]
            shown = [colours(_indented(line), "dim") for line in inner if line]
            failed = [colours(f"{_INDENT}{printable(part.outcome)}", "yellow")]
            return shown + (failed if part.outcome != "completed" else [])
        case Image() | File():
            name = part.name if isinstance(part, File) else part.url or ""
            return [colours(f"[{printable(f'{part.media_type} {name}').strip()}]", "dim")]
        case Opaque():
            return [colours(f"[data that only {printable(part.vendor)} can read]", "dim")]
        case _:
            return [colours("[content that this version does not support]", "dim")]


def _arguments(given: Any) -> str:
    if isinstance(given, dict) and len(given) == 1:
        (value,) = given.values()
        if isinstance(value, str):
            return value
    return dumps(plain(given)).decode()


def _indented(text: str) -> str:
    lines = for_terminal(text).strip("\n").split("\n")
    return "\n".join(f"{_INDENT}{line}" for line in lines)
