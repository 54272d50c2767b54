"""The grep tool: which lines match a regular expression."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from threading import Event
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from holdfast.runtime.config.secret_variables import without_secrets
from holdfast.runtime.providers.base import ToolSpec
from holdfast.runtime.tools import grep_worker as matcher
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
from holdfast.runtime.tools.gitignore import Walk
from holdfast.runtime.tools.glob import TOO_MANY, below, printable
from holdfast.runtime.tools.glob_match import path_expression
from holdfast.runtime.tools.subprocess_source import Standalone
from holdfast.runtime.tools.workspace import Workspace, WorkspacePath

TIME_LIMIT_SECONDS = 20.0
MOST_MATCHES = 200
MOST_CHARACTERS = 30_000
_MATCHER = Standalone(matcher)
_LOOK_SECONDS = 0.1


class GrepArguments(Arguments, frozen=True):
    """A regular expression, as Python understands it, and where to look."""

    pattern: str
    path: str = "."
    glob: str | None = None
    ignore_case: bool = False
    context: Annotated[int, Meta(ge=0, le=20)] = 0
    mode: Literal["lines", "files"] = "lines"
    limit: Annotated[int, Meta(ge=1, le=2000)] = MOST_MATCHES


class _Found(Struct):
    """What the process said so far."""

    files: list[dict[str, Any]] = field(default_factory=list)
    at: str = ""
    error: str | None = None
    limit: bool = False
    end: bool = False


class Grep(FileTool[GrepArguments]):
    """Searches in files. The search is a process of its own: it is killed after a time limit."""

    effect: Effect = "reads"
    arguments = GrepArguments
    spec = ToolSpec(
        name="grep",
        description=(
            "Search in files for lines that match a regular expression (Python's). Binary files "
            "and those that .gitignore names are left out. With mode files only their names are "
            f"given. At most {MOST_MATCHES} matches unless limit says otherwise."
        ),
        parameters=schema(
            ("pattern",),
            pattern={"type": "string"},
            path={"type": "string", "description": "A folder or a file; default: the workspace."},
            glob={"type": "string", "description": "Only files that match, such as *.py."},
            ignore_case={"type": "boolean"},
            context={"type": "integer", "description": "Lines before and after, at most 20."},
            mode={"type": "string", "enum": ["lines", "files"]},
            limit={"type": "integer", "description": "Maximum number of matches, at most 2000."},
        ),
    )

    def __init__(self, time_limit_seconds: float = TIME_LIMIT_SECONDS) -> None:
        self._time_limit = time_limit_seconds

    async def work(self, call: Call, arguments: GrepArguments) -> Done:
        """Look for it."""
        stop = Event()
        try:
            return await asyncio.to_thread(self._grep, call, arguments, stop)
        finally:
            stop.set()  # a thread cannot be cancelled

    def _grep(self, call: Call, arguments: GrepArguments, stop: Event) -> Done:
        workspace = Workspace(call.workspace, call.allowed)
        top, places, cut = _places(workspace, arguments, stop)
        paths = ["/".join(place.parts) for place in places]
        request = {
            "pattern": arguments.pattern,
            "ignore_case": arguments.ignore_case,
            "context": 0 if arguments.mode == "files" else arguments.context,
            "files_only": arguments.mode == "files",
            "limit": arguments.limit,
            "root": top.root,
            "paths": paths,
        }
        found = self._search(_MATCHER.source + json.dumps(request).encode(), stop)
        if found.error is not None:
            raise Refusal(f"The pattern is not a regular expression: {found.error}.")
        shown = dict(zip(paths, places, strict=True))
        return done(_worded(found, shown, arguments, self._time_limit, cut=cut))

    def _search(self, request: bytes, stop: Event) -> _Found:
        with subprocess.Popen(  # noqa: S603  this very interpreter, and a file of ours
            _MATCHER.command(str(int(self._time_limit) + 2)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=without_secrets(os.environ),
        ) as process:
            deadline = time.monotonic() + self._time_limit
            unsent: bytes | None = request
            while True:
                try:
                    said, _ = process.communicate(unsent, timeout=_LOOK_SECONDS)
                except subprocess.TimeoutExpired:
                    unsent = None  # going on is without; what was not sent yet is remembered
                    if stop.is_set() or time.monotonic() >= deadline:
                        process.kill()  # what was found until then is told
                else:
                    return _found(said)


def _found(said: bytes) -> _Found:
    found = _Found()
    # A process that was killed may have left half a line at the end.
    for line in said.split(b"\n")[:-1]:
        word = json.loads(line)
        if "path" in word:
            found.files.append(word)
        else:
            found.at = word.get("at", found.at)
            found.error = word.get("error")
            found.limit = "limit" in word
            found.end = "end" in word
    return found


def _places(
    workspace: Workspace, arguments: GrepArguments, stop: Event
) -> tuple[WorkspacePath, list[WorkspacePath], bool]:
    """Return where the search begins, the files to look at, and whether there were too many."""
    top = workspace.locate(arguments.path)
    if not workspace.is_folder(top):
        workspace.read(top)  # says so if it is not there
        return top, [top], False
    walk = Walk(workspace, top, stop)
    expression = path_expression(arguments.glob or "**")
    places = [place for place in walk if expression.fullmatch(below(top, place))]
    return top, places, walk.cut


def _worded(
    found: _Found,
    places: dict[str, WorkspacePath],
    arguments: GrepArguments,
    time_limit: float,
    *,
    cut: bool,
) -> str:
    lines: list[str] = []
    notes: list[str] = []
    room = MOST_CHARACTERS
    for file in found.files:
        name = printable(places[file["path"]].shown)
        if file.get("too_large"):
            notes.append(f"[{name} is too large to be searched; use bash]")
            continue
        for line in _file_lines(name, file["lines"], arguments):
            room -= len(line) + 1
            if room >= 0:
                lines.append(line)
    if not lines:
        lines.append("[no match]")
    if room < 0:
        notes.append(f"[cut after {MOST_CHARACTERS:,} characters; search for something narrower]")
    if found.limit:
        notes.append(f"[stopped after {arguments.limit:,} matches; there may be more]")
    elif not found.end:
        at = printable(places[found.at].shown) if found.at in places else "the beginning"
        notes.append(f"[stopped after {time_limit:g} seconds, at {at}: use a simpler pattern]")
    return "\n".join([*lines, *notes, *([TOO_MANY] if cut else [])])


def _file_lines(name: str, lines: list[list[Any]], arguments: GrepArguments) -> list[str]:
    if arguments.mode == "files":
        return [name]
    shown = []
    last = None
    for number, matches, text in lines:
        if arguments.context and last is not None and number > last + 1:
            shown.append("--")
        last = number
        shown.append(f"{name}:{number}:{text}" if matches else f"{name}-{number}-{text}")
    return shown
