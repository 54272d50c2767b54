"""Commands that only look, and only inside the workspace: as harmless as the tools that read.

A short list on purpose. Each name comes with the options that it may have, none of which writes,
waits or follows links; every other word is a path, which has to be inside like that of any file
tool. The program must be outside the workspace, and it is what is run: the command gets a ``PATH``
without folders of the workspace.

What is judged is what the command would open now. So it is judged again when it runs.
"""

from __future__ import annotations

import re

from holdfast.runtime.tools.workspace import Workspace
from holdfast.store.programs import find_program

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
    if name not in _PROGRAMS or find_program(name, workspace.roots) is None:
        return None
    paths: list[str] = []
    for word in rest:
        if not word.startswith("-") or word == "-":
            paths.append(word)
        elif not _PROGRAMS[name].fullmatch(word):
            return None
    return paths or ["."]
