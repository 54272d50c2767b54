"""Who may do what without being asked: the rules, and the decision about one call.

What needs no approval: tools that only read, inside the workspace and the folders that are allowed,
and the few commands that do the same (``_only_looks``). For everything else the rules are asked,
then the mode: ``ask``, ``allow-all``, or ``deny`` (refuse instead of asking, for runs without a
user). A rule that denies wins over all of it.

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
``..``. ``write`` covers edit, ``read`` covers grep and glob. No rule and no mode lets a file be
written that other programs run by themselves (``tools/autorun``): a person is asked, and told so.

A rule for commands is held against the words that the shell would see, and only if the command is
nothing but words: letters, digits, ``_@%+=:,./-``, and quoted text without ``$``, backquote,
backslash or ``!``. Anything else could make it a different command (``;``, ``&``, ``|``, newlines,
redirections, substitutions, assignments, globs, comments), so it matches no rule with parentheses
and is asked about. A rule by prefix trusts every option and argument that may follow.

A rule that denies has the same form and errs to the other side. ``read(secrets)`` denies whatever
is called so, and all that is in it, at any depth, in capitals too, and in every folder that may be
used; absolute paths and ``~/`` count; a search is denied if it would look into a file that is.
There is no such rule for commands: the same one can be written in too many ways. Nor does a rule
for files hold for commands: they can open what they like, so deny bash as a whole, or leave it to
be asked about.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any, Literal

import msgspec
from msgspec import Struct

from holdfast.errors import UsageError
from holdfast.model.entry import Approval
from holdfast.runtime.tools import autorun
from holdfast.runtime.tools.base import Effect, Refusal
from holdfast.runtime.tools.gitignore import Walk
from holdfast.runtime.tools.glob_match import path_expression
from holdfast.runtime.tools.workspace import Workspace, WorkspacePath
from holdfast.store.programs import find_program

Mode = Literal["ask", "allow-all", "deny"]

INSIDE = "reads inside the workspace"
"""What ``Decision.rule`` says of a read that needs no rule."""

ONLY_LOOKS = "a command that only looks"
"""What ``Decision.rule`` says of a command that does what the reading tools do."""

_RULE = re.compile(r"([A-Za-z0-9_.-]+)(?:\((.*)\))?", re.DOTALL)
# Quotes may stand anywhere in a word. Nothing outside ASCII without quotes: what counts as blank
# depends on the locale.
_PIECE = re.compile(
    r"(?P<plain>[A-Za-z0-9_@%+=:,./-]+)|'(?P<single>[^'\x00-\x1f\x7f]*)'"
    r'|"(?P<double>[^"$`\\!\x00-\x1f\x7f]*)"|(?P<blank>[ \t]+)'
)
_READING_BUILTINS = {"echo": re.compile(".*", re.DOTALL), "pwd": re.compile("-[LP]"), "true": None}
_READING_PROGRAMS = {
    "ls": re.compile("-[1aAbBcCdfFghiklmnopqQrRsStuUvxX]+"),
    "cat": re.compile("-[AbeEnstTuv]+"),
    "head": re.compile("-[cnqvz]?[0-9]*"),
    "tail": re.compile("-[cnqvz]?[0-9]*"),
    "wc": re.compile("-[clmwL]+"),
}
_PREFIX = ":*"
_COVERS = {"write": ("write", "edit"), "read": ("read", "grep", "glob")}
_PATH_TOOLS = frozenset({"read", "write", "edit", "grep", "glob"})
_SEARCHES = {"grep": "glob", "glob": "pattern"}  # with the argument that says which files


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
    absolute: bool = False

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
        return not path.startswith("/")  # that is in a folder beside the workspace

    def denies_path(self, path: str) -> bool:
        """Tell whether it denies a path; an absolute one counts for ``absolute`` rules only."""
        return self.path is not None and any(map(self.path.fullmatch, _with_folders(path)))


def parse(text: str) -> Rule:
    """Return a rule from its text.

    Raises:
        UsageError: it is no rule.
    """
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not a rule. Use for example bash(git status:*).")
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


def parse_denial(text: str) -> Rule:
    """Return a rule that denies, from its text.

    Raises:
        UsageError: it is no rule, or one for commands.
    """
    found = _RULE.fullmatch(text.strip())
    if found is not None and found[1].lower() == "bash" and found[2] is not None:
        raise UsageError(
            f"{text!r} cannot be denied, because a command can be written in many ways: deny bash "
            "as a whole, or leave it to be asked about."
        )
    rule = parse(text)
    if rule.path is None:
        known = rule.tool.lower() in {*_PATH_TOOLS, "bash"}
        return Rule(text, rule.tool.lower() if known else rule.tool)
    inside = rule.text.strip()[len(rule.tool) + 1 : -1].strip()
    if inside.startswith("~/"):
        inside = os.path.realpath(Path.home()) + inside[1:]
    # With a slash at its end, a name without another one still fits at any depth.
    expression = path_expression(inside.rstrip("/") or "**")
    path = re.compile(expression.pattern, re.DOTALL | re.IGNORECASE)
    return Rule(text, rule.tool, path=path, absolute=inside.startswith("/"))


def _with_folders(path: str) -> Iterator[str]:
    """Yield a path and the folders it is in, each as a file and as a folder would be named."""
    parts = [part for part in path.split("/") if part]
    for count in range(1, len(parts) + 1):
        name = "/".join(parts[:count])
        yield name
        yield f"{name}/"


class Decision(Struct, frozen=True):
    """What is to be done with a call, and the rule or mode that says so (``None``: a person).

    ``warning`` is what a person who is asked has to be told.
    """

    decision: Literal["allow", "ask", "deny"]
    rule: str | None = None
    warning: str | None = None


class Policy:
    """The rules of one run; ``attended`` tells whether anybody can be asked."""

    def __init__(
        self,
        mode: Mode = "ask",
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
        *,
        attended: bool = True,
    ) -> None:
        self.mode = mode
        self._asks = attended and mode != "deny"
        self.rules = tuple(parse(text) for text in allow)
        self.denials = tuple(parse_denial(text) for text in deny)

    def decide(
        self, tool: str, effect: Effect, arguments: dict[str, Any], workspace: Workspace
    ) -> Decision:
        """Decide about one call. Resolves paths on the disk, so it blocks: call it in a thread."""
        for rule in self.denials:
            if rule.covers(tool) and (rule.whole_tool or _denied(rule, tool, arguments, workspace)):
                return Decision("deny", rule.text)
        return self._not_denied(tool, effect, arguments, workspace)

    def _not_denied(
        self, tool: str, effect: Effect, arguments: dict[str, Any], workspace: Workspace
    ) -> Decision:
        place = _place(arguments, workspace) if tool in _PATH_TOOLS else None
        path = None if place is None else place.shown
        if effect != "reads" and place is not None and (told := autorun.sentence(place)):
            return Decision("ask" if self._asks else "deny", None if self._asks else told, told)
        if effect == "reads" and path is not None:
            return Decision("allow", INSIDE)
        for rule in self.rules:
            if rule.covers(tool) and _matches(rule, path, arguments):
                return Decision("allow", rule.text)
        if tool == "bash" and self._only_looks(arguments, workspace):
            return Decision("allow", ONLY_LOOKS)
        if self.mode == "allow-all":
            return Decision("allow", self.mode)
        return Decision("deny", self.mode) if self.mode == "deny" else Decision("ask")

    def _only_looks(self, arguments: dict[str, Any], workspace: Workspace) -> bool:
        command = arguments.get("command")
        paths = _looked_at(words(command) if isinstance(command, str) else None, workspace)
        return paths is not None and all(
            self.decide("read", "reads", {"path": path}, workspace).rule == INSIDE for path in paths
        )


def is_judged_by_files(tool: str, rule: str | None) -> bool:
    """Tell whether a decision by a rule depends on what the file system has at that moment."""
    return tool in _PATH_TOOLS or rule == ONLY_LOOKS


def _place(arguments: dict[str, Any], workspace: Workspace) -> WorkspacePath | None:
    """Return the real path that a call is about, ``None`` if it is out of reach."""
    name = arguments.get("path", ".")
    try:
        return workspace.locate(name) if isinstance(name, str) else None
    except Refusal:
        return None


def _denied(rule: Rule, tool: str, arguments: dict[str, Any], workspace: Workspace) -> bool:
    """Tell whether a call touches what a rule for files denies."""
    name = arguments.get("path", ".")
    if not isinstance(name, str):
        return False  # no tool takes it
    try:
        place = workspace.locate(name)
    except Refusal:
        # Out of reach for the tools as well, but what is denied is not even asked about.
        return rule.absolute and _denies_outside(rule, name)
    if _denies(rule, place):
        return True
    if tool not in _SEARCHES or tool not in {rule.tool, "grep"}:
        return False  # a list of names tells less than what is in the files
    wanted = arguments.get(_SEARCHES[tool])
    pattern = wanted if isinstance(wanted, str) else "**"
    fits = path_expression(pattern.removeprefix(f"{place.path}/"))
    return any(
        fits.fullmatch("/".join(found.parts[len(place.parts) :])) and _denies(rule, found)
        for found in Walk(workspace, place, Event())
    )


def _denies_outside(rule: Rule, name: str) -> bool:
    try:
        return rule.denies_path(os.path.realpath(name))
    except ValueError:  # no file can have such a name
        return False


def _denies(rule: Rule, place: WorkspacePath) -> bool:
    below = "/".join(place.parts)
    return rule.denies_path(below) or (rule.absolute and rule.denies_path(place.path))


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


def _looked_at(words: list[str] | None, workspace: Workspace) -> list[str] | None:
    """Return the paths that a command reads; ``None`` if it may do more than read. Blocks.

    The list of commands is short on purpose. Each name comes with the options that it may have,
    none of which writes, waits or follows links; every other word is a path, which has to be inside
    the workspace. The program must be outside of it, and the command gets a ``PATH`` without
    folders of the workspace. The answer is about what the command would open now, so it is asked
    again when the command runs.
    """
    if not words:
        return None
    name, *rest = words
    if name in _READING_BUILTINS:
        options = _READING_BUILTINS[name]
        fits = all(options is not None and options.fullmatch(word) for word in rest)
        return [] if fits else None
    if name not in _READING_PROGRAMS or find_program(name, workspace.roots) is None:
        return None
    paths: list[str] = []
    for word in rest:
        if word.startswith("+"):
            return None  # an option in its old form: tail +1f waits
        if not word.startswith("-") or word == "-":
            paths.append(word)
        elif not _READING_PROGRAMS[name].fullmatch(word):
            return None
    return paths or ["."]
