"""A home with runners, and callers who speak to them: real processes, real sockets."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from glob import glob
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from holdfast.model.ids import new_session_id
from holdfast.model.message import Text
from holdfast.runtime.config.run_options import RunOptions
from holdfast.runtime.protocol import messages as protocol
from holdfast.runtime.protocol.client import Connection, connect, new_request_id
from holdfast.runtime.protocol.socket_path import socket_path
from holdfast.runtime.providers.catalog import SECRET_VARIABLES
from holdfast.runtime.runner.launch_options import IdleTimeouts
from holdfast.runtime.runner.spawn import Launch, connect_or_start
from tests.cli.program import alive, entries, until

T = TypeVar("T")
_PATIENCE_SECONDS = 60.0
_callers: list[Caller] = []


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a test that speaks to runners, and hang up on all of them at the end."""

    async def whole() -> T:
        try:
            async with asyncio.timeout(2 * _PATIENCE_SECONDS):
                return await work
        finally:
            while _callers:
                await _callers.pop().close()

    return asyncio.run(whole())


class Caller:
    """A client that keeps all it hears."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.heard: list[dict[str, Any]] = []
        self.gone = False
        self._news = asyncio.Condition()
        self._listening = asyncio.ensure_future(self._listen())
        _callers.append(self)

    @property
    def pid(self) -> int:
        assert self.connection.hello.pid is not None
        return self.connection.hello.pid

    async def _listen(self) -> None:
        while (event := await self.connection.next_event()) is not None:
            self.heard.append(on_the_wire(event))
            async with self._news:
                self._news.notify_all()
        self.gone = True
        async with self._news:
            self._news.notify_all()

    async def ask(self, kind: type[Any], **fields: Any) -> dict[str, Any]:
        request = kind(**{"id": new_request_id(), **fields})
        reply: dict[str, Any] = msgspec.to_builtins(await self.connection.request(request))
        return reply

    async def attach(self, after: int = -1, **fields: Any) -> None:
        await self.ask(protocol.Attach, after=after, **fields)
        await self.hears(type="state")

    async def attach_to_broadcaster(self, after: int = -1, **fields: Any) -> None:
        """The same where there is nobody to say how things stand."""
        await self.ask(protocol.Attach, after=after, **fields)
        await self.hears(type="caught_up")
        await self.ask(protocol.StatusOf)  # what was streamed has come, too

    async def submit(self, text: str, **fields: Any) -> int:
        answer = await self.ask(protocol.Submit, content=[Text(text=text)], **fields)
        return int(answer["seq"])

    async def ask_status(self) -> dict[str, Any]:
        status: dict[str, Any] = (await self.ask(protocol.StatusOf))["status"]
        return status

    async def hears(self, times: int = 1, **fields: Any) -> dict[str, Any]:
        """Wait until something with these fields was heard so often; return the last."""
        return (await self.until(lambda: _fitting(self.heard, fields)[times - 1 :], fields))[0]

    async def until(self, condition: Callable[[], T], what: object = "it") -> T:
        """Wait for a condition on what was heard."""
        async with self._news, asyncio.timeout(_PATIENCE_SECONDS):
            while not (found := condition()):
                assert not self.gone, f"the runner hung up before {what}: {self.heard[-3:]}"
                await self._news.wait()
        return found

    async def rests(self) -> None:
        """Wait until the runner has nothing to do, by asking it, as one who is not attached."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            status = await self.ask_status()
            while status["state"] != "idle" or status["queue"]:
                await asyncio.sleep(0.01)
                status = await self.ask_status()

    async def hung_up(self) -> None:
        """Wait for the end of the connection."""
        async with self._news, asyncio.timeout(_PATIENCE_SECONDS):
            while not self.gone:
                await self._news.wait()

    def all(self, **fields: Any) -> list[dict[str, Any]]:
        return _fitting(self.heard, fields)

    @property
    def seqs(self) -> list[int]:
        return [each["entry"]["seq"] for each in self.all(type="entry")]

    @property
    def notes(self) -> list[str]:
        return [each["text"] for each in self.all(type="note")]

    def live(self, kind: str) -> str:
        """All text of a kind that was streamed; what comes twice is held against itself."""
        text = ""
        for each in self.all(type="live", kind=kind):
            text += each["text"]
        return text

    async def close(self) -> None:
        await self.connection.close()
        await self._listening


