"""A turn that is watched: what the model says and the tool prints is known to the last character.

The model is a server on loopback. It says half of its first text and waits; goes on, and calls a
tool, which waits in the middle of its output; and ends the turn with a second text.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import holdfast
from holdfast.errors import HoldfastError
from holdfast.runtime.protocol.client import Connection, connect, new_request_id
from holdfast.runtime.protocol.messages import Stop
from holdfast.runtime.protocol.socket_path import socket_path
from tests.cli.vendor import Vendor, vendor_on_loopback
from tests.crash.lab.tally import Tally
from tests.crash.lab.terminals import is_alive, until
from tests.runtime.providers.wire import Reply, call, chat_reply

T = TypeVar("T")
PROMPT = "go"
_ROOT = Path(__file__).resolve().parents[3]
_HANDED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "VIRTUAL_ENV")
_WORDS = ("soon", "größer", "日本", "e\u0301", "🙂", "|", "tab\tbed", "\n", "  ", "end.")
_PIECES = 40
_COMMAND = "echo ran >> {effect}; echo begun; while ! [ -e {go} ]; do sleep 0.02; done; echo ended"
_BEGUN, _ENDED = "begun\n", "ended\n"


class WatchedTurn:
    """A home, a project, a model, and a turn that has not begun yet."""

    def __init__(self, folder: Path, chance: random.Random, *, long: int, mutant: str) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.project = folder / "project"
        self._mutant = mutant
        self.first = _pieces(chance, "first")
        self.second = _pieces(chance, "second")
        self.later = _pieces(chance, "later")
        self.first += [f"{number:07d} " * 4000 for number in range(long)]
        for part in (self.home, self.project, folder / "config"):
            part.mkdir(parents=True)
        self._go = self.project / "go"
        self._effect = self.project / "effect"
        names = {"effect": self._effect.name, "go": self._go.name}
        self.command = _COMMAND.format(**names)
        self.vendor: Vendor

    # The model

    def replies(self) -> list[Reply]:
        """Return what the model says, in the order of the requests."""
        texts: list[dict[str, Any]] = [{"content": piece} for piece in self.first]
        arguments = json.dumps({"command": self.command})
        return [
            chat_reply(
                [*texts, call(0, "call-1", "bash", arguments)], "tool_calls", pause=_PIECES // 2
            ),
            chat_reply([{"content": piece} for piece in self.second]),
        ]

    @property
    def half(self) -> str:
        """Return what of the first text comes before the pause."""
        return "".join(self.first[: _PIECES // 2])

    @property
    def told(self) -> str:
        """Return the whole session as a terminal has to show it."""
        first, second = "".join(self.first), "".join(self.second)
        return (
            f"> before\nSomething.\n> {PROMPT}\n{first}\n· bash {self.command}\n"
            f"{_BEGUN}{_ENDED}{second}\n"
        )

    @property
    def told_to_the_pause(self) -> str:
        """Return what a terminal shows while the model pauses."""
        return self.told[: self.told.index(self.half) + len(self.half)]

    @property
    def told_to_the_tool(self) -> str:
        """Return what a terminal shows while the tool waits."""
        return self.told[: self.told.index(f"\n{_BEGUN}") + 1 + len(_BEGUN)]

    def release_tool(self) -> None:
        """Let the tool come to its end."""
        self._go.touch()

    @contextmanager
    def on_stage(self, *replies: Reply) -> Iterator[None]:
        """Have the model listen, and end the runner behind it."""
        with vendor_on_loopback(*replies) as self.vendor:
            (self.folder / "config" / "config.toml").write_text(
                f'provider = "openai"\nmodel = "served-model"\nmode = "allow-all"\n'
                f"context_tokens = 10000000\n"  # nothing is to be summed up
                f'base_url = "{self.vendor.url}/v1"\n'
            )
            try:
                yield
            finally:
                self.release_tool()
                self._end_runner()

    # The program

    def script(self, *words: str) -> Callable[[Path, str], str]:
        """Return what makes the shell script that runs the program on a terminal."""

        def made(notes: Path, before: str) -> str:
            given = " ".join(
                f"{name}={shlex.quote(value)}" for name, value in self.environment.items()
            )
            program = [sys.executable, "-m", "tests.crash.lab.program", str(notes), self._mutant]
            return (
                f"cd {shlex.quote(str(self.project))}\nexport {given}\n{before}\n"
                f"exec {shlex.join([*program, *words])}\n"
            )

        return made

    @property
    def environment(self) -> dict[str, str]:
        """What the program is given: nothing of this machine but where to find things."""
        kept = {name: os.environ[name] for name in _HANDED_ON if name in os.environ}
        return kept | {
            "HOME": str(self.folder),
            "HOLDFAST_HOME": str(self.home),
            "HOLDFAST_CONFIG": str(self.folder / "config"),
            "PYTHONPATH": f"{_ROOT / 'src'}:{_ROOT}",
            "PYTHONIOENCODING": "utf-8",
            "OPENAI_API_KEY": "none",
        }

    def make_session(self) -> str:
        """Make a session that has been used before; return its id."""
        store = holdfast.open_store(self.home)
        with store.create(workspace=self.project) as session:
            session.append(holdfast.user("before"))
            session.append(holdfast.assistant("Something."))
        return session.id

    # The runner

    def runner_pid(self) -> int | None:
        """Ask the runner for its number; ``None`` if there is none."""

        async def number(connection: Connection) -> int:
            assert connection.hello.pid is not None
            return connection.hello.pid

        return self._with_runner(number)

    def _with_runner(self, work: Callable[[Connection], Awaitable[T]]) -> T | None:
        async def whole() -> T | None:
            for path in sorted(self.home.glob("sessions/*/*")):
                with suppress(HoldfastError):
                    connection = await connect(socket_path(self.home, path.name), {})
                    try:
                        return await work(connection)
                    finally:
                        await connection.close()
            return None

        return asyncio.run(whole())

    def _end_runner(self) -> None:
        pid = self.runner_pid()
        if pid is None:
            return

        async def stop(connection: Connection) -> None:
            await connection.request(Stop(id=new_request_id()))

        with suppress(HoldfastError):
            self._with_runner(stop)
        try:
            until(lambda: not is_alive(pid), "the end of the runner")
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    # What came of it

    def live_text(self) -> str:
        """Return what is in the live file."""
        text = ""
        for path in self.home.glob("sessions/*/*/live.jsonl"):
            lines = path.read_bytes().split(b"\n")[:-1]
            text += "".join(json.loads(line).get("text", "") for line in lines)
        return text

    def judge_journal(self, tally: Tally, answers: list[str], ends: list[str]) -> None:
        """Hold the journal against what the model said, and count what was run."""
        store = holdfast.open_store(self.home)
        (summary,) = store.list()
        with store.open(summary.id, mode="read") as session:
            said = [message.text for message in session.messages if message.role == "assistant"]
            with session.follow(wait=False) as follower:
                bodies = [each.body for each in follower if isinstance(each, holdfast.Entry)]
        tally.acknowledged += len(bodies)
        found = [body.state for body in bodies if isinstance(body, holdfast.Turn)]
        if found != ends:
            tally.break_(f"the turn went {found}, not {ends}")
        self._compare(tally, "".join(said), "".join(answers), "the journal")
        if not store.verify(summary.id).ok:
            tally.break_("verify finds damage")

    def judge_effect(self, tally: Tally, most: int = 1, least: int = 1) -> None:
        """Count how often the tool has run."""
        times = len(self._effect.read_text().splitlines()) if self._effect.exists() else 0
        if times > most:
            tally.repeat(f"the tool has run {times} times")
        if times < least:
            tally.lose("the tool has never run")

    def judge_screen(self, tally: Tally, shown: str, *, whole: bool) -> None:
        """Compare what a terminal showed, to its end or to its death."""
        if not whole:  # cut off; but whoever can says that the turn goes on
            shown, note, _ = shown.partition("holdfast: still running")
            shown = shown.removesuffix("\n") if note else shown
        told = self.told if whole else self.told[: len(shown)]
        self._compare(tally, shown, told, "a terminal")
        tally.count("characters compared", len(told))

    def _compare(self, tally: Tally, found: str, told: str, where: str) -> None:
        if found == told:
            return
        pairs = enumerate(zip(found, told, strict=False))
        shorter = min(len(found), len(told))
        place = next((number for number, (one, other) in pairs if one != other), shorter)
        around = slice(max(0, place - 20), place + 60)
        here = f"at {place} of {len(told)}: {found[around]!r}"
        expected = f"expected {told[around]!r}"
        if len(found) > len(told) and found.endswith(told[place:]):
            tally.repeat(f"{where} has something twice, {here}; {expected}")
        else:
            tally.lose(f"{where} has not what was said, {here}; {expected}")


def _pieces(chance: random.Random, name: str) -> list[str]:
    """Return a text in pieces, no two of them alike; it ends within a line."""
    return [f"{name} {number} {chance.choice(_WORDS)} " for number in range(_PIECES - 1)] + ["end."]
