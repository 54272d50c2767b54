"""Several processes at once, forked from this one: told what to do, stopped, killed, and heard.

All of them speak into one pipe, in whole lines, so that the order of the lines is an order in which
things may have happened: who says *holds* before another says *holds* had the lock before.

    ["kind", name of the player, …]
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.crash.lab.witness import Witness

LONGEST_SILENCE_SECONDS = 20.0
"""A player who does not answer for so long hangs: nothing in the store waits for more than 1 s."""


class StuckError(Exception):
    """A player did not answer."""


class Part:
    """What a player has in hand: a home, a voice, and an ear for cues."""

    def __init__(self, name: str, home: Path, witness: Witness, cues: int) -> None:
        self.name = name
        self.home = home
        self.cues = cues
        self._witness = witness
        self._lines = os.fdopen(cues, "r", closefd=False)

    def say(self, kind: str, *words: Any) -> None:
        """Say something that everybody will hear."""
        self._witness.say(kind, self.name, *words)

    def cue(self) -> list[Any]:
        """Wait for the next cue; the process ends if there will be none."""
        line = self._lines.readline()
        if not line:
            os._exit(0)
        words: list[Any] = json.loads(line)
        return words

    def renamed(self, name: str, cues: int) -> Part:
        """Return the part of a process that this one forks."""
        return Part(name, self.home, self._witness, cues)


Play = Callable[[Part], None]


def perform(part: Part, play: Play) -> None:
    """Play a part to its end, and with it end this process."""
    try:
        play(part)
    except BaseException:  # noqa: BLE001  whatever it is, it is told
        part.say("fell", traceback.format_exc()[-3000:])
    os._exit(0)


class Player:
    """One process, as the director sees it."""

    def __init__(self, company: Company, name: str, cues: int) -> None:
        self.name = name
        self.pid = 0
        self.reaped = True  # until it is a child of ours
        self._company = company
        self._cues = cues

    def cue(self, *words: Any) -> None:
        """Tell it what to do next."""
        os.write(self._cues, json.dumps(words).encode() + b"\n")

    def do(self, *words: Any) -> list[Any]:
        """Tell it what to do, and return what it says to end that."""
        begin = len(self._company.said)
        self.cue(*words)
        return self._company.answer(self.name, begin)

    def signal(self, number: int) -> None:
        """Send it a signal; it has not been waited for, so that its number is still its own."""
        if not self.reaped:
            os.kill(self.pid, number)

    def stop(self) -> None:
        """Stop it; it stands still on return."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def kill(self) -> None:
        """Kill it. On return it is dead, but nobody has taken note: its number is still in use."""
        self._company.say("kills", self.name)
        self.signal(signal.SIGKILL)
        self.await_death()

    def await_death(self) -> None:
        """Wait until it is dead, and leave it so that its number is still in use."""
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        self._company.say("dead", self.name)

    def leave(self) -> None:
        """Give no more cues, which ends it."""
        if self._cues >= 0:
            os.close(self._cues)
            self._cues = -1

    def end(self) -> None:
        """End it, whatever it is doing."""
        self.leave()
        if not self.reaped:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.reaped = True


class Company:
    """The players of one case, and all that they said. Use it in a ``with`` block."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.said: list[list[Any]] = []
        self.players: dict[str, Player] = {}
        self._ear, self._mouth = os.pipe()
        self._waiting = b""

    def enter(self, name: str, play: Play, heirs: Sequence[str] = ()) -> Player:
        """Let a process play; ``heirs`` are players that it will fork itself.

        The descriptors of their cues are handed to the play through ``Part.cue``: it is told
        ``["heirs", {name: descriptor}]`` first.
        """
        ends = {each: os.pipe() for each in (name, *heirs)}
        pid = os.fork()
        if pid == 0:
            os.close(self._ear)
            for player in self.players.values():
                player.leave()
            for _, writing in ends.values():
                os.close(writing)
            part = Part(name, self.home, Witness(self._mouth), ends[name][0])
            perform(part, play)
        for each, (reading, writing) in ends.items():
            self.players[each] = Player(self, each, writing)
            os.close(reading)
        player = self.players[name]
        player.pid, player.reaped = pid, False
        if heirs:
            player.cue("heirs", {each: ends[each][0] for each in heirs})
        return player

    def say(self, kind: str, *words: Any) -> None:
        """Put a word of the director behind all that the players have said so far.

        Not through the pipe: a player that never stops talking may have filled it, and nobody else
        empties it.
        """
        while self._hear(0.0):
            pass
        self.said.append([kind, *words])

    def listen(self, seconds: float) -> None:
        """Hear what is said for a while."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._hear(left)

    def listen_until(self, wanted: Callable[[], bool], what: str) -> None:
        """Hear what is said until something is true."""
        end = time.monotonic() + LONGEST_SILENCE_SECONDS
        while not wanted():
            if not self._hear(max(0.0, end - time.monotonic())):
                raise StuckError(f"{what}; last heard: {self.said[-3:]}")

    def answer(self, name: str, begin: int) -> list[Any]:
        """Return the words with which a player ends what it was told to do."""

        def answers() -> list[list[Any]]:
            return [words for words in self.said[begin:] if _is_answer(words, name)]

        self.listen_until(lambda: bool(answers()), f"{name} does not answer")
        return answers()[0]

    def until_all_are_done(self) -> None:
        """Wait until everybody who was not killed has said the last word."""

        def all_done() -> bool:
            done = {words[1] for words in self.said if words[0] in ("done", "fell", "dead")}
            return done >= self.players.keys()

        self.listen_until(all_done, "not everybody comes to an end")

    def _hear(self, seconds: float) -> bool:
        """Wait for words; tell whether there were any."""
        if not select.select([self._ear], [], [], seconds)[0]:
            return False
        data = os.read(self._ear, 65536)
        if not data:
            return False  # nobody is left who could speak
        *lines, self._waiting = (self._waiting + data).split(b"\n")
        self.said += [json.loads(line) for line in lines]
        return True

    @property
    def pids(self) -> dict[int, str]:
        """Names by process number."""
        return {player.pid: name for name, player in self.players.items() if player.pid}

    def close(self) -> None:
        """End everybody."""
        for player in self.players.values():
            player.end()
        os.close(self._mouth)
        while self._hear(LONGEST_SILENCE_SECONDS):
            pass  # heirs are nobody's children: they are gone when the pipe has no writer left
        os.close(self._ear)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


_NOT_AN_ANSWER = frozenset({"tries", "intends", "leaves", "kills", "dead"})


def _is_answer(words: list[Any], name: str) -> bool:
    return words[1] == name and words[0] not in _NOT_AN_ANSWER