def on_the_wire(event: protocol.RunnerEvent) -> dict[str, Any]:
    """The fields of an event as they were sent; of an entry also its line."""
    if isinstance(event, protocol.EntryEvent):
        return {"type": "entry", "entry": event.fields, "line": event.line}
    fields: dict[str, Any] = msgspec.to_builtins(event)
    return fields


def _fitting(heard: list[dict[str, Any]], fields: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in heard if all(each.get(k) == v for k, v in fields.items())]


def office_on_disk() -> Iterator[Office]:
    """Give a home with runners, far from this machine's own settings and keys.

    Its path is short, as homes are; pytest's own folders have longer ones than a socket can bear.
    """
    root = Path(tempfile.mkdtemp(prefix="office-"))
    office = Office(root)
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name in (*SECRET_VARIABLES, "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        monkeypatch.setenv("HOLDFAST_CONFIG", str(root / "config"))
        try:
            yield office
        finally:
            office.close()
            shutil.rmtree(root, ignore_errors=True)


class Office:
    """Runners of one home; all that were spoken to are ended at the end."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.workspace = root / "work"
        self.workspace.mkdir(parents=True, exist_ok=True)
        self.id = new_session_id()
        self.pids: set[int] = set()

    def launch(
        self,
        session: str | None = None,
        *,
        idle: float = 60.0,
        question: float = 600.0,
        most: int = 50,
        **wishes: Any,
    ) -> Launch:
        wishes = {"attended": True, "allow_all": True, **wishes}
        return Launch(
            home=str(self.home),
            session=session or self.id,
            workspace=str(self.workspace),
            is_new=True,
            wishes=RunOptions(**wishes),
            patience=IdleTimeouts(idle, question),
            most_runners=most,
        )

    async def call(self, launch: Launch | None = None, **options: Any) -> Caller:
        """Speak to the session's runner, started if there is none."""
        return self._known(Caller(await connect_or_start(launch or self.launch(**options))))

    async def begin(self, **options: Any) -> int:
        """Start a runner; return its process."""
        caller = await self.call(**options)
        await caller.close()
        return caller.pid

    async def call_again(self, session: str | None = None) -> Caller:
        """Speak to the runner that is there."""
        return self._known(Caller(await connect(self.socket(session), {})))

    def _known(self, caller: Caller) -> Caller:
        self.pids.add(caller.pid)
        return caller

    def socket(self, session: str | None = None) -> Path:
        return socket_path(self.home, session or self.id)

    def kill(self, pid: int, number: signal.Signals = signal.SIGKILL) -> None:
        """Kill a runner and see it end."""
        os.kill(pid, number)
        self.ended(pid)

    def ended(self, pid: int) -> None:
        until(lambda: not alive(pid), f"the end of {pid}")

    def close(self) -> None:
        for pid in self.pids:
            if alive(pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                self.ended(pid)

    # What is on disk

    def file(self, name: str) -> Path:
        return self.workspace / name

    def lines(self, name: str) -> list[str]:
        path = self.file(name)
        return path.read_text().splitlines() if path.exists() else []

    def journal(self, session: str | None = None) -> list[dict[str, Any]]:
        (path,) = glob(f"{self.home}/sessions/*/{session or self.id}/journal.jsonl")
        return entries(Path(path).read_bytes())

    def script(self, *steps: dict[str, Any]) -> str:
        path = self.workspace.parent / "script.jsonl"
        path.write_text("".join(json.dumps(step) + "\n" for step in steps))
        return str(path)

    def log(self) -> str:
        return self.socket().with_suffix(".log").read_text()


def gate(name: str) -> str:
    """A command that leaves a line, then waits for a file."""
    return f"echo begun >> {name}.begun; while ! [ -e {name}.go ]; do sleep 0.02; done"
