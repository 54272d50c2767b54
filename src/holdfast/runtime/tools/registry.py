"""The tools that every session has."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.runtime.config.secret_variables import PROVIDER_KEYS
from holdfast.runtime.tools.base import AgentTool
from holdfast.runtime.tools.edit import Edit
from holdfast.runtime.tools.glob import Glob
from holdfast.runtime.tools.grep import Grep
from holdfast.runtime.tools.read import Read
from holdfast.runtime.tools.read_tracking import Seen
from holdfast.runtime.tools.shell.bash import Bash
from holdfast.runtime.tools.write import Write


def standard_tools(*, hidden: Iterable[str] = PROVIDER_KEYS) -> dict[str, AgentTool]:
    """Return the tools of one session by name, in the order that a model is told of them.

    They share the memory of what the session has read, so each session needs its own. ``hidden``
    names variables that commands must not see.
    """
    seen = Seen()
    tools: list[AgentTool] = [
        Read(seen),
        Write(seen),
        Edit(seen),
        Bash(hidden=hidden),
        Grep(),
        Glob(),
    ]
    return {tool.spec.name: tool for tool in tools}
