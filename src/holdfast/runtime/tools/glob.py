"""The glob tool: which files there are."""

from __future__ import annotations

import asyncio
from threading import Event

from holdfast.runtime.providers.base import ToolSpec
from holdfast.runtime.tools.base import (
    Arguments,
    Call,
    Done,
    Effect,
    FileTool,
    Refusal,
    done,
    schema,
)
from holdfast.runtime.tools.gitignore import MOST_ENTRIES, Walk
from holdfast.runtime.tools.glob_match import path_expression
from holdfast.runtime.tools.workspace import Workspace, WorkspacePath

MOST_FILES = 1000


class GlobArguments(Arguments, frozen=True):
    """A pattern, and the folder in which to look."""

    pattern: str
    path: str = "."


class Glob(FileTool[GlobArguments]):
    """Lists files by name."""

    effect: Effect = "reads"
    arguments = GlobArguments
    spec = ToolSpec(
        name="glob",
        description=(
            "List files whose path matches a pattern such as src/**/*.py or *.{c,h}. A pattern "
            "without a slash matches in every folder. Files that .gitignore names are left out. "
            f"At most {MOST_FILES} are listed."
        ),
        parameters=schema(
            ("pattern",),
            pattern={"type": "string"},
            path={"type": "string", "description": "Where to look; the workspace if not given."},
        ),
    )

    async def work(self, call: Call, arguments: GlobArguments) -> Done:
        """Look for them."""
        stop = Event()
        try:
            return await asyncio.to_thread(self._list, call, arguments, stop)
        finally:
            stop.set()

    def _list(self, call: Call, arguments: GlobArguments, stop: Event) -> Done:
        workspace = Workspace(call.workspace, call.allowed)
        top = folder_at(workspace, arguments.path)
        expression = path_expression(arguments.pattern.removeprefix(f"{top.path}/"))
        found: list[str] = []
        more = 0
        walk = Walk(workspace, top, stop)
        for place in walk:
            if not expression.fullmatch(below(top, place)):
                continue
            if len(found) < MOST_FILES:
                found.append(printable(place.shown))
            else:
                more += 1
        if not found:
            found.append("[no file matches]")
        if more:
            found.append(f"[{more:,} more are not listed; use a narrower pattern or path]")
        if walk.cut:
            found.append(TOO_MANY)
        return done("\n".join(found))


TOO_MANY = f"[stopped after looking at {MOST_ENTRIES:,} names; give a path to look in]"


def folder_at(workspace: Workspace, name: str) -> WorkspacePath:
    """Return the place of a folder.

    Raises:
        Refusal: there is none.
    """
    place = workspace.locate(name)
    if not workspace.is_folder(place):
        raise Refusal(f"There is no folder {place.shown}.")
    return place


def below(top: WorkspacePath, place: WorkspacePath) -> str:
    """Return the path of a place below a folder."""
    return "/".join(place.parts[len(top.parts) :])


def printable(name: str) -> str:
    """Return a file name that can be encoded: bytes that are not UTF-8 are replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
