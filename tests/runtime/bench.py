"""A place to run turns: a store on disk, a workspace, and agents, as many as a test needs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import holdfast
from holdfast.files import Files
from holdfast.model.entry import Entry
from holdfast.model.message import Message, Text, ToolCall, ToolResult
from holdfast.runtime.agent.agent import Agent
from holdfast.runtime.agent.services import TurnServices
from holdfast.runtime.agent.turn import Outcome
from holdfast.runtime.config.run_options import Limits
from holdfast.runtime.policy.policy import Policy
from holdfast.runtime.providers.base import (
    Delta,
    Finished,
    Provider,
    Request,
    TokenCounts,
    ToolSpec,
)
from holdfast.runtime.providers.rehearsal import Rehearsal
from holdfast.runtime.tools.base import Call, Done, Effect

T = TypeVar("T")


class Bench:
    """Agents of one session. ``told`` is what people were told beside the journal."""

    def __init__(self, folder: Path, files: Files | None = None) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir(exist_ok=True)
        self.store = holdfast.open_store(folder / "home", files=files)
        self.told: list[str] = []
        self.id: str | None = None

    @contextmanager
    def session(self, *, mode: Any = "write") -> Iterator[holdfast.Session]:
        """Open the session; make it the first time."""
        if self.id is None:
            session = self.store.create(workspace=self.workspace)
        else:
            session = self.store.open(self.id, mode=mode)
        with session:
            self.id = session.id
            yield session

    def equipment(
        self, session: holdfast.Session, provider: Provider | None = None, **options: Any
    ) -> TurnServices:
        given = {"policy": Policy("allow-all"), "tell": self.told.append, **options}
        return TurnServices(
            session=session,
            provider=provider or Rehearsal(),
            model=given.pop("model", "rehearsal"),
            workspace=self.workspace,
            **given,
        )

    def agent(
        self,
        session: holdfast.Session,
        provider: Provider | None = None,
        *,
        limits: Limits | None = None,
        **options: Any,
    ) -> Agent:
        return Agent(self.equipment(session, provider, **options), limits)

    def run(
        self,
        work: Callable[[Agent], Coroutine[Any, Any, T]],
        provider: Provider | None = None,
        **options: Any,
    ) -> T:
        """Open the session, let an agent do something, and close it again."""

        async def main(session: holdfast.Session) -> T:
            agent = self.agent(session, provider, **options)
            try:
                return await work(agent)
            finally:
                await agent.close()

        with self.session() as session:
            return asyncio.run(main(session))

    def prompt(self, text: str, provider: Provider | None = None, **options: Any) -> Outcome:
        return self.run(lambda agent: agent.prompt([Text(text=text)]), provider, **options)

    def entries(self) -> list[Entry]:
        """Return the journal, as another process reads it."""
        assert self.id is not None
        with self.store.open(self.id, mode="read") as session:
            return entries_of(session)

    def file(self, name: str) -> Path:
        return self.workspace / name


def entries_of(session: holdfast.Session) -> list[Entry]:
    """Return what is durable in a session, read from the disk."""
    with session.follow(wait=False) as follower:
        return [one for one in follower if isinstance(one, Entry)]


def shapes(entries: list[Entry]) -> list[str]:
    """Return a word for each entry: what a turn looks like from afar."""
    return [_shape(one.body) for one in entries if one.type not in ("header", "meta", "writer")]


def _shape(body: Any) -> str:
    match body:
        case Message(role="tool", content=[ToolResult(call_id=call_id, outcome=outcome)]):
            return f"{call_id} {outcome}"
        case Message(role=role, stop=stop):
            return role if stop is None else f"{role} {stop}"
        case holdfast.model.entry.Turn(state=state):
            return f"turn {state}"
        case holdfast.model.entry.Tool(call_id=call_id, state=state):
            return f"{call_id} {state}"
        case holdfast.model.entry.Approval(call_id=call_id, decision=decision):
            return f"{call_id} {decision}"
    return type(body).__name__.lower()


def durable(session: holdfast.Session) -> list[str]:
    """Return the shapes of what is durable, and not only written, as far as this process knows."""
    last = session.state.seq
    return shapes([one for one in entries_of(session) if one.seq <= last])


async def comes_before_the_end(event: asyncio.Event, work: asyncio.Future[Any]) -> None:
    """Wait for an event; fail if ``work`` ends without it."""
    waiting = asyncio.ensure_future(event.wait())
    await asyncio.wait({waiting, work}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    assert event.is_set(), "it ended, and what the test waits for never came"


class FakeSlowFiles(Files):
    """A disk whose syncs take long enough to be overtaken by whoever does not wait for them."""

    def sync(self, descriptor: int) -> None:
        time.sleep(0.03)
        super().sync(descriptor)


def results(entries: list[Entry]) -> dict[str, ToolResult]:
    """Return the last result of each call."""
    return {
        part.call_id: part
        for one in entries
        if isinstance(one.body, Message)
        for part in one.body.content
        if isinstance(part, ToolResult)
    }


def text_of(result: ToolResult) -> str:
    return "".join(part.text for part in result.content if isinstance(part, Text))


def saying(text: str, *deltas: Delta) -> list[Delta | Exception]:
    """Return an answer of a scripted provider."""
    message = Message(role="assistant", content=[Text(text=text)], stop="end")
    return [*deltas, Finished(message, TokenCounts(10, 5))]


def calling(*calls: tuple[str, str, Any]) -> list[Delta | Exception]:
    """Return an answer that calls tools: id, name and arguments of each."""
    parts = [ToolCall(id=one, name=name, arguments=given) for one, name, given in calls]
    message = Message(role="assistant", content=list(parts), stop="tool_calls")
    return [Finished(message, TokenCounts(10, 5))]


class FakeProvider:
    """Answers from a list; keeps the requests. ``before`` is called with each of them."""

    name = "fake"
    endpoint: str | None = None

    def __init__(
        self,
        *answers: list[Delta | Exception],
        before: Callable[[Request], None] = lambda _: None,
    ) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []
        self.before = before
        self.closed = False

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        self.requests.append(request)
        self.before(request)
        for each in self.answers.pop(0):
            await asyncio.sleep(0)
            if isinstance(each, Exception):
                raise each
            yield each

    async def close(self) -> None:
        self.closed = True


class FakeTool:
    """A tool that does what a test says."""

    def __init__(
        self,
        work: Callable[[Call], Coroutine[Any, Any, Done]],
        effect: Effect = "unknown",
        name: str = "fake",
    ) -> None:
        self.spec = ToolSpec(name, "For tests.", {"type": "object", "properties": {}})
        self.effect = effect
        self._work = work

    async def run(self, call: Call) -> Done:
        return await self._work(call)

    def subject(self, arguments: dict[str, Any]) -> str:
        return str(arguments.get("what", ""))


def done(text: str, outcome: str = "completed") -> Done:
    return Done([Text(text=text)], outcome)
