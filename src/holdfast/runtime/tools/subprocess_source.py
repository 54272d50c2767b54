"""Starting a module of ours as a process of its own, by its source.

An agent may run for days, and the installed package may be replaced or removed meanwhile. So the
source is taken into memory with the agent's own modules, and handed over on standard input: on the
command line it would fill the screen of everybody who looks at the list of processes.
"""

from __future__ import annotations

import sys
from importlib.abc import InspectLoader
from types import ModuleType

_LOADER = "import sys; exec(sys.stdin.buffer.read(int(sys.argv.pop(1))))"


class Standalone:
    """A module that can be run as a program; needs the standard library only."""

    def __init__(self, module: ModuleType) -> None:
        loader = module.__spec__.loader if module.__spec__ is not None else None
        assert isinstance(loader, InspectLoader)
        source = loader.get_source(module.__name__)
        assert source is not None
        self.source = source.encode()
        """What goes to its standard input first."""

    def command(self, *arguments: str) -> list[str]:
        """Return the words that start it."""
        return [sys.executable, "-I", "-S", "-c", _LOADER, str(len(self.source)), *arguments]
