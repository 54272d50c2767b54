"""The agent loop: what it adds to a provider's own time, what streaming costs, how soon it asks."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import holdfast
from benchmarks.harness import Bench, Result, at_most
from holdfast.model.message import AnyPart, Message, Text, ToolCall
from holdfast.runtime.agent.agent import Agent
from holdfast.runtime.agent.services import TurnServices
from holdfast.runtime.policy.policy import Policy
from holdfast.runtime.providers.base import Finished, TextDelta, TokenCounts

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator
    from pathlib import Path

    from holdfast.runtime.providers.base import Delta, Request

_TOKENS_A_SECOND = 100


class _Timed:
    """A provider whose own time is measured, so that it can be taken off.

    It says ``tokens`` words with ``pause_seconds`` between them and calls a tool ``rounds`` times.
    """

    name = "timed"
    endpoint: str | None = None

    def __init__(self, rounds: int, tokens: int, pause_seconds: float = 0.0) -> None:
        self._left = rounds
        self._tokens = tokens
        self._pause_seconds = pause_seconds

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Yield the words, then a call of ``read`` or the end."""
        words = [f"word{number} " for number in range(self._tokens)]
        for word in words:
            if self._pause_seconds:
                await asyncio.sleep(self._pause_seconds)
            yield TextDelta(word)
        content: list[AnyPart] = [Text(text="".join(words))]
        stop = "end"
        if self._left:
            self._left -= 1
            stop = "tool_calls"
            content.append(ToolCall(id=f"c{self._left}", name="read", arguments={"path": "a"}))
        message = Message(role="assistant", content=content, model=request.model, stop=stop)
        yield Finished(message, TokenCounts(10, self._tokens))

    async def close(self) -> None:
        """Do nothing."""


def loop(bench: Bench) -> Iterator[Result]:
    """A turn of many messages; a slow stream; the way from the command to the request."""
    yield from _messages(bench)
    yield from _streaming(bench)
    yield from _first_request(bench)


def _messages(bench: Bench) -> Iterator[Result]:
    rounds = 25
    folder = bench.fresh("loop")
    (folder / "a").write_text("one line\n")
    store = holdfast.open_store(folder / "home")

    def ours() -> float:
        with store.create(workspace=folder) as session:
            began = time.perf_counter()
            asyncio.run(_turn(session, folder, _Timed(rounds, 1)))
            return (time.perf_counter() - began) / (2 * rounds + 2)

    def floor() -> float:
        line = b"x" * 400 + b"\n"
        descriptor = os.open(folder / "floor", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        began = time.perf_counter()
        for _ in range(2 * rounds + 2):
            os.write(descriptor, line)
            os.fdatasync(descriptor)
        took = time.perf_counter() - began
        os.close(descriptor)
        return took / (2 * rounds + 2)

    samples = bench.interleave("the loop", bench.amount(21, 7), {"ours": ours, "floor": floor})
    yield Result(
        name="loop, a message (provider takes no time)",
        ours=samples.median("ours"),
        unit="seconds",
        floor=samples.median("floor"),
        goal=at_most(0.003, "seconds"),
    )


async def _turn(session: holdfast.Session, workspace: Path, provider: _Timed) -> None:
    equipment = TurnServices(
        session=session,
        provider=provider,
        model="timed",
        workspace=workspace,
        policy=Policy("allow-all"),
    )
    outcome = await Agent(equipment).prompt([Text(text="go")])
    assert outcome.state == "completed", outcome


def _streaming(bench: Bench) -> Iterator[Result]:
    seconds = bench.amount(5, 2)
    folder = bench.fresh("streaming")
    store = holdfast.open_store(folder / "home")
    pause_seconds = 1 / _TOKENS_A_SECOND

    async def bare() -> None:
        for _ in range(seconds * _TOKENS_A_SECOND):
            await asyncio.sleep(pause_seconds)

    def ours() -> float:
        with store.create(workspace=folder) as session:
            provider = _Timed(0, seconds * _TOKENS_A_SECOND, pause_seconds)
            return _share(lambda: asyncio.run(_turn(session, folder, provider)))

    samples = bench.interleave(
        "streaming",
        bench.amount(5, 1),
        {"ours": ours, "floor": lambda: _share(lambda: asyncio.run(bare()))},
    )
    yield Result(
        name=f"streaming {_TOKENS_A_SECOND} tokens/s, share of a core",
        ours=100 * samples.median("ours"),
        unit="%",
        floor=100 * samples.median("floor"),
        goal=at_most(3.0, "%"),
    )


def _share(work: Callable[[], None]) -> float:
    """Return which part of a core a piece of work takes while it runs."""
    cpu, began = time.process_time(), time.perf_counter()
    work()
    return (time.process_time() - cpu) / (time.perf_counter() - began)


def _first_request(bench: Bench) -> Iterator[Result]:
    folder = bench.fresh("request")
    for provider in ("anthropic", "openai"):  # the names of their packages, too
        samples = bench.interleave(
            f"first request to {provider}",
            bench.amount(7, 3),
            {
                "ours": partial(_until_asked, folder, provider),
                "floor": partial(_import, provider),
            },
        )
        yield samples.result(f"-p to the first request, {provider}", "seconds", at_most(2.0))


def _import(module: str) -> float:
    """Return how long a fresh interpreter takes to start and import an SDK."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True, env=_environment())
    return time.perf_counter() - began


def _until_asked(folder: Path, provider: str) -> float:
    """Return the time from the start of the command to the first byte of its request."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        asked: list[float] = []

        def wait() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1)
                asked.append(time.perf_counter())

        waiting = threading.Thread(target=wait)
        waiting.start()
        began = time.perf_counter()
        command = [sys.executable, "-m", "holdfast", "-p", "hello", "--provider", provider]
        process = subprocess.Popen(
            [*command, "--base-url", address, "--model", "some-model", "--ephemeral"],
            env=_environment(),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        waiting.join(timeout=60)
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=30)
    return asked[0] - began


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
