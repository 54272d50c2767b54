"""A place to call tools from: a workspace, a spool, and everything that a call hands out."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.model.message import Text
from holdfast.runtime.tools.base import AgentTool, Call, Done
from holdfast.runtime.tools.registry import standard_tools
from holdfast.runtime.tools.workspace import Workspace


class Desk:
    """Calls tools, one after the other, each with an id of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "workspace"
        self.root.mkdir()
        self.spool = folder / "session" / "spool"
        self.blobs: dict[str, bytes] = {}
        self.shown: list[str] = []
        self.tools = standard_tools()
        self.allowed: tuple[Path, ...] = ()
        self.calls = 0

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.root, self.allowed)

    def keep(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        self.blobs[name] = data
        return name

    def call(self, arguments: dict[str, Any], show: Callable[[str], None] | None = None) -> Call:
        self.calls += 1
        return Call(
            id=f"call-{self.calls}",
            arguments=arguments,
            workspace=self.root,
            spool=self.spool,
            show=show or self.shown.append,
            keep=self.keep,
            allowed=self.allowed,
        )

    def run(self, tool: str | AgentTool, **arguments: Any) -> Done:
        chosen = self.tools[tool] if isinstance(tool, str) else tool
        return asyncio.run(chosen.run(self.call(arguments)))

    def file(self, name: str, content: str | bytes = "") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path


def text_of(done: Done) -> str:
    part = done.content[0]
    assert isinstance(part, Text)
    return part.text


def alive(pid: int) -> bool:
    """Tell whether a process runs; one that only waits to be collected does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
