"""Which files git would not see: ``.gitignore`` at every level, and ``.git/info/exclude``.

The rules are read here and not asked from git, because a workspace need not be a repository and
git need not be installed; the tests hold them against git's own answers. A file's last matching
pattern counts, deeper files before shallower ones. A folder that is ignored is not entered, so
nothing in it can be taken back in. The user's global excludes are not read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from threading import Event

from msgspec import Struct

from holdfast.files import Files
from holdfast.runtime.tools.base import Refusal
from holdfast.runtime.tools.glob_match import compiled
from holdfast.runtime.tools.workspace import Workspace, WorkspacePath

IGNORE_NAME = ".gitignore"
MOST_ENTRIES = 500_000
# The second signs the records of origin in Holdfast's home, which may be inside the workspace.
_PASSED_OVER = frozenset({".git", "origin.key"})
_LARGEST_BYTES = 1024 * 1024
_MARK = "\ufeff"
_files = Files()


class Pattern(Struct, frozen=True):
    """One line: what it matches, and whether that is ignored or taken back in."""

    expression: re.Pattern[str]
    ignores: bool
    folders_only: bool
    whole_path: bool


class IgnoreRules(Struct, frozen=True):
    """The patterns of one file; they hold below ``base``, an absolute path."""

    base: str
    patterns: tuple[Pattern, ...]

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Tell whether an absolute path is ignored, ``None`` if no pattern matches."""
        below = path[len(self.base) :].lstrip("/")
        name = below.rpartition("/")[2]
        for pattern in reversed(self.patterns):
            if pattern.folders_only and not is_folder:
                continue
            if pattern.expression.fullmatch(below if pattern.whole_path else name):
                return pattern.ignores
        return None


def parse(text: str) -> tuple[Pattern, ...]:
    """Return the patterns of a file."""
    lines = text.removeprefix(_MARK).split("\n")
    found = (_pattern(line.removesuffix("\r")) for line in lines if not line.startswith("#"))
    return tuple(pattern for pattern in found if pattern is not None)


def _pattern(line: str) -> Pattern | None:
    while line.endswith(" ") and not _escaped(line):
        line = line[:-1]
    ignores = not line.startswith("!")
    words = line if ignores else line[1:]
    folders_only = words.endswith("/")
    words = words[:-1] if folders_only else words
    if not words:
        return None
    whole = "/" in words
    return Pattern(compiled(words.removeprefix("/")), ignores, folders_only, whole)


def _escaped(line: str) -> bool:
    """Tell whether the last character has a backslash before it that counts."""
    before = line[:-1]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


class Walk:
    """The files below a folder that are not ignored.

    ``stop`` ends it early: a thread cannot be cancelled. ``cut`` says that there were too many.
    """

    def __init__(self, workspace: Workspace, top: WorkspacePath, stop: Event) -> None:
        self._workspace = workspace
        self._top = top
        self._stop = stop
        self._left = MOST_ENTRIES
        self.cut = False

    def __iter__(self) -> Iterator[WorkspacePath]:
        return self._below(self._top, rules_above(self._top))

    def _below(self, folder: WorkspacePath, rules: list[IgnoreRules]) -> Iterator[WorkspacePath]:
        own = self._rules_in(folder)
        rules = [own, *rules] if own is not None else rules
        for entry in self._workspace.names(folder):
            self._left -= 1
            self.cut = self.cut or self._left < 0
            if self.cut or self._stop.is_set():
                return
            place = folder.child(entry.name)
            if entry.name in _PASSED_OVER or _ignored(rules, place.path, is_folder=entry.is_folder):
                continue
            if entry.is_folder:
                yield from self._below(place, rules)
            elif entry.is_file:
                yield place

    def _rules_in(self, folder: WorkspacePath) -> IgnoreRules | None:
        try:
            content = self._workspace.find(folder.child(IGNORE_NAME), _LARGEST_BYTES)
        except (OSError, Refusal):
            return None
        return None if content is None else IgnoreRules(folder.path, parse(_text(content.data)))


def _ignored(rules: list[IgnoreRules], path: str, *, is_folder: bool) -> bool:
    for each in rules:
        verdict = each.verdict(path, is_folder=is_folder)
        if verdict is not None:
            return verdict
    return False


def rules_above(top: WorkspacePath) -> list[IgnoreRules]:
    """Return the rules that hold in a folder from outside it, the nearest first.

    They go up to the repository that the folder is in; without one, to the workspace.
    """
    rules: list[IgnoreRules] = []
    path = Path(top.path)
    while not (path / ".git").exists():
        if path == path.parent or (str(path) == top.root and not _in_repository(path)):
            return rules
        path = path.parent
        rules.append(_read(path / IGNORE_NAME, str(path)))
    rules.append(_read(_git_folder(path / ".git") / "info" / "exclude", str(path)))
    return rules


def _in_repository(path: Path) -> bool:
    return any((folder / ".git").exists() for folder in path.parents)


def _git_folder(git: Path) -> Path:
    """Return the folder with git's own files; for a worktree the one that all of them share."""
    if git.is_dir():
        return git
    folder = git.parent / _line(git).removeprefix("gitdir: ")
    common = _line(folder / "commondir")
    return folder / common if common else folder


def _line(path: Path) -> str:
    try:
        return os.fsdecode(_files.read_whole(path)).strip()
    except OSError:
        return ""


def _read(path: Path, base: str) -> IgnoreRules:
    try:
        return IgnoreRules(base, parse(_text(_files.read_whole(path))))
    except OSError:
        return IgnoreRules(base, ())


def _text(data: bytes) -> str:
    # Names of files are decoded like this, so patterns must be.
    return os.fsdecode(data)
