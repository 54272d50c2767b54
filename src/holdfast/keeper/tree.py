"""The branches of a session as a tree of prompts and answers."""

from __future__ import annotations

from msgspec import Struct

from holdfast.model.entry import Entry, in_tree
from holdfast.model.message import Message
from holdfast.model.sanitize import quoted_line
from holdfast.store.session import Session

_LINE_WIDTH = 60


class TreeNode(Struct):
    """A prompt, an answer or a checkpoint; ``line`` is its beginning on one line."""

    seq: int
    line: str
    children: list[TreeNode]


class SessionTree(Struct, frozen=True):
    """All branches of a session: the roots, and the entry numbers of the current branch."""

    roots: list[TreeNode]
    current: frozenset[int]


def read_tree(session: Session) -> SessionTree:
    """Return the branches of a session; blocks. Entries without text are left out."""
    nodes: dict[int, TreeNode | None] = {}  # per entry: the nearest node at or above it
    roots: list[TreeNode] = []
    with session.follow(wait=False) as entries:
        for entry in entries:
            if not isinstance(entry, Entry) or not in_tree(entry.type, entry.body):
                continue
            above = None if entry.parent is None else nodes.get(entry.parent)
            line = _line(entry)
            if line is None:
                nodes[entry.seq] = above
                continue
            node = TreeNode(entry.seq, line, [])
            (roots if above is None else above.children).append(node)
            nodes[entry.seq] = node
    return SessionTree(roots, frozenset(entry.seq for entry in session.branch()))


def _line(entry: Entry) -> str | None:
    body = entry.body
    if isinstance(body, Message) and body.role in ("user", "assistant") and body.text.strip():
        mark = ">" if body.role == "user" else "·"
        return f"{mark} {quoted_line(body.text, _LINE_WIDTH)}"
    return "— summary —" if entry.type == "checkpoint" else None


def tree_lines(tree: SessionTree) -> list[str]:
    """Return the tree as lines: a fork indents its branches, * marks the current branch."""
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
