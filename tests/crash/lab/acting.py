"""A turn whose tool does something in the world, and a command under its wrapper.

``Act``: an agent runs a turn; its tool says when it acts. By then it must be on the disk that the
call was approved and that it was begun. ``Wrap``: the wrapper of commands runs here. When
its command runs, the file that says which process it is must be on the disk, whole.
"""

from __future__ import annotations

import asyncio
import functools
import os
from pathlib import Path

import holdfast
from holdfast.runtime.agent.agent import Agent
from holdfast.runtime.agent.services import Question, TurnServices
from holdfast.runtime.policy.policy import Policy
from holdfast.runtime.providers.base import Finished, TokenCounts
from holdfast.runtime.tools.base import Call, Done, Effect
from holdfast.runtime.tools.shell import wrapper
from holdfast.runtime.tools.shell.spool import prepare
from tests.crash.lab.scenario import Actor
from tests.runtime.bench import FakeProvider, FakeTool

SPOOL_NAME = "spool"
_EFFECTS: tuple[Effect, ...] = ("unknown", "reads")  # what only reads is not announced


class Act(Actor):
    """Lets an agent act."""

    def _live(self) -> None:
        session = self._store.create(provider="fake", model="none")
        self._witness.say("intends", self.name, 0, "create", {"session": session.id})
        try:
            self._append(session)
            for effect in _EFFECTS:
                call_id = self.label("call")
                turn = functools.partial(self._turn, session, call_id, effect)
                self.call("turn", turn, call_id=call_id)
            self._append(session)
        finally:
            self.call("close", session.close)

    def _turn(self, session: holdfast.Session, call_id: str, effect: Effect) -> None:
        asyncio.run(self._prompt(session, call_id, effect))

    async def _prompt(self, session: holdfast.Session, call_id: str, effect: Effect) -> None:
        async def act(_: Call) -> Done:
            self.call("effect", lambda: None, call_id=call_id, effect=effect)
            return Done([holdfast.Text(text="It is done.")], "completed")

        async def yes(_: Question) -> bool | None:
            return True

        wish = holdfast.ToolCall(id=call_id, name="bash", arguments={"command": "make"})
        asked = holdfast.Message(role="assistant", content=[wish], stop="tool_calls")
        ended = holdfast.Message(role="assistant", content=[holdfast.Text(text="Done.")])
        agent = Agent(
            TurnServices(
                session=session,
                provider=FakeProvider([_finished(asked)], [_finished(ended)]),
                model="none",
                workspace=Path(__file__).parent,
                tools={"bash": FakeTool(act, effect, name="bash")},
                policy=Policy("ask"),
                ask=yes,
            )
        )
        try:
            await agent.prompt([holdfast.Text(text="Go.")])
        finally:
            await agent.close()


def _finished(message: holdfast.Message) -> Finished:
    return Finished(message, TokenCounts(0, 0))


class Wrap(Actor):
    """Is the wrapper of a command; the process is of no use afterwards."""

    def _live(self) -> None:
        session = self._store.create(provider="fake", model="none")
        self._witness.say("intends", self.name, 0, "create", {"session": session.id})
        self._append(session)
        call_id = self.label("call")
        folder = prepare(session.path / SPOOL_NAME, call_id)
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)  # where it tells its parent

        def become(shell: str, command: str, output: int, held: int, go: int) -> None:
            del shell, command, output
            os.close(go)
            if os.read(held, 1):
                self._witness.say("ran", self.name, call_id)
            os._exit(0)

        vars(wrapper)["become"] = become
        arguments = [str(folder), "0", "1", str(1 << 20), "/bin/sh", "true"]
        self.call("command", lambda: wrapper.main(arguments), call_id=call_id)
        self.call("close", session.close)
