"""Commands that only look, and only inside the workspace: as harmless as the tools that read.

A short list on purpose. Each name comes with the options that it may have, none of which writes,
waits or follows links; every other word is a path, which has to be inside like that of any file
tool. The program must be the system's own: one that the workspace brings along is not known.
"""

from __future__ import annotations

import os
import re

from holdfast.runtime.tools.workspace import Workspace

_BUILTINS = {"echo": re.compile(".*", re.DOTALL), "pwd": re.compile("-[LP]"), "true": None}
_PROGRAMS = {
    "ls": re.compile("-[1aAbBcCdfFghiklmnopqQrRsStuUvxX]+"),
    "cat": re.compile("-[AbeEnstTuv]+"),
    "head": re.compile("-[cnqvz]?[0-9]*"),
    "tail": re.compile("-[cnqvz]?[0-9]*"),
    "wc": re.compile("-[clmwL]+"),
}


def looked_at(words: list[str] | None, workspace: Workspace) -> list[str] | None:
    """Return the paths that a command looks at; ``None`` if it may do more than look. Blocks."""
    if not words:
        return None
    name, *rest = words
    if name in _BUILTINS:
        options = _BUILTINS[name]
        fits = all(options is not None and options.fullmatch(word) for word in rest)
        return [] if fits else None
    if name not in _PROGRAMS or not _is_systems_own(name, workspace):
        return None
    paths: list[str] = []
    for word in rest:
        if not word.startswith("-") or word == "-":
            paths.append(word)
        elif not _PROGRAMS[name].fullmatch(word):
            return None
    return paths or ["."]


def _is_systems_own(name: str, workspace: Workspace) -> bool:
    """Tell whether the shell would find a program outside of what the agent can write to."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if not folder.startswith("/"):
            return False  # the current folder, which is the workspace
        path = os.path.join(folder, name)  # noqa: PTH118  as the shell does it
        if os.access(path, os.X_OK):
            return not workspace.holds(path) and not workspace.holds(os.path.realpath(path))
    return False
