"""Who may do what without being asked: the rules, and the decision about one call.

What needs no approval: tools that only read, inside the workspace and the folders that are allowed.
For everything else the rules are asked, then the mode: ``ask``, ``allow-all``, or ``deny`` (what
would be asked is refused, for runs that nobody watches).

A rule names a tool, and what of it is allowed:

    read                    every read, wherever the file tools can reach
    write                   every file that can be written, by write or edit
    write(src/**)           files below src, by write or edit
    edit(*.md)              Markdown files in any folder, by edit only
    bash                    every command: the same as no protection
    bash(make test)         this command, with exactly these words
    bash(git status:*)      commands that begin with these words

Paths in rules are patterns as in ``.gitignore``, relative to the workspace; in other folders only a
rule without parentheses counts. They are held against the real path, after symbolic links and
``..``; ``.git`` matches only a rule that names it, because who can write there can run commands.
``write`` covers edit, ``read`` covers grep and glob.

A rule for commands is held against the words that the shell would see, and only if the command is
nothing but words: letters, digits, ``_@%+=:,./-``, and quoted text without ``$``, backquote,
backslash or ``!``. Anything else could make it a different command (``;``, ``&``, ``|``, newlines,
redirections, substitutions, assignments, globs, comments), so it matches no rule with parentheses
and is asked about. A rule by prefix trusts every option and argument that may follow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Literal

import msgspec
from msgspec import Struct

from holdfast.errors import UsageError
from holdfast.model.entry import Approval
from holdfast.runtime.tools.answers import Refusal
from holdfast.runtime.tools.contract import Effect
from holdfast.runtime.tools.patterns import path_expression
from holdfast.runtime.tools.workspace import Workspace

Mode = Literal["ask", "allow-all", "deny"]

INSIDE = "reads inside the workspace"
"""What ``Decision.rule`` says of a read that needs no rule."""

_RULE = re.compile(r"([A-Za-z0-9_.-]+)(?:\((.*)\))?", re.DOTALL)
# Quotes may stand anywhere in a word. Nothing outside ASCII without quotes: what counts as blank
# depends on the locale.
_PIECE = re.compile(
    r"(?P<plain>[A-Za-z0-9_@%+=:,./-]+)|'(?P<single>[^'\x00-\x1f\x7f]*)'"
    r'|"(?P<double>[^"$`\\!\x00-\x1f\x7f]*)"|(?P<blank>[ \t]+)'
)
_PREFIX = ":*"
_COVERS = {"write": ("write", "edit"), "read": ("read", "grep", "glob")}
_PATH_TOOLS = frozenset({"read", "write", "edit", "grep", "glob"})


def words(command: str) -> list[str] | None:
    """Return the words of a simple command, ``None`` if it is not certain to be one."""
    found: list[str] = []
    place, open_word = 0, False
    while place < len(command):
        piece = _PIECE.match(command, place)
        if piece is None:
            return None
        place = piece.end()
        if piece.lastgroup == "blank":
            open_word = False
            continue
        text = piece[piece.lastgroup or 0]
        if open_word:
            found[-1] += text
        else:
            found.append(text)
        open_word = True
    return None if not found or "=" in found[0] else found


class Rule(Struct, frozen=True):
    """One rule, parsed; ``text`` is how the user wrote it."""

    text: str
    tool: str
    path: re.Pattern[str] | None = None
    command: tuple[str, ...] = ()
    prefix: bool = False

    @property
    def whole_tool(self) -> bool:
        """Whether it has no parentheses."""
        return self.path is None and not self.command

    def covers(self, tool: str) -> bool:
        """Tell whether the rule is about a tool."""
        return tool in _COVERS.get(self.tool, (self.tool,))

    def allows_command(self, command: list[str] | None) -> bool:
        """Tell whether it allows a command, given as its words."""
        if command is None or not self.command:
            return False
        return tuple(command[: len(self.command)] if self.prefix else command) == self.command

    def allows_path(self, path: str) -> bool:
        """Tell whether it allows a path relative to the workspace."""
        if self.path is None or not self.path.fullmatch(path):
            return False
        if path.startswith("/"):  # in a folder beside the workspace
            return False
        # Some file systems do not tell capitals from small letters.
        return ".git" not in path.casefold().split("/") or ".git" in self.text


def parse(text: str) -> Rule:
    """Return a rule from its text.

    Raises:
        UsageError: it is no rule.
    """
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not a rule: write for example bash(git status:*).")
    tool, inside = found.groups()
    if inside is None:
        return Rule(text, tool)
    if tool in _PATH_TOOLS and inside.strip():
        return Rule(text, tool, path=path_expression(inside.strip()))
    if tool == "bash":
        prefix = inside.endswith(_PREFIX)
        command = words(inside.removesuffix(_PREFIX))
        if command is not None:
            return Rule(text, tool, command=tuple(command), prefix=prefix)
        raise UsageError(
            f"{text!r} can never match: only plain words can be allowed, without ; & | $ and "
            "quotes that hold such characters."
        )
    raise UsageError(f"{text!r} is not a rule: {tool} takes no parentheses like these.")


class Decision(Struct, frozen=True):
    """What is to be done with a call, and the rule or mode that says so (``None``: a person)."""

    decision: Literal["allow", "ask", "deny"]
    rule: str | None = None


class Policy:
    """The rules of one run."""

    def __init__(self, mode: Mode = "ask", allow: Iterable[str] = ()) -> None:
        self.mode = mode
        self.rules = tuple(parse(text) for text in allow)

    def decide(
        self, tool: str, effect: Effect, arguments: dict[str, Any], workspace: Workspace
    ) -> Decision:
        """Decide about one call. Resolves paths on the disk, so it blocks: call it in a thread."""
        path = _path(arguments, workspace) if tool in _PATH_TOOLS else None
        if effect == "reads" and path is not None:
            return Decision("allow", INSIDE)
        for rule in self.rules:
            if rule.covers(tool) and _matches(rule, path, arguments):
                return Decision("allow", rule.text)
        if self.mode == "allow-all":
            return Decision("allow", self.mode)
        return Decision("deny", self.mode) if self.mode == "deny" else Decision("ask")


def _path(arguments: dict[str, Any], workspace: Workspace) -> str | None:
    """Return the real path that a call is about, ``None`` if it is out of reach."""
    name = arguments.get("path", ".")
    try:
        return workspace.locate(name).shown if isinstance(name, str) else None
    except Refusal:
        return None


def _matches(rule: Rule, path: str | None, arguments: dict[str, Any]) -> bool:
    if rule.whole_tool:
        return True
    if rule.command:
        command = arguments.get("command")
        return isinstance(command, str) and rule.allows_command(words(command))
    return path is not None and rule.allows_path(path)


def arguments_sha256(arguments: Any) -> str:
    """Return the hash that binds a decision to a call's arguments: of their canonical JSON."""
    text = json.dumps(
        arguments, sort_keys=True, separators=(",", ":"), default=_spelled, ensure_ascii=True
    )
    return sha256(text.encode()).hexdigest()


def _spelled(value: Any) -> Any:
    if isinstance(value, msgspec.Raw):  # a number that Python cannot hold
        return {"number": bytes(value).decode()}
    raise UsageError(f"{value!r} cannot be an argument of a tool.")


def approval(call_id: str, arguments: Any, decision: str, rule: str | None = None) -> Approval:
    """Return the entry that records a decision; ``decision`` is allow or deny."""
    return Approval(
        call_id=call_id,
        arguments_sha256=arguments_sha256(arguments),
        decision=decision,
        rule=rule,
    )
