"""Sessions in which the rehearsal model changes real files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import holdfast
from holdfast import Text
from holdfast.runtime.agent.agent import Agent
from holdfast.runtime.agent.services import Question, TurnServices, nobody
from holdfast.runtime.policy.policy import Policy
from holdfast.runtime.providers.rehearsal import Rehearsal


async def _agrees(_: Question) -> bool:
    return True


def prompt(
    session: holdfast.Session,
    folder: Path,
    *texts: str,
    allowed: tuple[Path, ...] = (),
    ask: bool = False,
) -> None:
    """Run a turn for each text; with ``ask`` somebody agrees to whatever is asked."""

    async def turns() -> None:
        equipment = TurnServices(
            session,
            Rehearsal(),
            "rehearsal",
            folder,
            "Be good.",
            policy=Policy("allow-all"),
            allowed=allowed,
            ask=_agrees if ask else nobody,
        )
        agent = Agent(equipment)
        for text in texts:
            assert (await agent.prompt([Text(text=text)])).state == "completed"

    asyncio.run(turns())


def write(name: str, content: str) -> str:
    return f"read: {name}\nwrite: {name}\n{content}"


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in folder.iterdir() if path.is_file()}
