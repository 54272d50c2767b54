"""A whole runner in this very process, on a disk that can be held up or filled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from holdfast import open_store
from holdfast.runtime.protocol.broadcast import Broadcaster
from holdfast.runtime.protocol.client import connect
from holdfast.runtime.runner import main as process
from holdfast.runtime.runner.runner import Runner
from holdfast.store.session import Session
from tests.fakes import FakeFiles
from tests.runtime.runner.runner_clients import Caller, Office


class FakeHeldFiles(FakeFiles):
    """A disk whose syncs can be held up: those of the writer, not of whoever only reads."""

    def __init__(self) -> None:
        super().__init__()
        self._go = threading.Event()
        self._go.set()

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """Let nothing become durable for a while."""
        self._go.clear()
        try:
            yield
        finally:
            self._go.set()

    def sync(self, descriptor: int) -> None:
        if not threading.current_thread().name.startswith("asyncio"):
            self._go.wait()
        super().sync(descriptor)


class Inside:
    """The runner, and ways to speak to it."""

    def __init__(self, office: Office, begun: process.LiveRunner) -> None:
        self._office = office
        self.runner: Runner = begun.runner
        self.session: Session = begun.session
        self.broadcaster: Broadcaster = begun.broadcaster

    async def call(self, **attach: Any) -> Caller:
        """A client that has attached, if it is said how."""
        caller = Caller(await connect(self._office.socket(), {}))
        if attach:
            await caller.attach(**attach)
        return caller


@asynccontextmanager
async def runner_inside(
    office: Office, monkeypatch: pytest.MonkeyPatch, files: FakeFiles, **options: Any
) -> AsyncIterator[Inside]:
    """Be a runner for a while."""
    monkeypatch.setattr(process, "open_store", lambda home: open_store(home, files=files))
    begun = await process.begin(office.launch(**options))
    assert begun is not None
    living = asyncio.ensure_future(begun.live())
    try:
        yield Inside(office, begun)
    finally:
        begun.runner.stop("the test is over")
        await living
