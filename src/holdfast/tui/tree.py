"""The branches of a session, drawn inline, and going on from another one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.errors import SessionNotFound, UsageError
from holdfast.model.entry import TREE, Entry
from holdfast.model.message import Message
from holdfast.runtime.control.client import new_request_id
from holdfast.runtime.control.protocol import Rewind
from holdfast.runtime.tools.terminal import on_one_line
from holdfast.store.session import Session

if TYPE_CHECKING:
    from holdfast.tui.chat import Chat

_MOST_LINES = 200
_LINE_WIDTH = 60


class Node(Struct):
    """A prompt, an answer or a turning point of the tree."""

    seq: int
    line: str
    children: list[Node]


class Tree(Struct, frozen=True):
    """All branches of a session: its roots, and the entries of the branch that is gone on with."""

    roots: list[Node]
    current: frozenset[int]


def read_tree(session: Session) -> Tree:
    """Return the branches of a session; blocks. Entries that say nothing are left out."""
    nodes: dict[int, Node | None] = {}  # of every entry, the nearest shown one at or above it
    roots: list[Node] = []
    with session.follow(wait=False) as entries:
        for entry in entries:
            if not isinstance(entry, Entry) or entry.type not in TREE:
                continue
            above = None if entry.parent is None else nodes.get(entry.parent)
            line = _line(entry)
            if line is None:
                nodes[entry.seq] = above
                continue
            node = Node(entry.seq, line, [])
            (roots if above is None else above.children).append(node)
            nodes[entry.seq] = node
    return Tree(roots, frozenset(entry.seq for entry in session.branch()))


def _line(entry: Entry) -> str | None:
    body = entry.body
    if isinstance(body, Message) and body.role in ("user", "assistant") and body.text.strip():
        mark = ">" if body.role == "user" else "·"
        return f"{mark} {on_one_line(body.text, _LINE_WIDTH)}"
    return "— summed up —" if entry.type == "checkpoint" else None


def drawn(tree: Tree) -> list[str]:
    """Return the tree as lines; a way without forks is not indented, the current one is marked."""
    lines: list[str] = []
    waiting = [(root, "") for root in reversed(tree.roots)]
    while waiting:
        node, indent = waiting.pop()
        mark = "*" if node.seq in tree.current else " "
        lines.append(f"{mark}{node.seq:>6}  {indent}{node.line}")
        if len(node.children) > 1:
            branches = [(child, f"{indent}│ ") for child in node.children[:-1]]
            branches.append((node.children[-1], indent + "  "))
            waiting += reversed(branches)
        elif node.children:
            waiting.append((node.children[0], indent))
    return lines


async def show_tree(chat: Chat) -> None:
    """Show the branches; the end of them if there are many."""

    def read() -> Tree:
        with chat.reading() as session:
            return read_tree(session)

    try:
        lines = drawn(await asyncio.to_thread(read))
    except SessionNotFound:
        lines = []
    renderer = chat.renderer()
    shown = [renderer.styled(line, "" if line[0] == "*" else "dim") for line in lines]
    if hidden := shown[:-_MOST_LINES]:
        shown = [renderer.note(f"… {len(hidden)} lines before these"), *shown[-_MOST_LINES:]]
    chat.prompt.show("\n" + "".join(shown))
    chat.note("* is where the conversation is; /tree NUMBER goes on from there")


async def jump(chat: Chat, argument: str) -> None:
    """Go on from another entry.

    Raises:
        UsageError: it is no number.
    """
    if not argument.isdecimal():
        raise UsageError("Say a number that /tree shows: /tree 12.")
    await chat.request(Rewind(id=new_request_id(), to=int(argument)))
