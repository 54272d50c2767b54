"""Where on a machine a session was, taken out of data that nobody here understands.

Lines of other agents that are kept as events say the folder they ran in. Fields that are called
like one and hold an absolute path are left out, and the session's own folders are replaced
wherever else they stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from holdfast.model.entry import Custom, Entry, Meta, Unknown

if TYPE_CHECKING:
    from holdfast.store.backend import Log

LOCAL_FACTS = ("workspace", "project", "imported")
"""Facts that say where on a machine a session was."""

REPLACEMENT = "[workspace]"
_FIELDS = frozenset(
    {
        "cwd",
        "directory",
        "gitroot",
        "home",
        "originalcwd",
        "parentsession",
        "project",
        "projectdir",
        "projectpath",
        "projectroot",
        "root",
        "transcriptpath",
        "workdir",
        "workingdir",
        "workingdirectory",
        "workspace",
        "workspaceroot",
        "worktree",
    }
)
_ABSOLUTE = re.compile(r"/|~|file:///|[A-Za-z]:[\\/]|\\\\")
_SHORTEST = 3  # characters: less is a root, which is part of every path


def drop_local_meta(facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts without those that say where a session was."""
    return {name: value for name, value in facts.items() if name not in LOCAL_FACTS}


class LocalPaths:
    """The folders that a journal says its session was in."""

    def __init__(self, folders: Iterable[str]) -> None:
        known = {folder.rstrip("/\\") for folder in folders}
        longest_first = sorted((f for f in known if len(f) >= _SHORTEST), key=len, reverse=True)
        any_of = "|".join(map(re.escape, longest_first))
        self._pattern = re.compile(rf"(?<![\w/])(?:{any_of})(?![\w-])") if any_of else None

    def without(self, value: Any) -> Any:
        """Return decoded JSON that does not say where the session was."""
        if isinstance(value, str):
            return value if self._pattern is None else self._pattern.sub(REPLACEMENT, value)
        if isinstance(value, dict):
            return {
                self.without(name) if isinstance(name, str) else name: self.without(held)
                for name, held in value.items()
                if not _is_place(name, held)
            }
        if isinstance(value, list):
            return [self.without(each) for each in value]
        return value


def local_paths_in(log: Log) -> LocalPaths:
    """Read a session for the folders that it names."""
    folders: set[str] = set()
    for record in log.records():
        body = record.body if isinstance(record, Entry) else None
        if isinstance(body, Meta):
            folders.update(_folders({name: body.fields.get(name) for name in LOCAL_FACTS}))
        elif isinstance(body, Custom):
            folders.update(_folders(body.data))
        elif isinstance(body, Unknown):
            folders.update(_folders(body.fields))
    return LocalPaths(folders)


def _folders(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        for name, held in value.items():
            if _is_place(name, held):
                yield held
            else:
                yield from _folders(held)
    elif isinstance(value, list):
        for each in value:
            yield from _folders(each)


def _is_place(name: Any, held: Any) -> bool:
    if not isinstance(held, str) or not isinstance(name, str):
        return False
    plain = name.replace("_", "").replace("-", "").casefold()
    return plain in _FIELDS and _ABSOLUTE.match(held) is not None
