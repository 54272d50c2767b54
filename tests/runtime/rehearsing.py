"""Sessions in which the rehearsal model changes real files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import holdfast
from holdfast import Text
from holdfast.runtime.agent import Agent
from holdfast.runtime.equipment import Equipment
from holdfast.runtime.policy import Policy
from holdfast.runtime.providers.rehearsal import Rehearsal


def prompt(
    session: holdfast.Session, folder: Path, *texts: str, allowed: tuple[Path, ...] = ()
) -> None:
    """Run a turn for each text."""

    async def turns() -> None:
        equipment = Equipment(
            session,
            Rehearsal(),
            "rehearsal",
            folder,
            "Be good.",
            policy=Policy("allow-all"),
            allowed=allowed,
        )
        agent = Agent(equipment)
        for text in texts:
            assert (await agent.prompt([Text(text=text)])).state == "completed"

    asyncio.run(turns())


def write(name: str, content: str) -> str:
    return f"read: {name}\nwrite: {name}\n{content}"


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in folder.iterdir() if path.is_file()}
